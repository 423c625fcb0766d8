"""The record of a run: what it accepts, and how it refuses."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from pyvbmc.parameter_transformer import ParameterTransformer
from pyvbmc.variational_posterior import VariationalPosterior

from tests.synthetic import identity, make_run
from vbstack import Evaluations, Run


def fitted_posterior(k=3):
    """A VariationalPosterior as a finished run leaves it."""
    rng = np.random.default_rng(0)
    lower, upper = np.array([[-1.0, -np.inf]]), np.array([[4.0, np.inf]])
    map_ = ParameterTransformer(2, lower, upper, lower * 0.5, upper * 0.5, transform_type="probit")
    vp = VariationalPosterior(2, k, parameter_transformer=map_, rng=0)
    vp.w = rng.dirichlet(np.ones(k))[None]
    vp.mu, vp.sigma = rng.normal(0, 1, (2, k)), rng.uniform(0.1, 1, (1, k))
    vp.lambd = np.array([[0.7], [1.2]])
    vp.stats = {
        "elbo": -1.5,
        "elbo_sd": 0.02,
        "stable": True,
        "I_sk": rng.normal(-2, 0.1, (4, k)),
        "J_sjk": np.tile(0.01 * np.eye(k), (4, 1, 1)),
        "uncertainty_handling_level": 2,
    }
    return vp


def test_from_pyvbmc_keeps_everything():
    vp = fitted_posterior()
    run = Run.from_pyvbmc(vp, names=("a", "b"), seed=3, start=[0.1, 0.2], seconds=1.5)
    np.testing.assert_array_equal(run.means, vp.mu.T)
    np.testing.assert_allclose(run.sds, (vp.lambd * vp.sigma).T)
    np.testing.assert_array_equal(run.log_joint, vp.stats["I_sk"])
    assert run.names == ("a", "b")
    assert run.is_noisy
    assert run.engine == "pyvbmc"
    assert run.versions["pyvbmc"].startswith("1.")


def test_from_pyvbmc_reads_posteriors_of_version_1_0():
    """Old pickles lack `_rng` and the noise level; then elbo_sd > 0.1 tells noisy runs."""
    vp = fitted_posterior()
    del vp._rng, vp._calibration_profile, vp.stats["uncertainty_handling_level"]
    assert not Run.from_pyvbmc(vp).is_noisy
    vp.stats["elbo_sd"] = 0.3
    assert Run.from_pyvbmc(vp).is_noisy


def test_from_pyvbmc_says_what_is_missing():
    with pytest.raises(TypeError, match="not a VariationalPosterior"):
        Run.from_pyvbmc({"w": 1})
    vp = fitted_posterior()
    del vp.stats["I_sk"]
    with pytest.raises(ValueError, match="I_sk"):
        Run.from_pyvbmc(vp)
    unfinished = VariationalPosterior(2, 2, rng=0)
    with pytest.raises(ValueError, match="only the posterior of a finished"):
        Run.from_pyvbmc(unfinished)


def test_a_later_change_of_the_posterior_does_not_reach_the_run():
    vp = fitted_posterior()
    run = Run.from_pyvbmc(vp)
    before = copy.deepcopy(run.means)
    vp.mu += 1
    np.testing.assert_array_equal(run.means, before)
    with pytest.raises(ValueError, match="read-only"):
        run.means[0, 0] = 5


def test_weights_are_renormalised_within_a_millionth_and_refused_beyond():
    run = make_run([[0.0], [1.0]], 1.0, 0.0, weights=[0.5, 0.5 + 5e-7])
    assert run.weights.sum() == pytest.approx(1, abs=1e-15)
    with pytest.raises(ValueError, match=r"sum to 1\.1"):
        make_run([[0.0], [1.0]], 1.0, 0.0, weights=[0.5, 0.6])
    with pytest.raises(ValueError, match="smallest is -0.5"):
        make_run([[0.0], [1.0]], 1.0, 0.0, weights=[1.5, -0.5])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"means": [[np.nan]]}, r"means holds nan at index \[0, 0\]"),
        ({"sds": [[0.0]]}, "sds must be positive"),
        ({"log_joint": [[np.inf]]}, "log_joint holds inf"),
        ({"log_joint": [1.0]}, "log_joint has shape"),
        ({"log_joint_covariance": np.zeros((1, 2, 2))}, "log_joint_covariance has shape"),
        ({"elbo": np.nan}, "elbo is nan"),
        ({"names": ("a", "b")}, "2 names"),
        ({"transform": identity(2)}, "means has D = 1 but its transform has D = 2"),
        ({"means": np.zeros((0, 1))}, "expected \\(K, D\\)"),
    ],
)
def test_bad_arrays_are_named(changes, message):
    good = make_run([[0.0]], 1.0, 0.0)
    with pytest.raises(ValueError, match=message):
        replace(good, **{name: _array(value) for name, value in changes.items()})


def _array(value):
    return np.asarray(value, dtype=float) if isinstance(value, list) else value


def test_scalars_of_numpy_become_plain_and_wrong_types_are_refused():
    run = make_run(
        [[0.0]], 1.0, 0.0, seed=np.int64(3), noise_level=np.int64(2), seconds=np.float32(1.5)
    )
    assert [type(v) for v in (run.seed, run.noise_level, run.seconds)] == [int, int, float]
    with pytest.raises(TypeError, match="names is the string 'ab'"):
        make_run([[0.0, 0.0]], 1.0, 0.0, names="ab")
    with pytest.raises(TypeError, match="converged is 'False'"):
        make_run([[0.0]], 1.0, 0.0, converged="False")
    with pytest.raises(ValueError, match="evaluations.x has 4 columns"):
        make_run([[0.0]], 1.0, 0.0, evaluations=Evaluations(np.zeros((2, 4)), np.zeros(2)))


def test_names_must_be_unique():
    with pytest.raises(ValueError, match="not unique"):
        make_run([[0.0, 0.0]], 1.0, 0.0, names=("a", "a"))


def test_a_run_that_did_not_converge_may_hold_nan_statistics():
    run = make_run([[0.0]], 1.0, np.nan, converged=False, elbo=np.nan)
    assert not run.converged
