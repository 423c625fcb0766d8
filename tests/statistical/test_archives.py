"""Real VBMC runs from the archives: stacking finds what single runs miss."""

import numpy as np
import pytest

from benchmarks.archived_runs import SEED, archive
from benchmarks.folders import ARCHIVES
from benchmarks.problems import PROBLEMS
from vbstack import Run, load_runs, stack
from vbstack.analysis.diagnosis import diagnostics
from vbstack.runs.plan import run_seed


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


def test_the_expected_gain_tells_whether_more_runs_are_needed():
    """In five GMM runs each matters, in ten less; copies of one run add nothing."""
    runs = load_runs(archive("gmm"))[:10]

    def expected_gain(some: list[Run]) -> float:
        return diagnostics(stack(some)).expected_gain

    assert expected_gain(runs[:5]) > 0.05 > expected_gain(runs)
    assert abs(expected_gain([runs[0]] * 5)) < 0.02
    assert expected_gain(runs[:1]) == float("inf")


@pytest.mark.slow
def test_leave_one_out_gains_are_those_of_stacking_again():
    """Both sides carry the gap of 0.02 and Monte Carlo errors of 0.003 nats."""
    runs = load_runs(archive("ring"))[:8]
    posterior = stack(runs, refine=False)
    others = [
        stack([*runs[:m], *runs[m + 1 :]], refine=False).evidence.raw for m in range(len(runs))
    ]
    gains = [run.gain for run in diagnostics(posterior).runs]
    np.testing.assert_allclose(gains, posterior.evidence.raw - np.array(others), atol=0.025)
    assert max(gains) > 0.05


def test_five_ring_runs_are_not_enough_and_twenty_are():
    """The mean gain of five is 0.05 nats although 0.26 are missing; the rule is not fooled."""
    runs = [run for run in load_runs(archive("ring")) if run.converged]
    few, many = diagnostics(stack(runs[:5])), diagnostics(stack(runs[:20]))
    assert few.expected_gain < 0.06
    assert few.more_runs_needed
    assert few.single_run_mass > 0.05
    assert many.enough


FAILED = {"rosenbrock6": 1, "plateau": 3, "skewed": 5}  # pyvbmc ended with a singular matrix


def test_archived_runs_are_all_different():
    for path in ARCHIVES.glob("*.npz"):
        runs = load_runs(path)
        assert len({run.means.tobytes() for run in runs}) == len(runs)
        planned = [run_seed(SEED, m) for m in range(len(runs) + FAILED.get(path.stem, 0))]
        places = [planned.index(run.seed) for run in runs if run.seed is not None]
        assert len(places) == len(runs)
        assert places == sorted(places)


BOXES = {"ring": 0.3, "gmm": 0.8, "banana6": 1.2, "banana10": 1.6}


@pytest.mark.parametrize("name", sorted(BOXES))
def test_problems_have_the_evidence_they_claim(name):
    """Sampler, density and evidence agree: E_p[exp(−f) 1_A] = |A| / Z for any box A."""
    problem, n = PROBLEMS[name](), 1_000_000
    x = problem.sample(n, np.random.default_rng(0))
    centre = x[np.argmax(problem.log_densities(x[:1000]))]
    inside = np.abs(x - centre).max(axis=1) < BOXES[name]
    assert inside.sum() > 500
    density = problem.log_densities(x[inside])
    # Points of very low density would dominate the mean: count the part of the box above a level.
    level = density.max() - 4
    rng = np.random.default_rng(1)
    u = rng.uniform(centre - BOXES[name], centre + BOXES[name], (200_000, problem.dimension))
    share = np.mean(problem.log_densities(u) > level)
    ratio = np.where(density > level, np.exp(-density), 0)
    estimate, square = ratio.sum() / n, np.square(ratio).sum() / n
    volume = share * (2 * BOXES[name]) ** problem.dimension
    error = np.hypot(np.sqrt(square / n) / estimate, np.sqrt((1 - share) / (share * len(u))))
    assert np.log(volume / estimate) == pytest.approx(problem.log_evidence, abs=4 * error)


def test_the_ring_has_the_known_evidence():
    assert PROBLEMS["ring"]().log_evidence == pytest.approx(2.5337, abs=1e-4)
