"""Who covers what, for Gaussians in one dimension where the borders have a closed form."""

import numpy as np
import pytest
from scipy.stats import norm

from tests.synthetic import gaussian_entropy, make_run
from vbstack.analysis.coverage import COVERS, coverage
from vbstack.stacking.mixture import Mixture
from vbstack.stacking.sample_problem import Sample

DRAWS = 20_000  # of each component; the standard error of a share is below 0.0036


def covered(runs, weights):
    mixture = Mixture.from_runs(runs)
    counts = np.full(mixture.size, DRAWS)
    sample = Sample.draw(mixture, counts, np.random.default_rng(0))
    return coverage(tuple(runs), mixture, np.asarray(weights, dtype=float), sample)


def unit(centre, **details):
    """A run with one Gaussian of unit width."""
    return make_run([[centre]], 1.0, -gaussian_entropy([1.0]), **details)


@pytest.mark.parametrize("a", [0.5, 1.0, 2.0])
def test_two_gaussians_cover_what_their_densities_say(a):
    """q₀ at −a, q₁ at a, each half of the stack: run 0 covers x up to t with

    q₀ = c (q₀ + q₁) / 2 there, c = COVERS, so t = log(2/c − 1) / 2a.
    """
    found = covered([unit(-a), unit(a)], [0.5, 0.5])
    t = np.log(2 / COVERS - 1) / (2 * a)
    share = 0.5 * norm.cdf(t + a) + 0.5 * norm.cdf(t - a)
    np.testing.assert_allclose(found.covered, share, atol=0.01)
    np.testing.assert_allclose(found.alone, 1 - share, atol=0.01)
    np.testing.assert_allclose(found.by_runs, [0, 2 - 2 * share, 2 * share - 1], atol=0.01)
    assert found.by_one == found.by_runs[1]
    expected = 2 * norm.cdf(-a)
    np.testing.assert_allclose(found.overlap, [[1, expected], [expected, 1]], atol=0.01)


def test_mass_is_counted_by_the_stacks_weights():
    """Far apart: each run covers and holds alone what the stack gives it."""
    found = covered([unit(0.0), unit(50.0), unit(100.0)], [0.2, 0.3, 0.5])
    np.testing.assert_allclose(found.alone, [0.2, 0.3, 0.5], atol=1e-4)
    np.testing.assert_allclose(found.covered, [0.2, 0.3, 0.5], atol=1e-4)
    np.testing.assert_allclose(found.by_runs, [0, 1, 0, 0], atol=1e-4)
    np.testing.assert_allclose(found.overlap, np.eye(3), atol=1e-4)


def test_a_run_without_weight_still_covers_what_others_hold():
    found = covered([unit(0.0), unit(0.1)], [1.0, 0.0])
    np.testing.assert_allclose(found.covered, 1, atol=0.001)
    assert found.by_runs[2] == pytest.approx(1, abs=0.001)


def test_copies_count_once():
    found = covered([unit(0.0), unit(50.0), unit(0.0)], [0.3, 0.4, 0.3])
    assert found.group.tolist() == [0, 1, 0]
    np.testing.assert_allclose(found.by_runs, [0, 1, 0, 0], atol=1e-4)
    np.testing.assert_allclose(found.alone, [0.6, 0.4, 0.6], atol=1e-4)
    assert found.overlap[0, 2] == pytest.approx(1, abs=1e-4)


def test_runs_with_the_same_components_but_other_weights_are_no_copies():
    pair = [[0.0], [3.0]]
    runs = [make_run(pair, 1.0, -1.0, weights) for weights in ([0.5, 0.5], [0.4, 0.6])]
    assert covered(runs, np.full(4, 0.25)).group.tolist() == [0, 1]


def test_a_run_of_several_components_is_one_density():
    """Half of the first run lies where the second one is: they share half of their mass."""
    runs = [make_run([[0.0], [50.0]], 1.0, -1.0), make_run([[50.0]], 1.0, -1.0)]
    found = covered(runs, [0.5, 0.25, 0.25])
    np.testing.assert_allclose(found.overlap, [[1, 0.5], [0.5, 1]], atol=1e-3)
    np.testing.assert_allclose(found.alone, [0.5, 0], atol=1e-3)
    np.testing.assert_allclose(found.by_runs, [0, 0.5, 0.5], atol=1e-3)
