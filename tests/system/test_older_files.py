"""Files that vbstack 0.1.0 wrote are read, and its stores continued, by every later version.

`tests/data/0.1.0` was written by that version: `store` with two finished runs, a third that was
interrupted after twelve evaluations and a fourth that failed, and their stack with pooled
evaluations; `own.npz`, their stack with own values; `archive.npz`, the two runs without their
surrogates. The log density is that of a Gaussian with evidence 1. The numbers below were read with
that version too.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.small_problems import evaluations_of
from vbstack import Problem, RunStore, StackedPosterior, launch, load_runs, stack

OLD = Path(__file__).parents[1] / "data" / "0.1.0"
OPTIONS = {"final_components": 3, "max_fun_evals": 40}
ELBOS = [6.719627582074672e-05, 0.00019832541589748232]
ELBO_SDS = [0.007573240379335688, 0.0076977510722650334]


def problem(calls=None):
    """The problem of the store; its calls are kept in the list that is given."""

    def log_density(x):
        if calls is not None:
            calls.append(tuple(x))
        constant = np.log(1 / (2 * np.pi * 0.2))
        return float(-0.5 * (x[0] ** 2 + (x[1] - 0.5) ** 2 / 0.04) + constant)

    return Problem(
        log_density=log_density,
        plausible_lower_bounds=[-1, 0.2],
        plausible_upper_bounds=[1, 0.8],
        lower_bounds=[-np.inf, -1.0],
        upper_bounds=[np.inf, 2.0],
        names=["a", "b"],
    )


@pytest.fixture
def copy(tmp_path):
    """A copy of the store, to write in."""
    return Path(shutil.copytree(OLD / "store", tmp_path / "store"))


@pytest.mark.parametrize(
    ("name", "method", "elbo", "sd"),
    [
        ("store/posterior.npz", "pooled", 0.0003758272076548461, 0.0014529360441825545),
        ("own.npz", "own", -2.2810192858258504e-05, 0.005412641116428786),
    ],
)
def test_a_posterior_is_read_with_its_evidence_and_its_density(name, method, elbo, sd):
    posterior = StackedPosterior.load(OLD / name)
    evidence = posterior.evidence
    assert evidence.method == method
    assert (evidence.elbo, evidence.elbo_sd) == (elbo, sd)
    with pytest.deprecated_call(match="evidence.log_evidence"):
        assert evidence.headline == evidence.log_evidence
    with pytest.deprecated_call(match="evidence.sd"):
        assert evidence.headline_sd == evidence.sd >= sd
    with pytest.deprecated_call(match="evidence.method"):
        assert evidence.headline_method == method
    with pytest.deprecated_call(match="evidence.reason"):
        assert evidence.headline_reason == evidence.reason
    assert evidence.raw == pytest.approx(-2.28101928582585e-05, rel=1e-9)
    assert posterior.names == ("a", "b")
    assert (posterior.evidence.from_pool is None) == (method == "own")
    assert (posterior.settings.caution, posterior.solution.charge) == (0.0, 0.0)
    np.testing.assert_allclose(posterior.run_weights, [0.49997705, 0.50002295], atol=1e-8)
    points = np.array([[0.0, 0.5], [1.0, 0.4], [-3.0, 1.2], [0.0, 1.999]])
    found = posterior.log_pdf(points)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[:2], [-0.23020838, -0.85418944], atol=1e-7)
    mean, covariance = posterior.moments()
    np.testing.assert_allclose(mean, [-0.00084991, 0.50025622], atol=1e-6)
    np.testing.assert_allclose(np.diag(covariance), [0.999134872, 0.0403800863], rtol=1e-6)
    assert "a" in posterior.summary()


def test_a_posterior_that_is_read_can_be_written_and_read_again(tmp_path):
    posterior = StackedPosterior.load(OLD / "store" / "posterior.npz")
    again = StackedPosterior.load(posterior.save(tmp_path / "posterior.npz"))
    assert again.evidence == posterior.evidence
    points = np.array([[0.0, 0.5], [1.0, 0.4]])
    np.testing.assert_array_equal(again.log_pdf(points), posterior.log_pdf(points))


def test_an_archive_is_read_and_can_be_stacked():
    runs = load_runs(OLD / "archive.npz")
    assert [run.elbo for run in runs] == ELBOS
    assert [run.elbo_sd for run in runs] == ELBO_SDS
    assert all(run.converged and run.engine == "native" for run in runs)
    assert [run.n_components for run in runs] == [8, 8]
    assert [len(evaluations_of(run).values) for run in runs] == [40, 40]
    assert all(run.surrogate is None for run in runs)  # it was written with compact=True
    assert abs(stack(runs).evidence.log_evidence) < 0.01


def test_a_store_is_read_with_its_plan_runs_and_states(copy):
    store = RunStore(copy)
    plan = store.plan()
    assert (plan["seed"], plan["engine"], plan["options"]) == (5, "native", OPTIONS)
    assert plan["problem"]["names"] == ["a", "b"]
    assert plan["problem"]["lower_bounds"] == [-np.inf, -1.0]
    runs = store.runs()
    assert list(runs) == [0, 1]
    assert all(run.surrogate is not None for run in runs.values())
    assert [run.elbo for run in runs.values()] == ELBOS
    states = store.states()
    assert [state.index for state in states] == [0, 1, 2, 3]
    assert [state.state for state in states] == ["finished", "finished", "interrupted", "failed"]
    assert [state.evaluations for state in states] == [40, 40, 12, 0]
    assert [state.elbo for state in states] == [*ELBOS, None, None]
    assert "raised ValueError: the simulator failed, at x = [0.676" in states[3].message
    failure = store.failure(3)
    assert failure is not None
    assert failure["x"] == [0.6763587783466538, 0.74439797023707]


def test_reading_a_store_changes_no_file(copy):
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    store = RunStore(copy)
    store.plan(), store.runs(), store.states()
    StackedPosterior.load(copy / "posterior.npz")
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before


def test_an_interrupted_run_is_resumed_and_only_missing_evaluations_are_made(copy):
    journal = [(entry.x, entry.value) for entry in RunStore(copy).journal(2).evaluations]
    assert len(journal) == 12
    calls: list[tuple[float, ...]] = []
    runs = launch(
        problem(calls),
        3,
        store=str(copy),
        seed=5,
        engine="native",
        options=OPTIONS,
        executor="here",
        progress=False,
    )
    assert [run.elbo for run in runs[:2]] == ELBOS
    resumed = evaluations_of(runs[2])
    asked_again = calls[:2]  # 0.1.0 left no fingerprint: is it the same log density?
    del calls[:2]
    known = {tuple(x) for run in runs for x in evaluations_of(run).x}
    assert set(asked_again) <= known
    assert resumed.size <= 40  # the budget in the options
    assert len(calls) == resumed.size - 12
    assert not {x for x, _ in journal} & set(calls)
    np.testing.assert_array_equal(resumed.x[:12], [x for x, _ in journal])
    np.testing.assert_array_equal(resumed.values[:12], [value for _, value in journal])
    np.testing.assert_array_equal(resumed.x[12:], calls)
    assert abs(runs[2].elbo) < 0.05
    assert RunStore(copy).states()[2].state == "finished"
    assert RunStore(copy).states()[3].state == "failed"


def test_a_failed_run_is_made_again_and_the_store_keeps_its_seed(copy):
    """Without a seed the store's own is used; a finished run is not made again."""
    calls: list[tuple[float, ...]] = []
    runs = launch(
        problem(calls), 4, store=str(copy), options=OPTIONS, executor="here", progress=False
    )
    new = sum(evaluations_of(run).size for run in runs[2:]) - 12
    assert new <= (40 - 12) + 40
    assert len(calls) == 2 + new  # two to see whether it is the same log density
    assert RunStore(copy).failure(3) is None
    assert len(runs) == 4
    assert abs(stack(runs).evidence.log_evidence) < 0.02
