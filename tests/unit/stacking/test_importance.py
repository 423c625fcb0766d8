"""Pareto smoothing of importance ratios."""

import numpy as np
import pytest

from vbstack.stacking.importance import fitted_pareto, pareto_smoothed


@pytest.mark.parametrize("shape", [-0.2, 0.3, 0.8])
def test_the_fitted_law_is_the_one_drawn_from(shape):
    u = np.random.default_rng(0).random(4000)
    excess = np.sort(2.0 * np.expm1(-shape * np.log1p(-u)) / shape)
    found, scale = fitted_pareto(excess)
    assert found == pytest.approx(shape, abs=0.06)  # its standard error is (1 + k) / √n = 0.03
    assert scale == pytest.approx(2.0, rel=0.1)


def test_ratios_with_a_heavy_tail_are_told_from_those_with_a_light_one():
    rng = np.random.default_rng(1)
    x = rng.standard_normal(4000)
    wide = -0.5 * x**2 / 1.1**2 + 0.5 * x**2  # p slightly wider than q
    assert pareto_smoothed(-wide).shape < 0.3
    assert pareto_smoothed(0.45 * x**2).shape > 0.7  # w = exp(0.45 x²) has no variance


def test_smoothing_keeps_the_order_and_never_raises_the_largest():
    ratios = np.random.default_rng(2).standard_normal(300)
    smooth = pareto_smoothed(ratios).log_ratios
    assert smooth.max() <= ratios.max()
    kept = np.argsort(ratios)[:200]
    np.testing.assert_array_equal(smooth[kept], ratios[kept])
    assert np.all(np.diff(smooth[np.argsort(ratios)]) >= -1e-12)


def test_equal_ratios_have_no_tail():
    found = pareto_smoothed(np.zeros(50))
    assert found.shape == -np.inf
    np.testing.assert_array_equal(found.log_ratios, 0.0)
