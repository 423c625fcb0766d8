"""Are the runs enough? The rule and what it estimates."""

import numpy as np
import pytest

from vbstack.analysis.enough import (
    LOOKS,
    enough_runs,
    fewest_runs,
    hidden_share,
    missing_mass,
)


def found_by(count, runs):
    """Shares of mass by the number of runs that cover them: all of it by `count`."""
    shares = np.zeros(runs + 1)
    shares[count] = 1.0
    return shares


def test_the_missing_mass_is_that_of_modes_like_those_found():
    """Many equal modes, each found by a run with probability a quarter: the estimate is not below
    the true share that is missing, and of its size."""
    rng = np.random.default_rng(0)
    runs, modes, chance = 12, 400, 0.25
    estimates, truths = [], []
    for _ in range(50):
        counts = (rng.random((runs, modes)) < chance).sum(axis=0)
        seen = counts[counts > 0]
        by_runs = np.bincount(seen, minlength=runs + 1) / seen.size
        estimates.append(missing_mass(by_runs))
        truths.append((counts == 0).mean())
    assert np.mean(truths) == pytest.approx((1 - chance) ** runs, abs=0.003)
    # The chance of each mode is estimated from few runs, which makes the estimate too large.
    assert np.mean(truths) < np.mean(estimates) < 4.5 * np.mean(truths)


def test_what_all_runs_found_hides_nothing_and_what_one_found_hides_half_as_much_again():
    assert missing_mass(found_by(8, 8)) == 0
    assert missing_mass(found_by(3, 8)) == pytest.approx((5 / 8) ** 8, rel=0.05)
    assert missing_mass(found_by(1, 8)) == pytest.approx(0.52, abs=0.01)
    assert missing_mass(found_by(1, 1)) == 1


def test_looks_bound_what_may_be_hidden():
    assert hidden_share(0) == 1
    assert (1 - hidden_share(40)) ** 40 == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("gains", "by_runs", "looks", "noise_sd", "enough"),
    [
        ([0.01] * 8, found_by(8, 8), 0, 0.0, True),
        ([0.01] * 7, found_by(7, 7), 0, 0.0, False),  # too few that did not look elsewhere
        ([0.01] * 4, found_by(4, 4), LOOKS, 0.0, True),
        ([0.01] * 4, found_by(4, 4), LOOKS - 1, 0.0, False),
        ([0.01] * 3, found_by(3, 3), 100, 0.0, False),
        ([0.0] * 9 + [0.03], found_by(10, 10), 0, 0.0, False),  # one run matters
        ([0.0] * 9 + [0.03], found_by(10, 10), 0, 0.05, True),  # not beyond the noise of the ELBO
        ([0.0] * 10, 0.9 * found_by(10, 10) + 0.1 * found_by(1, 10), 0, 0.0, False),
        ([0.0] * 10, 0.9 * found_by(10, 10) + 0.1 * found_by(5, 10), 0, 0.0, True),
        ([0.0] * 8, found_by(2, 2), 2, 0.0, False),  # copies of two runs
    ],
)
def test_the_rule(gains, by_runs, looks, noise_sd, enough):
    found = enough_runs(np.array(gains), by_runs, looks, noise_sd=noise_sd)
    assert found.enough is enough
    assert found.text.startswith("Enough runs" if enough else "More runs are needed")


@pytest.mark.parametrize(
    ("count", "looks", "fewest"),
    [(4, 0, 8), (4, LOOKS, 4), (4, LOOKS - 1, 5), (4, 20, 6), (1, 1, 8), (3, 24, 4), (10, 5, 8)],
)
def test_runs_that_look_less_often_have_to_be_more(count, looks, fewest):
    assert fewest_runs(count, looks) == fewest
