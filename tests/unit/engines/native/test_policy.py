"""The options of the native engine."""

import pytest

from tests.small_problems import gaussian_run


@pytest.mark.parametrize(
    ("option", "value"), [("fun_eval_start", 1), ("max_fun_evals", 0), ("final_components", 0)]
)
def test_a_value_that_cannot_work_is_refused_with_the_options_name(option, value):
    with pytest.raises(ValueError, match=f"{option}={value}"):
        gaussian_run({option: value})


def test_an_option_that_does_not_exist_is_refused_with_its_name():
    with pytest.raises(ValueError, match=r"no option \['max_evals'\]"):
        gaussian_run({"max_evals": 3})
