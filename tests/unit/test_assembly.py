"""The stack of a store: when `posterior.npz` is current, and what happens when it is not."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.archived_runs import archive
from tests.synthetic import random_run
from vbstack import (
    Problem,
    RunStore,
    Screen,
    StackedPosterior,
    StackSettings,
    load_runs,
    stack,
)
from vbstack.assembly import is_current, numbered, posterior_of, stacked


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    """A store with runs 0, 2 and 3, of which 3 did not converge."""
    store, rng = RunStore(tmp_path), np.random.default_rng(3)
    store.open(
        Problem(
            log_density=lambda x: 0.0,
            plausible_lower_bounds=[-1, -1],
            plausible_upper_bounds=[1, 1],
        )
    )
    for index in (0, 2, 3):
        store.save(index, random_run(rng, 2, converged=index != 3))
    return store


def test_a_saved_posterior_is_used_while_it_was_made_of_the_runs_that_are_there(store):
    saved = stack(list(store.runs().values()), weights="naive", seed=7)
    path = saved.save(store.directory / "posterior.npz")
    os.utime(path, (1, 1))  # its age does not matter
    posterior, line = posterior_of(store)
    assert line == ""
    assert posterior.settings == saved.settings
    np.testing.assert_array_equal(posterior.weights, saved.weights)


@pytest.mark.parametrize("change", ["another run", "a run less", "other content"])
def test_a_saved_posterior_of_other_runs_is_not_used(store, change):
    saved = stack(list(store.runs().values()), weights="naive", seed=7)
    saved.save(store.directory / "posterior.npz")
    if change == "another run":
        store.save(4, random_run(np.random.default_rng(9), 2))
    elif change == "a run less":
        store.path(3, "npz").unlink()
    else:
        store.save(3, random_run(np.random.default_rng(9), 2, converged=False))
    posterior, line = posterior_of(store)
    assert "was made of other runs" in line
    assert posterior.settings == saved.settings  # they are stacked again as they were
    assert is_current(posterior, list(store.runs().values()))


def test_a_damaged_posterior_is_passed_over_with_a_word(store):
    (store.directory / "posterior.npz").write_bytes(b"x" * 100)
    posterior, line = posterior_of(store)
    assert "posterior.npz" in line
    assert "stacked again" in line
    assert len(posterior.runs) == 2


def test_a_posterior_is_current_after_many_ways_through_files(store):
    """Weights are normalised again whenever a run is read; that is no other run."""
    runs = load_runs(archive("ring"))[:10]
    for index, run in enumerate(runs, start=10):
        store.save(index, run)
        assert store.runs()[index].digest == run.digest


def test_runs_are_called_by_their_numbers_in_the_store(store):
    posterior = numbered(posterior_of(store)[0], list(store.runs()))
    assert posterior.kept == (0, 2)
    assert [d.index for d in posterior.dropped] == [3]


def test_stacking_again_with_the_recorded_settings_gives_the_same_posterior(store):
    runs = list(store.runs().values())
    first = stack(runs, weights="runs", tolerance=0.05, seed=3)
    again = stacked(runs, first.settings)
    np.testing.assert_array_equal(again.weights, first.weights)
    assert again.evidence == first.evidence


@pytest.mark.parametrize(
    ("name", "value"),
    [("weights", "some"), ("evaluations", "none"), ("solver", "sgd"), ("tolerance", -1.0),
     ("max_draws", 2), ("final_draws", 10.5), ("seed", -1), ("seed", "x"), ("seed", None),
     ("caution", -1.0), ("caution", "much"), ("caution", True), ("caution", float("inf"))],
)  # fmt: skip
def test_settings_are_judged_when_they_are_made(name, value):
    with pytest.raises(ValueError, match=f"{name}={value!r}"):
        StackSettings(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"), [("max_variance", -1.0), ("max_variance", float("nan")), ("min_runs", -3)]
)
def test_a_screen_that_cannot_be_is_refused(name, value):
    with pytest.raises(ValueError, match=f"screen: {name}={value!r}"):
        Screen(**{name: value})


def test_settings_of_numpy_numbers_can_be_saved(store):
    runs = list(store.runs().values())
    screen = Screen(min_runs=np.int64(2), max_variance=np.inf)  # type: ignore[arg-type]
    settings: Any = {"seed": np.int64(3), "max_draws": np.int64(64), "tolerance": np.float32(0.05)}
    saved = stack(runs, screen=screen, **settings)
    again = StackedPosterior.load(saved.save(store.directory / "posterior.npz"))
    assert again.settings == saved.settings


def test_a_screen_that_is_none_is_refused():
    with pytest.raises(TypeError, match="screen is a dict, not a vbstack.Screen"):
        StackSettings(screen={"min_runs": 2})  # type: ignore[arg-type]
