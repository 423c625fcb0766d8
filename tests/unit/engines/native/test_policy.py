"""The options of the native engine."""

import pytest

from tests.small_problems import gaussian_run
from vbstack.engines.native.policy import Policy


@pytest.mark.parametrize(
    ("option", "value"), [("fun_eval_start", 1), ("max_fun_evals", 0), ("final_components", 0)]
)
def test_a_value_that_cannot_work_is_refused_with_the_options_name(option, value):
    with pytest.raises(ValueError, match=f"{option}={value}"):
        gaussian_run({option: value})


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
