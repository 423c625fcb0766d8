"""Coverage targets: masses, draws and densities agree, and the evidence is as stated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_t

from benchmarks.coverage.coverage_target import CoverageTarget
from benchmarks.coverage.targets import TARGETS

MADE = {name: make() for name, make in TARGETS.items()}
MULTIMODAL = [name for name, target in MADE.items() if target.role != "unimodal"]
FLAT = [name for name in MULTIMODAL if MADE[name].truth.dimension <= 2]


def test_there_are_targets_enough_of_every_kind() -> None:
    by_role = {
        role: [target for target in MADE.values() if target.role == role]
        for role in ("development", "report", "unimodal")
    }
    assert [len(targets) for targets in by_role.values()] == [22, 16, 6]
    for role in ("development", "report"):
        dimensions = {target.truth.dimension for target in by_role[role]}
        cells = {target.masses.size for target in by_role[role]} - {1}  # some have one mode
        assert {min(dimensions), max(dimensions)} == {1, 10}
        assert {min(cells), max(cells)} == {2, 8}
        assert min(target.masses.min() for target in by_role[role]) == 0.05
        assert any(target.truth.noise_sd > 0 for target in by_role[role])
        assert any(target.truth.lower_bounds is not None for target in by_role[role])


@pytest.mark.parametrize("name", list(TARGETS))
def test_draws_have_the_stated_masses_and_are_within_bounds(name: str) -> None:
    target = MADE[name]
    assert target.name == name
    assert len(target.names) == target.masses.size
    assert target.masses.sum() == pytest.approx(1.0)
    draws = target.truth.sample(40_000, np.random.default_rng(0))
    # Modes that overlap may hold up to half a per cent of each other's draws.
    error = 4 * np.sqrt(target.masses * (1 - target.masses) / len(draws)) + 0.006
    assert np.all(np.abs(target.shares(draws) - target.masses) <= error)
    if target.truth.lower_bounds is not None and target.truth.upper_bounds is not None:
        assert np.all((draws > target.truth.lower_bounds) & (draws < target.truth.upper_bounds))
        assert target.truth.log_density(target.truth.upper_bounds + 1) == -np.inf


@pytest.mark.parametrize("name", FLAT)
def test_flat_targets_integrate_to_their_evidence(name: str) -> None:
    truth = MADE[name].truth
    draws = truth.sample(40_000, np.random.default_rng(0))
    axes = [np.linspace(*_ends(truth.name, d, draws), 301) for d in range(truth.dimension)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, truth.dimension)
    step = sum(np.log(axis[1] - axis[0]) for axis in axes)
    # At a bound the grid's cells are half outside: their width is the error.
    within = 0.02 if truth.lower_bounds is not None else 1e-3
    found = float(logsumexp(truth.log_densities(grid))) + step
    assert found == pytest.approx(truth.log_evidence, abs=within)


@pytest.mark.parametrize("name", [name for name in MULTIMODAL if name not in FLAT])
def test_other_targets_integrate_to_their_evidence(name: str) -> None:
    """E_g[p/g] = Z for draws of Student t's, one for each cell and as wide."""
    target = MADE[name]
    rng = np.random.default_rng(0)
    wide = _wide(target, rng)
    draws = np.concatenate([law.rvs(40_000, random_state=rng) for law in wide])
    proposal = logsumexp([law.logpdf(draws) for law in wide], axis=0) - np.log(len(wide))
    ratios = np.exp(target.truth.log_densities(draws) - target.truth.log_evidence - proposal)
    error = ratios.std() / np.sqrt(len(ratios))
    assert error < 0.02
    assert ratios.mean() == pytest.approx(1.0, abs=4 * error)


def _ends(name: str, d: int, draws: np.ndarray) -> tuple[float, float]:
    truth = MADE[name].truth
    if truth.lower_bounds is not None and truth.upper_bounds is not None:
        return float(truth.lower_bounds[d]), float(truth.upper_bounds[d])
    low, high = draws[:, d].min(), draws[:, d].max()
    return low - 0.2 * (high - low), high + 0.2 * (high - low)


def _wide(target: CoverageTarget, rng: np.random.Generator) -> list[Any]:
    draws = target.truth.sample(40_000, rng)
    cells = [draws[target.cell(draws) == k] for k in range(target.masses.size)]
    return [multivariate_t(x.mean(axis=0), np.cov(x, rowvar=False), 8) for x in cells]
