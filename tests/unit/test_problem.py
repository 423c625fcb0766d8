"""Problems: bad ones are refused before anything is launched, with one clear sentence each."""

import pickle
import threading

import numpy as np
import pytest
from scipy.stats import expon, multivariate_normal, norm

from vbstack import EvaluationError, Problem
from vbstack.problem import checked_problem


def quadratic(x):
    return -0.5 * float(np.sum(x**2))


def noisy_quadratic(x, rng):
    return quadratic(x) + 0.1 * rng.standard_normal(), 0.1


def make(**changes):
    good = {
        "log_density": quadratic,
        "plausible_lower_bounds": [-1, -1],
        "plausible_upper_bounds": [1, 1],
    }
    return Problem(**{**good, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"log_density": 3}, "log_density is a int, not a function"),
        ({"plausible_upper_bounds": [1]}, "expected 2 numbers"),
        ({"plausible_lower_bounds": []}, "expected one or more numbers"),
        ({"plausible_lower_bounds": [np.nan, 0]}, "plausible_lower_bounds is \\[nan"),
        ({"plausible_lower_bounds": [2, -1]}, "of 'x1' are reversed or equal"),
        ({"lower_bounds": [5, -9], "upper_bounds": [-5, 9]}, r"\[5.0, -5.0\] of 'x1' are reversed"),
        ({"lower_bounds": [0, -9], "upper_bounds": [9, 9]}, "of 'x1' are not within its hard"),
        ({"lower_bounds": [-1, -2]}, r"'x1' has one hard bound, -1, and .* for example to -0.98"),
        ({"upper_bounds": [None, 1]}, r"'x2' has one hard bound, 1, and .* for example to 0.98"),
        ({"plausible_lower_bounds": None}, "plausible bounds of 'x1' are missing"),
        ({"plausible_lower_bounds": [-1, None]}, "plausible bounds of 'x2' are missing"),
        ({"plausible_lower_bounds": "low"}, "plausible_lower_bounds is 'low', expected numbers"),
        ({"dimension": 3}, "expected 3 numbers"),
        ({"dimension": 0}, "dimension=0 must be a whole number"),
        ({"plausible_upper_bounds": [np.inf, 1]}, "must be finite"),
        ({"names": ("a",)}, "1 names"),
        ({"names": ("a", "a")}, "not unique"),
        ({"names": "ab"}, "names is the string 'ab'"),
    ],
)
def test_bad_problems_are_named(changes, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make(**changes)


def test_one_number_is_for_all_parameters_and_none_for_no_bound():
    problem = Problem(
        quadratic,
        lower_bounds=[0, None, None],
        upper_bounds=[None, 5.0, None],
        plausible_lower_bounds=0.5,
        plausible_upper_bounds=2,
    )
    assert problem.lower_bounds.tolist() == [0.0, -np.inf, -np.inf]
    assert problem.upper_bounds.tolist() == [np.inf, 5.0, np.inf]
    assert problem.plausible_lower_bounds.tolist() == [0.5] * 3
    assert problem.plausible_upper_bounds.tolist() == [2.0] * 3
    with pytest.raises(ValueError, match="read-only"):
        problem.lower_bounds[0] = 1


@pytest.mark.parametrize(
    ("told", "dimension"),
    [
        ({}, 1),
        ({"dimension": 3}, 3),
        ({"names": ("a", "b")}, 2),
        ({"upper_bounds": [None, None, 9, 9]}, 4),
        ({"prior": multivariate_normal([0, 0], np.eye(2))}, 2),
    ],
)
def test_what_else_is_given_tells_the_dimension(told, dimension):
    problem = Problem(quadratic, plausible_lower_bounds=-1, plausible_upper_bounds=1, **told)
    assert problem.dimension == dimension
    assert problem.plausible_upper_bounds.shape == (dimension,)


def full(x, *, rng):
    """Of three parameters; the noise comes from the run's generator."""
    return -0.5 * float(x[0] ** 2 + (x[1] - 2) ** 2 + x[2] ** 2) + rng.standard_normal(), 1.0


def test_fixed_parameters_leave_the_rest_of_the_problem_as_it_is():
    three = Problem(
        full,
        noisy=True,
        prior={"a": norm(0, 1), "b": norm(1, 2), "c": expon()},
        constraint=lambda x: bool(x[1] < x[2]),
    )
    two = three.fixed(b=0.5)
    assert two.names == ("a", "c")
    assert two.lower_bounds.tolist() == [-np.inf, 0.0]
    assert two.noisy
    assert two.takes_rng
    x, rng = np.array([0.3, 0.7]), np.random.default_rng
    value, sd = two.evaluate(x, rng(4))
    assert sd == 1.0
    expected = three.evaluate(np.array([0.3, 0.5, 0.7]), rng(4))[0] - norm(1, 2).logpdf(0.5)
    assert value == pytest.approx(expected)
    assert not two.allows(np.array([0.3, 0.4]))
    one = two.fixed({"a": 0.3})
    assert one.names == ("c",)
    assert one.to_parameters([[0.7], [0.9]]).tolist() == [[0.3, 0.5, 0.7], [0.3, 0.5, 0.9]]
    assert pickle.loads(one.packed()).names == ("c",)


def test_a_joint_prior_is_taken_at_the_fixed_values():
    joint = multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]])
    problem = make(log_prior=joint, names=("a", "b")).fixed(b=0.7)
    x = np.array([0.2, 0.7])
    found = problem.evaluate(x[:1], np.random.default_rng(0))[0]
    assert found == pytest.approx(quadratic(x) + joint.logpdf(x))


@pytest.mark.parametrize(
    ("fixed", "message"),
    [
        ({"c": 1.0}, "there is no parameter 'c'"),
        ({"a": 2.0}, r"2.0 of 'a' is not within its hard bounds \[-1.0, 1.0\]"),
        ({"a": np.nan}, "nan of 'a' is not within"),
        ({"a": 0.0, "b": 0.0}, "all parameters are fixed"),
    ],
)
def test_bad_fixed_values_are_named(fixed, message):
    problem = make(names=("a", "b"), lower_bounds=-1, upper_bounds=1)
    with pytest.raises(ValueError, match=message):
        problem.fixed(fixed)


def ordered(u):
    """Two locations, the second above the first, and a rate."""
    first = norm(0, 5).ppf(u[0])
    return [first, first + expon(scale=2).ppf(u[1]), expon().ppf(u[2])]


def test_a_prior_transform_is_sampled_in_the_unit_cube():
    def log_likelihood(theta, data, *, rng):
        return -0.5 * float(np.sum((theta - data) ** 2)) + rng.standard_normal()

    data = np.array([1.0, 2.0, 0.5])
    problem = Problem.from_prior_transform(
        log_likelihood, ordered, 3, names=("a", "b", "rate"), args=(data,)
    )
    assert problem.names == ("u(a)", "u(b)", "u(rate)")
    assert problem.lower_bounds.tolist() == [0.0] * 3
    assert problem.upper_bounds.tolist() == [1.0] * 3
    u, rng = np.array([0.3, 0.6, 0.9]), np.random.default_rng
    theta = problem.to_parameters(u)
    assert theta.tolist() == ordered(u)
    expected = log_likelihood(theta, data, rng=rng(2))
    assert problem.evaluate(u, rng(2))[0] == pytest.approx(expected)
    several = problem.to_parameters(rng(0).random((5, 3)))
    assert several.shape == (5, 3)
    assert (several[:, 1] > several[:, 0]).all()
    nested = problem.fixed({"u(rate)": 0.5})
    assert nested.to_parameters(u[:2])[2] == pytest.approx(np.log(2))
    assert Problem.from_prior_transform(log_likelihood, ordered, 3).names == ("u1", "u2", "u3")


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (3, "transform is a int, not a function"),
        (lambda u: 1 / 0, "transform raised ZeroDivisionError"),
        (lambda u: [np.inf, 0.0], "transform returned array"),
        (lambda u: {"a": u[0]}, "transform raised TypeError"),
        (lambda u: 1.0, "expected one finite number per parameter"),
    ],
)
def test_bad_prior_transforms_are_named(transform, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Problem.from_prior_transform(quadratic, transform, 2)


def test_points_of_another_dimension_have_no_parameters():
    with pytest.raises(ValueError, match=r"x has shape \(3,\), expected \(n, 2\)"):
        make().to_parameters([1.0, 2.0, 3.0])


@pytest.mark.parametrize("given", [quadratic, lambda x: 0.0, 3, None])
def test_what_is_no_problem_is_refused_with_how_to_make_one(given):
    kind = type(given).__name__
    with pytest.raises(TypeError, match=f"the problem is a {kind}, not a vbstack.Problem: give "):
        checked_problem(given)
    with pytest.raises(TypeError, match=r"Problem\(quadratic, plausible_lower_bounds="):
        checked_problem(quadratic)


@pytest.mark.parametrize(
    ("answer", "noisy", "message"),
    [
        (np.nan, False, "returned nan"),
        (np.inf, False, "returned inf"),
        ([1.0, 2.0], False, "not single numbers"),
        ("high", False, "not single numbers"),
        ((1.0, 0.1), False, "expected a single number because noisy=False"),
        (1.0, True, "expected a pair"),
        ((1.0, 0.0), True, "sd > 0"),
        ((1.0, 0.1, 3), True, "sd > 0"),
    ],
)
def test_unusable_answers_carry_the_point(answer, noisy, message):
    problem = make(log_density=lambda x: answer, noisy=noisy)
    with pytest.raises(EvaluationError, match=message) as caught:
        problem.evaluate(np.array([0.25, 0.5]), np.random.default_rng(0))
    assert caught.value.x.tolist() == [0.25, 0.5]
    assert "0.25" in str(caught.value)


def test_exceptions_of_the_function_carry_the_point():
    def broken(x):
        raise ZeroDivisionError("no data")

    with pytest.raises(EvaluationError, match="raised ZeroDivisionError: no data"):
        make(log_density=broken).check()


def test_priors_arguments_and_generators_are_passed_on():
    rng = np.random.default_rng(3)
    prior = multivariate_normal(np.zeros(2), np.eye(2))
    x = np.array([0.3, -0.4])
    expected = quadratic(x) + prior.logpdf(x)
    assert make(log_prior=prior).evaluate(x, rng)[0] == pytest.approx(expected)
    assert make(log_prior=prior.logpdf).evaluate(x, rng)[0] == pytest.approx(expected)
    scaled = make(log_density=lambda x, a, b=0: a * x[0] + b, args=(2.0,), kwargs={"b": 1.0})
    assert scaled.evaluate(x, rng)[0] == pytest.approx(1.6)
    noisy = make(log_density=noisy_quadratic, noisy=True)
    first = noisy.evaluate(x, np.random.default_rng(1))
    assert first == noisy.evaluate(x, np.random.default_rng(1))
    assert first != noisy.evaluate(x, np.random.default_rng(2))


def test_a_function_cannot_change_the_point_it_is_given():
    def greedy(x):
        x[:] = 99
        return 0.0

    x = np.zeros(2)
    make(log_density=greedy).evaluate(x, np.random.default_rng(0))
    assert x.tolist() == [0, 0]


def test_check_reports_and_says_when_a_function_cannot_be_sent():
    found = make().check(n=4)
    assert len(found.values) == 4
    assert "bytes to send" in str(found)
    lock = threading.Lock()
    with pytest.raises(TypeError, match="cannot be sent to another process"):
        make(log_density=lambda x: float(lock.locked())).check()


@pytest.mark.parametrize(
    "answer",
    [
        np.ma.masked,
        10**400,
        "1.5",
        b"1",
        1j,
        np.datetime64("2020"),
        None,
        np.zeros(0),
        {},
        [1, [2]],
    ],
    ids=str,
)
def test_what_is_no_number_is_refused(answer):
    with pytest.raises(EvaluationError, match="not single numbers|returned"):
        make(log_density=lambda x: answer).evaluate(np.zeros(2), np.random.default_rng(0))


@pytest.mark.parametrize(
    "raised", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), MemoryError()]
)
def test_whatever_is_raised_is_an_error_of_the_evaluation(raised):
    def broken(x):
        raise raised

    with pytest.raises(EvaluationError, match=f"raised {type(raised).__name__}") as caught:
        make(log_density=broken).evaluate(np.zeros(2), np.random.default_rng(0))
    assert "in broken" in caught.value.traceback
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.traceback) == (str(caught.value), caught.value.traceback)


def test_a_prior_that_fails_later_is_called_by_its_name():
    problem = make(log_prior=lambda x: 1 / 0 if x[0] > 8 else 0.0)
    with pytest.raises(EvaluationError, match="log_prior raised ZeroDivisionError"):
        problem.evaluate(np.array([9.0, 0.0]), np.random.default_rng(0))


def test_long_texts_and_control_characters_are_cut_out_of_messages():
    def broken(x):
        raise ValueError("\x1b[31m" + "z" * 5_000_000)

    with pytest.raises(EvaluationError) as caught:
        make(log_density=broken).evaluate(np.zeros(2), np.random.default_rng(0))
    assert len(str(caught.value)) < 1000
    assert "\x1b" not in str(caught.value)
    with pytest.raises(EvaluationError) as caught:
        make(log_density=lambda x: "z" * 5_000_000).evaluate(np.zeros(2), np.random.default_rng(0))
    assert len(str(caught.value)) < 1000


def test_what_the_function_sets_in_numpy_stays_in_it():
    def setting(x):
        np.seterr(all="ignore")
        return 0.0

    before = np.geterr()
    make(log_density=setting).evaluate(np.zeros(2), np.random.default_rng(0))
    assert np.geterr() == before


class Exits(BaseException):
    """An exception, and a number, whose text and value end the process."""

    def __str__(self):
        raise SystemExit

    def __float__(self):
        raise SystemExit

    __repr__ = __str__


def raise_exits(x):
    raise Exits


@pytest.mark.parametrize("function", [raise_exits, lambda x: Exits()])
def test_objects_of_the_users_that_exit_when_looked_at_cost_their_evaluation_only(function):
    with pytest.raises(EvaluationError, match="Exits"):
        make(log_density=function).evaluation(np.zeros(2), np.random.default_rng(0))
