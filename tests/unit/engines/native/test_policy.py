"""The options of the native engine."""

import numpy as np
import pytest

from tests.small_problems import gaussian_run
from vbstack.engines.native.policy import Policy


@pytest.mark.parametrize(
    ("option", "value"), [("fun_eval_start", 1), ("max_fun_evals", 0), ("final_components", 0)]
)
def test_a_value_that_cannot_work_is_refused_with_the_options_name(option, value):
    with pytest.raises(ValueError, match=f"{option}={value}"):
        gaussian_run({option: value})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("reach", 0), ("reaches", ()), ("reaches", (0.1, -1)), ("finer", 3), ("looks", 2.5)),
        *(("wary", 1), ("tolerance", "small"), ("penalty", -1), ("surprise", True)),
    ],
)
def test_every_option_is_checked_before_a_run(option, value):
    with pytest.raises(ValueError, match=option):
        Policy.of({option: value}, 2)


def test_whole_numbers_may_be_floats_and_a_budget_infinite():
    policy = Policy.of({"max_fun_evals": 13.0, "looks": np.int64(4), "max_iter": np.inf}, 2)
    assert (policy.max_fun_evals, policy.looks) == (13, 4)
    assert isinstance(policy.max_fun_evals, int)
    assert policy.max_iter == np.inf


def test_any_number_of_the_policy_can_be_set_and_others_depend_on_dimension_and_noise():
    few, many, noisy = Policy.of({}, 2), Policy.of({"growth_gain": 0.1}, 8), Policy.of({}, 2, True)
    assert many.growth_gain == 0.1
    assert (few.looks, many.looks, noisy.looks) == (8, 12, 0)
    assert many.own_axes
    assert not few.own_axes


def test_an_option_that_does_not_exist_is_refused_with_its_name():
    with pytest.raises(ValueError, match=r"no option \['max_evals'\]"):
        gaussian_run({"max_evals": 3})


def test_a_warm_up_is_over_when_the_best_value_gained_less_than_a_nat_in_three_iterations():
    policy = Policy.of({}, 2)
    assert not policy.at_the_top([0.0, 0.5, 0.6])
    assert policy.at_the_top([0.0, 0.5, 0.6, 0.9])
    assert not policy.at_the_top([0.0, 0.5, 0.6, 1.1])
