"""The stack in other formats says the same as the stack."""

import csv
import sys

import numpy as np
import pytest
import xarray
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from tests.synthetic import random_run
from tests.unit.stacking.test_mixture import posterior as pyvbmc_posterior
from vbstack import Run, StackedPosterior, stack


@pytest.fixture(scope="module")
def stacked() -> StackedPosterior:
    """Three runs, of which the second is dropped, so that places and indices differ."""
    rng = np.random.default_rng(0)
    runs = [random_run(rng, 2, names=("rate", "bias")) for _ in range(2)]
    runs.insert(1, random_run(rng, 2, names=("rate", "bias"), converged=False))
    return stack(runs)


@pytest.fixture(scope="module")
def rotated() -> StackedPosterior:
    """No hard bounds, but every run with a rotation and scales of its own."""
    vps = [pyvbmc_posterior("probit", bounded=False, rotated=True, seed=s) for s in range(3)]
    return stack([Run.from_pyvbmc(vp) for vp in vps])


@pytest.fixture(scope="module")
def bounded() -> StackedPosterior:
    vps = [pyvbmc_posterior("probit", bounded=True, rotated=True, seed=s) for s in range(2)]
    return stack([Run.from_pyvbmc(vp, names=("a", "b", "c")) for vp in vps])


@pytest.mark.parametrize("which", ["stacked", "rotated", "bounded"])
def test_arviz_summary_equals_the_moments_within_monte_carlo_error(which, request):
    """4.5 standard errors; the variance of a sample variance from its fourth moment."""
    summary = pytest.importorskip("arviz_stats").summary
    posterior = request.getfixturevalue(which)
    table = summary(posterior.to_arviz(20_000, seed=0), kind="stats", round_to="none")
    mean, covariance = posterior.moments()
    x = posterior.sample(20_000, seed=0)
    sd = np.sqrt(np.diag(covariance))
    assert list(table.index) == list(posterior.names)
    np.testing.assert_array_less(np.abs(table["mean"] - mean), 4.5 * sd / np.sqrt(len(x)))
    spread = np.sqrt(np.var((x - mean) ** 2, axis=0) / len(x)) / (2 * sd)
    np.testing.assert_array_less(np.abs(table["sd"] - sd), 4.5 * spread)


def test_arviz_tree_holds_draws_labels_weights_and_evidence(stacked):
    tree = stacked.to_arviz(500, seed=3)
    assert dict(tree["posterior"].sizes) == {"chain": 1, "draw": 500}
    x = np.column_stack([tree["posterior"][name].values[0] for name in ("rate", "bias")])
    np.testing.assert_array_equal(x, stacked.sample(500, seed=3))
    statistics = tree["sample_stats"]
    np.testing.assert_array_equal(statistics["lp"].values[0], stacked.log_pdf(x))
    assert set(np.unique(statistics["run"])) == {0, 2}
    shares = [np.mean(statistics["run"].values == place) for place in stacked.kept]
    np.testing.assert_allclose(shares, stacked.run_weights, atol=0.1)
    np.testing.assert_array_equal(tree["stack"]["run"], [0, 2])
    np.testing.assert_array_equal(tree["stack"]["run_weight"], stacked.run_weights)
    assert tree.attrs["log_evidence"] == stacked.evidence.log_evidence
    assert tree.attrs["evidence_gp_sd"] == stacked.evidence.gp_sd
    assert "did not converge" in tree.attrs["dropped_runs"]


def test_draws_come_from_the_component_they_are_labelled_with(stacked):
    """The mean of each heavy component's draws is that component's centre."""
    x, component = stacked.labelled_sample(60_000, seed=1)
    for j in np.flatnonzero(stacked.weights > 0.05):
        mine = x[component == j]
        error = mine.std(axis=0) / np.sqrt(len(mine))
        centre = stacked.components.centres[j]
        np.testing.assert_array_less(np.abs(mine.mean(axis=0) - centre), 4.5 * error)


def test_netcdf_reads_back_and_is_not_overwritten(stacked, tmp_path):
    path = stacked.to_netcdf(tmp_path / "stack", 100, seed=3)
    assert path.name == "stack.nc"
    with xarray.open_datatree(path, engine="h5netcdf") as found:
        rate = found["posterior/rate"].to_numpy()[0]
        np.testing.assert_array_equal(rate, stacked.sample(100, seed=3)[:, 0])
        assert found.attrs["log_evidence"] == stacked.evidence.log_evidence
    with pytest.raises(FileExistsError, match="overwrite=True"):
        stacked.to_netcdf(path, 100)
    stacked.to_netcdf(path, 10, overwrite=True)
    assert [item.name for item in tmp_path.iterdir()] == ["stack.nc"]


def test_csv_reads_back_exactly_and_quotes_names(stacked, tmp_path):
    path = stacked.to_csv(tmp_path / "draws", 50, seed=3, names=('rate, "fast"', "bias"))
    assert path.name == "draws.csv"
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ['rate, "fast"', "bias", "log_density", "run", "component"]
    table = np.array(rows, dtype=float)
    np.testing.assert_array_equal(table[:, :2], stacked.sample(50, seed=3))
    np.testing.assert_array_equal(table[:, 2], stacked.log_pdf(table[:, :2]))
    assert set(table[:, 3]) <= {0, 2}
    with pytest.raises(FileExistsError, match="overwrite=True"):
        stacked.to_csv(path)


def test_names_that_a_format_cannot_hold_are_named(stacked, tmp_path):
    with pytest.raises(ValueError, match="'chain' cannot be used"):
        stacked.to_arviz(10, names=("chain", "bias"))
    with pytest.raises(ValueError, match="'a/b' cannot be used"):
        stacked.to_netcdf(tmp_path / "x.nc", 10, names=("a/b", "bias"))
    with pytest.raises(ValueError, match="'run' cannot be used"):
        stacked.to_csv(tmp_path / "x.csv", names=("run", "bias"))
    with pytest.raises(ValueError, match="expected 2 different strings"):
        stacked.to_arviz(10, names=("rate",))
    assert not list(tmp_path.iterdir())


def test_the_gaussian_mixture_has_the_density_of_the_stack(rotated):
    mixture = rotated.to_gaussian_mixture()
    x = rotated.sample(200, seed=0)
    parts = zip(mixture.weights, mixture.means, mixture.covariances, strict=True)
    terms = [np.log(w) + multivariate_normal(m, c).logpdf(x) for w, m, c in parts]
    np.testing.assert_allclose(logsumexp(terms, axis=0), rotated.log_pdf(x), rtol=1e-9)
    mean, covariance = rotated.moments()
    np.testing.assert_allclose(mixture.weights @ mixture.means, mean, rtol=1e-12)
    away = mixture.means - mean
    total = mixture.covariances + away[:, :, None] * away[:, None, :]
    np.testing.assert_allclose(np.einsum("k,kde->de", mixture.weights, total), covariance)


def test_a_bounded_stack_is_no_gaussian_mixture(bounded):
    with pytest.raises(ValueError, match=r"'b' has the hard bounds \[-2.0, 3.0\]"):
        bounded.to_gaussian_mixture()


def test_a_missing_library_is_named_with_the_remedy(stacked, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz_base", None)
    with pytest.raises(ImportError, match=r"arviz_base.*pip install 'vbstack\[arviz\]'"):
        stacked.to_arviz(10)


def test_scipy_names(stacked):
    assert stacked.rvs().shape == (2,)
    assert stacked.rvs(size=7).shape == (7, 2)
    grid = stacked.rvs(size=(3, 4), random_state=5)
    assert grid.shape == (3, 4, 2)
    np.testing.assert_array_equal(grid.reshape(12, 2), stacked.sample(12, seed=5))
    np.testing.assert_array_equal(
        stacked.logpdf(grid), stacked.log_pdf(grid.reshape(12, 2)).reshape(3, 4)
    )
    assert np.ndim(stacked.logpdf(grid[0, 0])) == 0
