"""Problems: bad ones are refused before anything is launched, with one clear sentence each."""

import pickle
import threading

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from vbstack import EvaluationError, Problem


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
        ({"lower_bounds": [-2, -2]}, "give both or neither"),
        ({"plausible_upper_bounds": [np.inf, 1]}, "must be finite"),
        ({"names": ("a",)}, "1 names"),
        ({"names": ("a", "a")}, "not unique"),
        ({"names": "ab"}, "names is the string 'ab'"),
    ],
)
def test_bad_problems_are_named(changes, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make(**changes)


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


def test_a_prior_that_fails_is_called_by_its_name():
    problem = make(log_prior=lambda x: 1 / 0)
    with pytest.raises(EvaluationError, match="log_prior raised ZeroDivisionError"):
        problem.evaluate(np.zeros(2), np.random.default_rng(0))


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
