"""Scripts written for pyvbmc.SVBMC and svbmc.SVBMC, with the import changed only.

The posteriors are real: archived, converged VBMC runs as pyvbmc objects.
"""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from pyvbmc import VBMC

from tests.archived import ARCHIVES, archived_posteriors
from vbstack import FileError, Run, TooFewRuns, load_runs, stack
from vbstack.compat import SVBMC

SVBMC_SCRIPT = """
import pickle
from pathlib import Path

from vbstack.compat import SVBMC

vp_list = [pickle.loads(path.read_bytes()) for path in sorted(Path("vbmc_runs").glob("*.pkl"))]
stacked = SVBMC(vp_list=vp_list)
stacked.optimize()
print(f"Stacked ELBO: {stacked.elbo['estimated']}")
print("debiased:", stacked.elbo["debiased_I_median"], stacked.elbo["debiased_E_median"])
draws = stacked.sample(n_samples=10000)
print(draws.shape, stacked.w.sum(), stacked.entropy)
"""

PYVBMC_SCRIPT = """
import matplotlib

matplotlib.use("Agg")
import pickle
from pathlib import Path

import numpy as np

from vbstack.compat import SVBMC

vps = [pickle.loads(path.read_bytes()) for path in sorted(Path("vbmc_runs").glob("*.pkl"))]
stacked = SVBMC(vps, seed=0)
stacked.optimize(n_samples_final=100)
print("Headline stacked ELBO:", round(stacked.elbo, 3), "+/-", round(stacked.elbo_sd, 3))
print(stacked.elbo_details["headline_method"], round(stacked.elbo_details["raw"], 3))
print(stacked.noise_status_source)
offsets = np.concatenate([[0], np.cumsum(stacked.K)])
for m in range(stacked.M):
    print(f"run {m}: weight {stacked.w[0, offsets[m] : offsets[m + 1]].sum():.3f}")
for vp in stacked.vp_list:
    print("run", vps.index(vp), vp.sample(100)[0].shape)
print(stacked.sample(5000).shape)
stacked.plot(n_samples=5000, figsize=(6, 6), bins=40).savefig("corner.png")
stacked.save("stack.pkl")
print(SVBMC.load("stack.pkl").sample(10).shape, SVBMC.load("stack.pkl").elbo == stacked.elbo)
"""


@pytest.fixture(scope="module")
def vps():
    return archived_posteriors("gmm", 4)


@pytest.fixture(scope="module")
def stacked(vps):
    made = SVBMC(vps, seed=0)
    made.optimize()
    return made


@pytest.mark.parametrize("script", [SVBMC_SCRIPT, PYVBMC_SCRIPT])
def test_quick_starts_run_with_the_import_changed(script, vps, tmp_path):
    (tmp_path / "vbmc_runs").mkdir()
    for index, vp in enumerate(vps):
        (tmp_path / "vbmc_runs" / f"{index}.pkl").write_bytes(pickle.dumps(vp))
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=170,
    )
    assert done.returncode == 0, done.stderr
    assert "tacked ELBO" in done.stdout
    if script == PYVBMC_SCRIPT:
        assert "(10, 2) True" in done.stdout
        assert (tmp_path / "corner.png").stat().st_size > 10_000


def test_posteriors_made_of_archives_are_the_runs(vps):
    for run, vp in zip(load_runs(ARCHIVES / "gmm.npz"), vps, strict=False):
        again = Run.from_pyvbmc(vp)
        np.testing.assert_allclose(again.sds, run.sds)
        np.testing.assert_allclose(again.transform.matrix, run.transform.matrix)


def test_a_posterior_straight_from_vbmc():
    """A real, short run of a Gaussian whose log evidence is log 2π."""
    short = {"max_fun_evals": 15, "max_iter": 3, "min_final_components": 5}
    vbmc = VBMC(
        lambda x: -0.5 * float(np.sum(np.square(x))),
        np.zeros(2),
        plausible_lower_bounds=np.full(2, -2.0),
        plausible_upper_bounds=np.full(2, 2.0),
        options={"display": "off", "show_tips": False, **short},
        seed=0,
    )
    vp, _ = vbmc.optimize()
    with pytest.raises(TooFewRuns, match="did not converge"):
        SVBMC([vp])
    vp.stats["stable"] = True  # so few evaluations never are; the object is what is tested
    one = SVBMC([vp], seed=0)
    one.optimize()
    assert one.elbo == pytest.approx(np.log(2 * np.pi), abs=0.1)
    assert one.sample(10).shape == (10, 2)


def test_the_answer_is_that_of_stack(stacked, vps):
    """Same weights up to the seed of the draws, so the same ELBO within the certificates."""
    expected = stack([Run.from_pyvbmc(vp) for vp in vps])
    assert (stacked.D, stacked.M, stacked.K) == (2, 4, [50] * 4)
    assert stacked.w.shape == (1, 200)
    assert stacked.w.sum() == pytest.approx(1)
    allowed = expected.solution.gap + stacked.posterior.solution.gap
    assert stacked.elbo == pytest.approx(expected.evidence.elbo, abs=allowed)
    assert stacked.elbo["estimated"] == stacked.elbo_details["raw"] == stacked.elbo
    assert stacked.elbo.keys() == ["estimated", "debiased_I_median", "debiased_E_median"]
    assert stacked.entropy == stacked.posterior.evidence.entropy
    assert stacked.I_corrected.shape == (1, 200)


def test_versions_are_the_three_kinds_of_weights(vps):
    one = SVBMC(vps, seed=0)
    naive = one.elbo
    one.optimize(version="posterior-only")
    by_run = one.elbo
    one.optimize()
    assert naive < by_run < one.elbo
    assert one.posterior.target == "all"
    one.optimize(version="ns")
    np.testing.assert_allclose(one.w[0, :50], vps[0].w[0] / 4)
    with pytest.raises(ValueError, match="version='adam' is not known"):
        one.optimize(version="adam")


def test_seeds_fix_everything(vps):
    first, second = SVBMC(vps, seed=3), SVBMC(vps, seed=3)
    for one in (first, second):
        one.optimize(version="posterior-only")
    np.testing.assert_array_equal(first.w, second.w)
    np.testing.assert_array_equal(first.sample(5), second.sample(5))


def test_options_without_meaning_give_one_warning(vps):
    one = SVBMC(vps)
    with pytest.warns(UserWarning, match=r"ignored: lr=0.01, max_steps=9\. ") as caught:
        one.optimize(lr=0.01, max_steps=9, version="ns")
    assert len(caught) == 1
    with pytest.warns(UserWarning, match="ignored: balance_flag=True"):
        assert one.sample(7, balance_flag=True).shape == (7, 2)
    with pytest.warns(UserWarning, match="ignored: show_tips=True, testing=True"):
        SVBMC(vps, show_tips=True, testing=True)


def test_runs_are_filtered_and_counted(vps):
    bad = archived_posteriors("gmm", 1)[0]
    bad.stats["stable"] = False
    assert SVBMC([bad, *vps]).vp_list == vps
    assert SVBMC([bad, *vps], M_min=4).M == 4
    with pytest.raises(TooFewRuns, match="run 0: did not converge"):
        SVBMC([bad, *vps], M_min=1)
    with pytest.raises(TooFewRuns):
        SVBMC(vps, s_max=1e-6)
    with pytest.warns(UserWarning, match="M_min=9 of 4 runs"):
        SVBMC(vps, M_min=9)
    with pytest.raises(ValueError, match="M_min=0"):
        SVBMC(vps, M_min=0)


def test_noise_can_be_declared(vps):
    noisy = SVBMC(vps, noisy=True)
    assert noisy.noisy
    assert noisy.elbo_details["headline_method"] == "capped_I_median"
    assert noisy.elbo_details["cap_amount"] == pytest.approx(noisy.elbo["estimated"] - noisy.elbo)


def test_saved_and_loaded_without_pickle(stacked, vps, tmp_path):
    stacked.save(tmp_path / "stack")
    with pytest.raises(FileExistsError):
        stacked.save(tmp_path / "stack")
    loaded = SVBMC.load(tmp_path / "stack", seed=1)
    np.testing.assert_array_equal(loaded.w, stacked.w)
    assert loaded.sample(3).shape == (3, 2)
    loaded.optimize(version="ns")
    with pytest.raises(AttributeError, match=r"posterior\.runs"):
        _ = loaded.vp_list
    (tmp_path / "old.pkl").write_bytes(pickle.dumps(vps[0]))
    with pytest.raises(FileError, match="not a vbstack posterior file"):
        SVBMC.load(tmp_path / "old.pkl")
