"""What the runs of a store depend on."""

import json

import numpy as np
import pytest
from scipy.stats import qmc

from vbstack import Plan, Problem
from vbstack.runs.plan import run_seed

PROBLEM = Problem(
    log_density=lambda x: 0.0, plausible_lower_bounds=[-1, 2], plausible_upper_bounds=[1, 6]
)


def plan(**details):
    return Plan(**{"problem": PROBLEM.description(), "seed": 7, "engine": "native", **details})


def test_every_run_has_a_seed_and_a_start_of_its_own_within_the_plausible_box():
    one = plan()
    starts = np.array([one.start(m) for m in range(20)])
    assert len({one.run_seed(m) for m in range(20)}) == 20
    assert one.run_seed(3) == run_seed(7, 3) == plan().run_seed(3)
    assert np.all((starts > [-1, 2]) & (starts < [1, 6]))
    assert len(np.unique(starts, axis=0)) == 20
    assert not np.array_equal(plan(seed=8).start(0), one.start(0))


def test_sobol_starts_are_one_sequence_however_many_runs_there_are():
    one = plan(starts="sobol")
    net = qmc.Sobol(2, rng=np.random.default_rng(7)).random_base2(4)
    for m in (0, 1, 2, 5, 15):
        np.testing.assert_array_equal(one.start(m), [-1, 2] + np.array([2, 4]) * net[m])


def test_given_starts_are_kept_as_they_are_and_have_an_end():
    one = plan(starts=((0.1, 3.0), (1 / 3, 4.0)))
    np.testing.assert_array_equal(one.start(1), [1 / 3, 4.0])
    with pytest.raises(ValueError, match="2 starting points, none for run 2"):
        one.start(2)


@pytest.mark.parametrize(
    "details",
    [{}, {"starts": "sobol"}, {"starts": ((0.1, 3.0),)}, {"on_error": "floor"},
     {"options": {"a": 1, "b": [1.5, None], "c": "d"}}],
)  # fmt: skip
def test_a_plan_comes_back_from_its_json(details):
    one = plan(**details)
    assert Plan.from_json(json.loads(json.dumps(one.as_json()))) == one


def test_a_plan_of_version_0_1_0_has_uniform_starts_and_fails_runs():
    content = {key: value for key, value in plan().as_json().items() if key != "starts"}
    del content["on_error"]
    assert Plan.from_json(content) == plan()


@pytest.mark.parametrize(("name", "value"), [("starts", "grid"), ("on_error", "ignore")])
def test_unknown_words_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name}='{value}' is not known; choose one of"):
        plan(**{name: value})


def test_differences_are_named_one_by_one():
    lines = plan().differences(plan(seed=8, starts="sobol", on_error="retry"))
    assert lines == [
        "seed: 7 in the store, 8 asked for",
        "starts: uniform in the store, sobol asked for",
    ]
