"""What evaluations at draws say of a stack, on a Gaussian stack whose truth is known."""

import numpy as np
import pytest

from vbstack.stacking.verification import Points, Stated, check_correctable
from vbstack.stacking.verified_estimates import AtDraws, verified

LOG_Z, SHIFT = 3.0, 0.4  # p = e³ N(0.4, 1), q = N(0, 1): KL(q ‖ p) = 0.08


def log_normal(x, mean=0.0):
    return -0.5 * np.square(x - mean).sum(axis=-1) - 0.5 * np.log(2 * np.pi)


def points(n, rng, surrogate_error=None, noise=0.0, declared=None, outside=0):
    x = rng.standard_normal((n, 1))
    truth = LOG_Z + log_normal(x, SHIFT)
    values = truth + noise * rng.standard_normal(n)
    values[:outside] = -np.inf
    sds = None if declared is None else np.full(n, declared)
    if surrogate_error is None:
        return Points(x, values, sds, log_normal(x))
    surrogate = truth + surrogate_error * np.sin(5 * x[:, 0])
    return Points(x, values, sds, log_normal(x), surrogate, np.full(n, 0.05))


def ratios(rng, surrogate_error=0.0, n=8192):
    x = rng.standard_normal((n, 1))
    log_ratios = LOG_Z + log_normal(x, SHIFT) + surrogate_error * np.sin(5 * x[:, 0])
    return AtDraws(log_ratios - log_normal(x), np.full(n, surrogate_error**2 / 2))


@pytest.mark.parametrize("with_surrogate", [False, True])
def test_estimates_are_right_within_their_errors(with_surrogate):
    z = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        error = 0.05 if with_surrogate else None
        made = points(60, rng, error)
        found = verified(made, ratios(rng, 0.05) if with_surrogate else None)
        z.append((found.elbo - (LOG_Z - SHIFT**2 / 2)) / found.elbo_sd)
        assert found.log_evidence == pytest.approx(LOG_Z, abs=0.05 if with_surrogate else 0.25)
        assert abs(found.log_evidence - LOG_Z) < 4 * found.log_evidence_sd
    assert abs(np.mean(z)) < 0.6
    assert 0.5 < np.std(z) < 1.6


def test_a_good_surrogate_makes_the_error_small():
    rng = np.random.default_rng(0)
    made = points(50, rng, 0.02)
    plain = verified(Points(made.x, made.values, None, made.log_q), None)
    controlled = verified(made, ratios(rng, 0.02))
    assert controlled.elbo_sd < 0.3 * plain.elbo_sd
    assert controlled.passed
    assert controlled.verdict == "Verified: the stack agrees with the model at 50 draws."


def test_a_bad_surrogate_is_left_out():
    rng = np.random.default_rng(0)
    made = points(200, rng, 3.0)
    found = verified(made, ratios(rng, 3.0))
    assert found.surprises > 50
    assert found.elbo == pytest.approx(LOG_Z - SHIFT**2 / 2, abs=0.15)
    assert "far from what the surrogate says" in found.verdict


def test_draws_outside_the_support_are_counted_and_cut_off():
    rng = np.random.default_rng(0)
    found = verified(points(100, rng, 0.02, outside=10), ratios(rng, 0.02))
    assert found.outside == 10
    assert "10 of 100 draws are outside the support" in found.faults[0]
    assert found.elbo == pytest.approx(LOG_Z - 0.08 + np.log(0.9), abs=0.2)


def test_all_draws_outside_is_an_error():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="all 20 draws of the stack are outside the support"):
        verified(points(20, rng, outside=20), None)


def test_an_elbo_below_the_stated_one_is_a_fault():
    rng = np.random.default_rng(0)
    right = LOG_Z - 0.08

    def judged(elbo, sd, draws_sd):
        said = Stated(elbo, sd, draws_sd)
        return verified(points(50, rng, 0.02), ratios(rng, 0.02), stated=said)

    assert judged(right, 0.005, 0.002).passed
    by_model = judged(right + 0.2, 0.005, np.nan)
    assert "its ELBO is 0.20 nats lower than it said" in by_model.verdict
    # An honest error of the surrogate hides it from the model, not from the surrogate itself.
    assert judged(right + 0.06, 0.05, np.nan).passed
    assert not judged(right + 0.06, 0.05, 0.002).passed


def test_an_exact_log_density_that_answers_otherwise_has_noise():
    rng = np.random.default_rng(0)
    made = points(50, rng, 0.02)
    assert verified(made, ratios(rng), repeated=np.array([1e-9, 0.0])).undeclared == 0.0
    found = verified(made, ratios(rng), repeated=np.array([0.3, -0.4]))
    assert found.undeclared == pytest.approx(0.4 / np.sqrt(2))
    assert "differ by up to 0.4 nats" in found.undeclared_noise
    assert not found.passed


@pytest.mark.parametrize(("noise", "noticed"), [(1.0, False), (2.0, True)])
def test_noise_beyond_the_declared_is_noticed(noise, noticed):
    found = [
        verified(points(80, rng, 0.0, noise, declared=1.0), ratios(rng)).undeclared
        for rng in map(np.random.default_rng, range(20))
    ]
    assert np.all((np.array(found) > 0) == noticed)
    if noticed:
        assert np.median(found) == pytest.approx(np.sqrt(3), rel=0.2)


def test_only_verified_draws_can_be_corrected():
    rng = np.random.default_rng(0)
    check_correctable(verified(points(50, rng, 0.02), ratios(rng, 0.02)))
    with pytest.raises(ValueError, match="call verify"):
        check_correctable(None)
    with pytest.raises(ValueError, match="values were far from the surrogate"):
        check_correctable(verified(points(50, rng, 3.0), ratios(rng, 3.0)))
