"""Log densities that take many points at once."""

from typing import Any

import numpy as np
import pytest

from vbstack import Evaluation, EvaluationError, Problem

POINTS = np.array([[0.0, 1.0], [1.0, -1.0], [2.0, 0.5]])
RNGS = [np.random.default_rng(i) for i in range(3)]


def parabola(points):
    return -np.square(points).sum(axis=1)


def problem(log_density=parabola, **details):
    box: dict[str, Any] = {"plausible_lower_bounds": [-3, -3], "plausible_upper_bounds": [3, 3]}
    return Problem(log_density=log_density, vectorized=True, **{**box, **details})


def test_one_call_has_all_points_and_the_prior_one_each():
    calls = []

    def seen(points):
        calls.append(points.copy())
        return parabola(points)

    target = problem(seen, log_prior=lambda x: float(x[0]))
    made = target.evaluations(POINTS, RNGS)
    assert [one.value for one in made] == [-1.0 + 0, -2.0 + 1, -4.25 + 2]
    assert [one.x for one in made] == [tuple(x) for x in POINTS.tolist()]
    np.testing.assert_array_equal(calls[0], POINTS)
    assert target.evaluate(POINTS[2], RNGS[0]) == (-2.25, None)
    assert [call.shape for call in calls] == [(3, 2), (1, 2)]


def test_noisy_ones_return_two_arrays_and_get_a_generator_for_each_point():
    def noisy(points, rng):
        return parabola(points) + [one.standard_normal() for one in rng], np.arange(1.0, 4.0)

    made = problem(noisy, noisy=True).evaluations(
        POINTS, [np.random.default_rng(i) for i in (7, 8, 9)]
    )
    first = [np.random.default_rng(i).standard_normal() for i in (7, 8, 9)]
    assert [one.value for one in made] == (parabola(POINTS) + first).tolist()
    assert [one.sd for one in made] == [1.0, 2.0, 3.0]


def test_one_bad_value_is_the_failure_of_its_point_alone():
    def partly(points):
        return np.array([-1.0, np.nan, -np.inf])

    first, second, third = problem(partly).evaluations(POINTS, RNGS)
    assert (first.value, third.value) == (-1.0, -np.inf)
    assert isinstance(second, EvaluationError)
    assert second.x.tolist() == [1.0, -1.0]
    assert "returned nan" in str(second)
    sds = problem(lambda x: (parabola(x), np.array([1.0, 0.0, 1.0])), noisy=True)
    assert "standard deviation 0.0" in str(sds.evaluations(POINTS, RNGS)[1])


def test_a_call_that_raises_is_made_point_by_point():
    def fails_beyond(points):
        if (points[:, 0] > 1.5).any():
            raise ValueError("too far")
        return parabola(points)

    first, second, third = problem(fails_beyond).evaluations(POINTS, RNGS)
    assert (first.value, second.value) == (-1.0, -2.0)
    assert "raised ValueError: too far, at x = [2.0, 0.5]" in str(third)


@pytest.mark.parametrize(
    ("answer", "noisy", "message"),
    [
        (lambda x: -1.0, False, r"an array of shape \(\), expected one of shape \(3,\)"),
        (lambda x: parabola(x)[:, None], False, r"shape \(3, 1\), expected one of shape \(3,\)"),
        (lambda x: parabola(x)[:2], False, r"shape \(2,\)"),
        (lambda x: ["a", "b", "c"], False, "expected real numbers"),
        (lambda x: 1j * parabola(x), False, "expected real numbers"),
        (lambda x: np.ma.masked_less(parabola(x), -2), False, "masked"),
        (parabola, True, r"expected a pair of arrays \(values, sds\) for 3 points"),
        (lambda x: (parabola(x), 1.0), True, r"shape \(\), expected one of shape \(3,\)"),
    ],
)
def test_an_answer_of_another_shape_says_what_was_expected(answer, noisy, message):
    made = problem(answer, noisy=noisy).evaluations(POINTS, RNGS)
    for one, x in zip(made, POINTS, strict=True):
        assert isinstance(one, EvaluationError)
        assert one.x.tolist() == x.tolist()
        with pytest.raises(EvaluationError, match=message + ".*because vectorized=True"):
            raise one


def test_the_constraint_takes_one_point_and_is_asked_first():
    calls = []

    def seen(points):
        calls.append(len(points))
        return parabola(points)

    made = problem(seen, constraint=lambda x: bool(x[1] > 0)).evaluations(POINTS, RNGS)
    assert [one.value for one in made] == [-1.0, -np.inf, -4.25]
    assert calls == [2]


def test_others_are_called_point_by_point():
    target = Problem(
        log_density=lambda x: float(x[0]) if x[0] < 1.5 else None,
        plausible_lower_bounds=[-3, -3],
        plausible_upper_bounds=[3, 3],
    )
    first, second, third = target.evaluations(POINTS, RNGS)
    assert isinstance(first, Evaluation)
    assert isinstance(second, Evaluation)
    assert (first.value, second.value) == (0.0, 1.0)
    assert isinstance(third, EvaluationError)
