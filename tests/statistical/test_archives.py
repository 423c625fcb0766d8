"""Real VBMC runs from the archives: stacking finds what single runs miss."""

import numpy as np
import pytest

from benchmarks.make_runs import ARCHIVES, archive, run_seed
from benchmarks.problems import PROBLEMS
from vbstack import load_runs, stack


@pytest.mark.parametrize("problem", ["gmm", "ring"])
def test_the_stack_is_better_than_every_run_and_than_naive_stacking(problem):
    target = PROBLEMS[problem]()
    runs = load_runs(archive(problem))[:10]
    posterior = stack(runs)
    e = posterior.evidence
    assert posterior.solution.gap <= 0.02
    assert e.raw > max(run.elbo for run in posterior.runs) + 0.1
    assert e.raw > e.naive + 0.05
    # The runs' own quadrature can be a little high; more than 0.1 nats above is a mistake.
    assert target.log_evidence - 0.1 < e.raw < target.log_evidence + 0.1
    per_run = stack(runs, weights="runs").evidence
    assert e.naive - 0.02 < per_run.raw < e.raw + 0.02


@pytest.mark.parametrize(("problem", "naive_gain"), [("banana6", 0.03), ("banana10", 0.02)])
def test_six_and_ten_dimensions_are_certified_too(problem, naive_gain):
    posterior = stack(load_runs(archive(problem)))
    assert posterior.solution.status == "certified"
    assert posterior.evidence.raw > posterior.evidence.naive + naive_gain
    assert posterior.evidence.raw < 0.05  # the true log evidence is 0


def test_archived_runs_are_all_different():
    for path in ARCHIVES.glob("*.npz"):
        runs = load_runs(path)
        assert len({run.means.tobytes() for run in runs}) == len(runs)
        assert [run.seed for run in runs] == [run_seed(m) for m in range(len(runs))]


def test_problems_have_the_evidence_they_claim():
    """By importance sampling with each problem's own exact sampler as a check of both."""
    rng = np.random.default_rng(0)
    for name, make in PROBLEMS.items():
        problem = make()
        x = problem.sample(100_000, rng)
        # For the exact normalised density p = exp(f)/Z: E_p[exp(−f) 1_A] = |A|/Z for a set A.
        centre, radius = x[0], 0.05 if name == "ring" else 0.8
        inside = np.abs(x - centre).max(axis=1) < radius
        if inside.sum() < 500:
            continue
        ratio = np.where(inside, np.exp(-problem.log_densities(x)), 0)
        volume = (2 * radius) ** problem.dimension
        estimate, error = ratio.mean(), ratio.std() / np.sqrt(len(x))
        assert estimate == pytest.approx(volume / np.exp(problem.log_evidence), abs=5 * error)


def test_the_ring_has_the_known_evidence():
    assert PROBLEMS["ring"]().log_evidence == pytest.approx(2.5337, abs=1e-4)
