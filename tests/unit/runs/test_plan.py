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


def test_what_version_0_1_0_did_not_record_is_none_and_no_difference():
    content = plan().as_json()
    del content["starts"], content["on_error"]
    old = Plan.from_json(content)
    assert (old.starts, old.on_error) == (None, None)
    assert old.as_json() == content
    np.testing.assert_array_equal(old.start(3), plan(starts="uniform").start(3))
    assert old.differences(plan(starts="sobol")) == []


def test_options_are_kept_as_json_and_objects_as_their_text():
    given = {"a": np.int64(3), "b": np.array([1.5, 2]), "c": (1, 2), "d": float("nan")}
    assert plan(options=given).differences(plan(options=given)) == []
    back = Plan.from_json(json.loads(json.dumps(plan(options=given).as_json())))
    assert {name: back.options[name] for name in "abc"} == {"a": 3, "b": [1.5, 2.0], "c": [1, 2]}
    assert back.unreadable_options() == []
    object_ = plan(options={"f": print, "g": [print], "h": 1})
    back = Plan.from_json(json.loads(json.dumps(object_.as_json())))
    assert back.unreadable_options() == ["f", "g"]


def test_a_plan_does_not_change_with_what_it_was_made_of():
    options = {"max_fun_evals": 40}
    one = plan(options=options)
    options["max_fun_evals"] = 1
    assert one.options == {"max_fun_evals": 40}


@pytest.mark.parametrize(
    ("details", "words"),
    [({"seed": -1}, "seed=-1"), ({"seed": 1.5}, "seed=1.5"), ({"seed": True}, "seed=True"),
     ({"seed": "x"}, "seed='x'"), ({"engine": "auto"}, "engine='auto'"),
     ({"options": [1]}, "options is a list"), ({"starts": np.zeros((2, 3))}, "starts has shape"),
     ({"starts": [[np.nan, 0.0]]}, "finite")],
)  # fmt: skip
def test_a_plan_that_cannot_be_is_refused(details, words):
    with pytest.raises((ValueError, TypeError), match=words):
        plan(**details)


def test_numpy_numbers_are_numbers():
    assert plan(seed=np.int64(7), starts=np.array([[0.1, 3.0]])) == plan(starts=((0.1, 3.0),))


@pytest.mark.parametrize(("name", "value"), [("starts", "grid"), ("on_error", "ignore")])
def test_unknown_words_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name}='{value}' is not known; choose one of"):
        plan(**{name: value})


def test_differences_are_named_one_by_one():
    lines = plan().differences(plan(seed=8, starts="uniform", on_error="retry"))
    assert lines == [
        "seed: 7 in the store, 8 asked for",
        "starts: sobol in the store, uniform asked for",
    ]
