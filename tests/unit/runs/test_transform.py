"""Our transforms against pyvbmc's ParameterTransformer, to 1e-9 relative."""

import numpy as np
import pytest
from pyvbmc.parameter_transformer import ParameterTransformer
from scipy.integrate import quad
from scipy.stats import norm, ortho_group

from vbstack import Link, Transform
from vbstack.runs.pyvbmc_objects import read_transform
from vbstack.runs.transform import LOG_ABOVE, LOG_BELOW, PROBIT, UNBOUNDED

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


ONE_BOUND = Transform(
    kinds=np.array([LOG_ABOVE, LOG_BELOW, UNBOUNDED, PROBIT]),
    lower=np.array([-2.0, -np.inf, -np.inf, 0.0]),
    upper=np.array([np.inf, 5.0, np.inf, 1.0]),
    centre=np.array([0.5, -1.0, 2.0, 0.1]),
    width=np.array([2.0, 0.5, 1.0, 1.5]),
    scale=np.array([1.0, 3.0, 0.5, 1.0]),
    rotation=ortho_group.rvs(4, random_state=3),
)


def test_one_bound_is_a_logarithm_that_increases_and_inverts():
    x = np.array([[-1.9, 4.9, 0.3, 0.2], [-2 + 1e-13, -1e6, 7.0, 0.5], [1e9, 3.0, -7.0, 0.9]])
    link = ONE_BOUND.link
    y = link.forward(x)
    np.testing.assert_allclose(y[:, 0], np.log(x[:, 0] + 2.0))
    np.testing.assert_allclose(y[:, 1], -np.log(5.0 - x[:, 1]))
    np.testing.assert_allclose(link.inverse(y), x, rtol=1e-12)
    np.testing.assert_allclose(ONE_BOUND.inverse(ONE_BOUND.forward(x)), x, rtol=1e-9)
    low, high = link.forward(np.array([[0.0, 0, 0, 0.4], [1.0, 1, 1, 0.6]]))
    assert (low < high).all()


def test_log_jacobians_of_one_bound_are_the_derivatives():
    u = np.random.default_rng(2).normal(size=(5, 4))
    for row in u:
        steps = 1e-4 * np.eye(4)
        slope = (ONE_BOUND.inverse(row + steps) - ONE_BOUND.inverse(row - steps)) / 2e-4
        expected = np.linalg.slogdet(slope)[1]
        assert ONE_BOUND.log_jacobian(row[None])[0] == pytest.approx(expected, abs=1e-4)


def test_expected_log_jacobian_of_one_bound_is_exact():
    link = ONE_BOUND.link.logarithms
    means, variances = np.array([[3.0, -2.0, 1.0, 0.3]]), np.array([[4.0, 25.0, 1.0, 9.0]])
    found = link.expected_log_jacobian(means, variances)[0]
    assert found == pytest.approx(3.0 + 2.0, abs=1e-12)


@pytest.mark.parametrize("far", [50.0, 700.0, 800.0, 1e5])
def test_far_tails_of_one_bound_stay_inside_and_finite(far):
    link = ONE_BOUND.link
    y = np.array([[-far, far, 0, 0], [far, -far, 0, 0]])
    x = link.inverse(y)
    assert link.inside(x).all()
    assert np.isfinite(link.log_jacobian(y)).all()


def test_on_one_bound_the_link_is_infinite_and_outside():
    link = ONE_BOUND.link
    x = np.array([[-2.0, 5.0, 0.0, 0.5]])
    assert not link.inside(x)[0]
    assert link.forward(x)[0, :2].tolist() == [-np.inf, np.inf]


def test_the_link_of_bounds_and_its_logarithms():
    link = Link.of_bounds(ONE_BOUND.lower, ONE_BOUND.upper)
    assert link.same_as(ONE_BOUND.link)
    assert link.signs.tolist() == [1.0, -1.0, 0.0, 0.0]
    assert link.logarithms.kinds.tolist() == [LOG_ABOVE, LOG_BELOW, UNBOUNDED, UNBOUNDED]


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
        ({"kinds": [0, 3.5]}, "not whole numbers"),
        ({"kinds": [0, np.nan]}, "not whole numbers"),
        ({"lower": [-np.inf]}, "lower has shape"),
        ({"centre": [np.nan, 0]}, "centre is not finite"),
        ({"width": [1, 0]}, "must be positive"),
        ({"upper": [np.inf, np.inf]}, "do not fit the bounds"),
        ({"lower": [-np.inf, 2]}, "do not fit the bounds"),
        ({"lower": [0, 0]}, "do not fit the bounds"),
        ({"lower": [np.nan, 0]}, "do not fit the bounds"),
        ({"kinds": [0, 1]}, "do not fit the bounds"),
        ({"kinds": [0, 2]}, "do not fit the bounds"),
        ({"kinds": [0, 1], "upper": [np.inf, np.nan]}, "do not fit the bounds"),
        ({"kinds": [0, 2], "upper": [np.inf, np.inf]}, "do not fit the bounds"),
        ({"kinds": [1, 3]}, "do not fit the bounds"),
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
