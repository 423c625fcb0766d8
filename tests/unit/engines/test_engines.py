"""Engines by name."""

from typing import Any

import pytest

from tests.small_problems import gaussian, gaussian_problem, noisy_gaussian_problem
from vbstack import Problem, RunStore
from vbstack.engines.native.loop import run_native
from vbstack.engines.registry import engine_named, resolved
from vbstack.launching.settings import engine_for


def test_engines_are_found_by_name():
    assert engine_named("native") is run_native
    mcmc: Any = "mcmc"  # what a user may write; the checker would refuse it
    for refusing in (lambda: resolved(mcmc, gaussian_problem()), lambda: engine_named(mcmc)):
        with pytest.raises(ValueError, match="engine='mcmc' is not known"):
            refusing()


def test_the_engine_is_chosen_by_the_problem():
    assert resolved("auto", gaussian_problem()) == "native"
    many = Problem(
        log_density=gaussian, plausible_lower_bounds=[-1] * 11, plausible_upper_bounds=[1] * 11
    )
    assert resolved("auto", many) == "pyvbmc"
    assert resolved("auto", noisy_gaussian_problem()) == "pyvbmc"


def test_a_store_keeps_its_engine(tmp_path):
    assert engine_for(gaussian_problem(), RunStore(tmp_path), "auto") == "native"
    RunStore(tmp_path).open(gaussian_problem(), engine="pyvbmc", seed=0)
    assert engine_for(gaussian_problem(), RunStore(tmp_path), "auto") == "pyvbmc"
