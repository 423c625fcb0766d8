"""Our transforms against pyvbmc's ParameterTransformer, to 1e-9 relative."""

import numpy as np
import pytest
from pyvbmc.parameter_transformer import ParameterTransformer
from scipy.integrate import quad
from scipy.stats import norm, ortho_group

from vbstack import Transform
from vbstack.runs.pyvbmc_objects import read_transform

LOWER = np.array([[-3.0, -np.inf, 0.0, 10.0]])
UPPER = np.array([[5.0, np.inf, 1.0, 1e4]])
PLAUSIBLE_LOWER = np.array([[-2.0, -4.0, 0.2, 20.0]])
PLAUSIBLE_UPPER = np.array([[3.0, 7.0, 0.9, 500.0]])


def transformer(kind, *, rotated=False, scaled=False, bounded=True, plausible=True):
    d = LOWER.shape[1]
    infinite = np.full((1, d), np.inf)
    rotation = ortho_group.rvs(d, random_state=3) if rotated else None
    scale = np.array([0.3, 2.0, 1.7, 11.0]) if scaled else None
    lower, upper = (LOWER, UPPER) if bounded else (-infinite, infinite)
    box = (PLAUSIBLE_LOWER, PLAUSIBLE_UPPER) if plausible else (None, None)
    return ParameterTransformer(
        d, lower, upper, *box, scale=scale, rotation_matrix=rotation, transform_type=kind
    )


@pytest.mark.parametrize("kind", ["logit", "probit", "student4"])
@pytest.mark.parametrize("rotated", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("plausible", [False, True])
def test_equals_pyvbmc(kind, rotated, scaled, bounded, plausible):
    theirs = transformer(kind, rotated=rotated, scaled=scaled, bounded=bounded, plausible=plausible)
    mine = read_transform(theirs)
    rng = np.random.default_rng(1)
    x = rng.uniform(PLAUSIBLE_LOWER, PLAUSIBLE_UPPER, (200, 4))
    u = theirs(x)
    np.testing.assert_allclose(mine.forward(x), u, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(mine.inverse(u), theirs.inverse(u), rtol=1e-9)
    np.testing.assert_allclose(
        mine.log_jacobian(u), theirs.log_abs_det_jacobian(u), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("kind", ["logit", "probit", "student4"])
def test_far_tails_stay_inside_the_bounds_and_finite(kind):
    mine = read_transform(transformer(kind))
    u = np.array([[-60.0, -60, -60, -60], [60, 60, 60, 60], [-700, 5, 700, -700]])
    x = mine.inverse(u)
    assert mine.link.inside(x).all()
    assert np.isfinite(mine.log_jacobian(u)).all()


def test_points_on_and_beyond_a_bound_are_outside():
    link = read_transform(transformer("logit")).link
    inside = np.array([0.0, 0.0, 0.5, 100.0])
    for d, value in ((0, -3.0), (0, 6.0), (2, 1.0), (2, np.nan), (3, 1e5)):
        x = inside.copy()
        x[d] = value
        assert not link.inside(x[None])[0]
    assert link.inside(inside[None])[0]


@pytest.mark.parametrize("kind", ["logit", "probit", "student4"])
@pytest.mark.parametrize(("mean", "sd"), [(0.0, 1.0), (-3.0, 0.2), (4.0, 5.0)])
def test_expected_log_jacobian_equals_numerical_integration(kind, mean, sd):
    link = read_transform(transformer(kind)).link

    def integrand(y, d):
        point = np.zeros((1, 4))
        point[0, d] = y
        rest = link.log_jacobian(np.zeros((1, 4)))[0]
        return (link.log_jacobian(point)[0] - rest) * norm.pdf(y, mean, sd)

    expected = link.log_jacobian(np.zeros((1, 4)))[0]
    for d in range(4):
        expected += quad(integrand, mean - 12 * sd, mean + 12 * sd, (d,), limit=400)[0]
    ours = link.expected_log_jacobian(np.full((1, 4), mean), np.full((1, 4), sd**2))[0]
    assert ours == pytest.approx(expected, abs=1e-8)


def arguments(**changes):
    good = {
        "kinds": [0, 3],
        "lower": [-np.inf, 0],
        "upper": [np.inf, 1],
        "centre": [0, 0],
        "width": [1, 1],
        "scale": [1, 1],
        "rotation": np.eye(2),
    }
    return {**good, **changes}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kinds": [0, 7]}, "unknown kinds"),
        ({"lower": [-np.inf]}, "lower has shape"),
        ({"centre": [np.nan, 0]}, "centre is not finite"),
        ({"width": [1, 0]}, "must be positive"),
        ({"upper": [np.inf, np.inf]}, "do not fit the bounds"),
        ({"lower": [-np.inf, 2]}, "do not fit the bounds"),
        ({"lower": [0, 0]}, "do not fit the bounds"),
        ({"lower": [np.nan, 0]}, "do not fit the bounds"),
        ({"rotation": 2 * np.eye(2)}, "not orthogonal"),
    ],
)
def test_bad_arrays_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        Transform(**arguments(**changes))


def test_a_transform_cannot_be_changed():
    transform = Transform(**arguments())
    with pytest.raises(ValueError, match="read-only"):
        transform.scale[0] = 2
