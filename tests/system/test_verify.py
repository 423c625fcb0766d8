"""Verification of real stacks: what it costs, what it notices, what is kept when it is killed."""

from __future__ import annotations

import fcntl
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.small_problems import evaluations_of
from vbstack import Problem, RunStore, Screen, StackedPosterior, fit, launch, stack, verify
from vbstack.cli.commands import app
from vbstack.fitting import NotVerified
from vbstack.launching.side_by_side import PointsFailed
from vbstack.verifying import UndeclaredNoise

CENTRES = np.array([[-1.5, 0.0], [1.5, 0.5]])
LOG_Z = np.log(2 * np.pi)


def two_modes(x, log=None, die_at=None, fail_beyond=None):
    """Two Gaussians of sd 0.5 and a half of the mass each, log evidence log 2π.

    Each call is a line of the file `log`; the call `die_at` kills its process; points beyond
    `fail_beyond` fail.
    """
    if log is not None:
        with Path(log).open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(f"{float(x[0])!r} {float(x[1])!r}\n")
            file.seek(0)
            calls = len(file.readlines())
        if calls == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
    if fail_beyond is not None and x[0] > fail_beyond:
        raise RuntimeError("the simulator diverged")
    squares = np.square((x - CENTRES) / 0.5).sum(axis=1)
    return float(np.logaddexp(*(-0.5 * squares)) - np.log(2 * 0.25))


def problem(**kwargs):
    return Problem(
        log_density=two_modes,
        plausible_lower_bounds=[-3, -3],
        plausible_upper_bounds=[3, 3],
        names=("a", "b"),
        kwargs=kwargs,
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with four runs."""
    directory = tmp_path_factory.mktemp("runs")
    launch(problem(), 4, store=directory, seed=3, executor="here", progress=False)
    return directory


@pytest.fixture(scope="module")
def posterior(store):
    return stack(list(RunStore(store).runs().values()))


def checked(posterior, n=50, **settings):
    settings = {"executor": "here", "progress": False, **settings}
    return verify(posterior, settings.pop("of", problem()), n, **settings)


def test_a_good_stack_is_verified_and_its_evidence_is_right(posterior):
    found = checked(posterior)
    assert found.passed
    assert found.evidence.n == 50
    assert found.evidence.evaluations == 52  # two points are asked for again
    e = found.posterior.evidence
    assert (e.method, e.log_evidence, e.sd) == (
        "verified",
        found.evidence.log_evidence,
        found.evidence.log_evidence_sd,
    )
    assert e.log_evidence == pytest.approx(LOG_Z, abs=2.5 * e.sd)
    assert e.sd < 0.02
    assert "(verified: checked at 50 draws" in found.posterior.summary()
    assert "checked at 50 draws" in str(found)


def found_by(posterior):
    """What the verification of a posterior found; it must have been verified."""
    assert posterior.evidence.verified is not None
    return posterior.evidence.verified


def with_weights(posterior, weights):
    solution = replace(posterior.solution, weights=weights / weights.sum())
    return replace(posterior, solution=solution)


def test_a_mode_of_twice_its_weight_is_noticed(posterior):
    left = posterior.components.centres[:, 0] < 0
    found = checked(with_weights(posterior, posterior.weights * np.where(left, 2.0, 1.0)), rounds=1)
    assert not found.passed
    assert "nats lower than it said" in found.verdict


def test_a_component_in_the_wrong_place_is_noticed(posterior):
    heaviest = int(np.argmax(posterior.weights))
    centres = posterior.mixture.centres.copy()
    centres[heaviest] += [0.0, 2.0]
    mixture = replace(posterior.mixture, centres=centres)
    found = checked(replace(posterior, mixture=mixture), rounds=1)
    assert not found.passed


def test_surprising_values_join_the_pool_and_fresh_draws_are_checked(tmp_path):
    """Runs that were stopped before they knew the log density."""
    runs = launch(
        problem(), 2, store=tmp_path, seed=5, options={"max_fun_evals": 20}, executor="here",
        progress=False,
    )  # fmt: skip
    rough = stack(runs, screen=Screen(require_converged=False))
    once, twice = (checked(rough, 30, rounds=rounds) for rounds in (1, 2))
    assert once.evidence.surprises > 0
    assert twice.evidence.rounds == 2
    assert twice.evidence.evaluations == 62
    assert twice.posterior.further is not None
    assert twice.posterior.further.size == 30
    assert twice.posterior.kept == (0, 1)
    for found in (once, twice):
        assert abs(found.evidence.log_evidence - LOG_Z) < 2 * found.evidence.log_evidence_sd


def test_noise_that_was_not_declared_is_named():
    rng = np.random.default_rng(0)

    def noisy(x):
        return two_modes(x) + 0.3 * rng.standard_normal()

    secretly = Problem(
        log_density=noisy, plausible_lower_bounds=[-3, -3], plausible_upper_bounds=[3, 3]
    )
    with pytest.warns(UndeclaredNoise, match="noise of about 0.[0-9]+ nats that was not declared"):
        posterior = fit(secretly, 2, verify=20, executor="here", seed=1, progress=False)
    assert not found_by(posterior).passed


def test_corrected_draws_have_the_moments_of_the_posterior(posterior):
    left = posterior.components.centres[:, 0] < 0
    tilted = with_weights(posterior, posterior.weights * np.where(left, 1.3, 1.0))
    with pytest.raises(ValueError, match="call verify"):
        tilted.sample(10, corrected=True)
    tilted = checked(tilted, rounds=1).posterior
    plain, corrected = (tilted.sample(4000, seed=1, corrected=c) for c in (False, True))
    assert np.mean(plain[:, 0] < 0) == pytest.approx(0.565, abs=0.03)
    assert np.mean(corrected[:, 0] < 0) == pytest.approx(0.5, abs=0.03)
    np.testing.assert_array_equal(corrected, tilted.sample(4000, seed=1, corrected=True))


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def test_more_draws_cost_only_what_is_more(store, posterior, tmp_path):
    log = tmp_path / "calls.txt"
    counted = problem(log=str(log))
    first = checked(posterior, 20, of=counted, store=store, trust_store=True)
    assert len(lines(log)) == 22
    again = checked(posterior, 20, of=counted, store=store, trust_store=True)
    assert len(lines(log)) == 22
    assert again.evidence == first.evidence
    checked(posterior, 30, of=counted, store=store, trust_store=True)
    assert len(lines(log)) == 32


@pytest.mark.slow
def test_a_killed_verification_goes_on_where_it_was(posterior, tmp_path):
    runs = tmp_path / "store"
    launch(problem(), 4, store=runs, seed=3, executor="here", progress=False)
    log = tmp_path / "calls.txt"
    child = os.fork()
    if child == 0:  # dies at its ninth evaluation, itself
        try:
            checked(posterior, 30, of=problem(log=str(log), die_at=9), store=runs, trust_store=True)
        finally:
            os._exit(1)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    assert len(lines(log)) == 9
    found = checked(posterior, 30, of=problem(log=str(log)), store=runs, trust_store=True)
    points = lines(log)
    assert len(points) == 33  # the ninth was begun but never answered
    assert len(set(points)) == 32
    assert found.evidence == checked(posterior, 30).evidence


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced(posterior, tmp_path):
    log = tmp_path / "calls.txt"
    dying = problem(log=str(log), die_at=5)
    found = checked(posterior, 20, of=dying, executor="local", n_workers=2)
    assert found.evidence == checked(posterior, 20).evidence
    assert len(set(lines(log))) == 22
    assert len(lines(log)) == 23


@pytest.mark.slow
def test_dask_gives_the_same_numbers(posterior):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        found = checked(posterior, 20, executor=client)
    assert found.evidence == checked(posterior, 20).evidence


def test_a_failing_point_is_named_and_the_others_are_kept(store, posterior, tmp_path):
    failing = problem(log=str(tmp_path / "calls.txt"), fail_beyond=2.0)
    with pytest.raises(PointsFailed, match="the simulator diverged"):
        checked(posterior, 50, of=failing, seed=5, store=store, trust_store=True)
    made = len(lines(tmp_path / "calls.txt"))
    checked(posterior, 50, seed=5, store=store, of=problem(log=str(tmp_path / "more.txt")),
            trust_store=True)  # fmt: skip
    assert made >= 50  # the two points that are asked for again may be there already
    assert 0 < len(lines(tmp_path / "more.txt")) < 10


def test_fit_verifies_exact_problems_unless_told_not_to(tmp_path, posterior):
    settings: dict[str, Any] = {"seed": 3, "executor": "here", "progress": False}
    checked_stack = fit(problem(), 4, store=tmp_path, **settings)
    assert checked_stack.evidence.method == "verified"
    made = sum(evaluations_of(run).paid for run in checked_stack.runs)
    assert found_by(checked_stack).n == max(20, round(0.07 * made))
    assert fit(problem(), 4, store=tmp_path, verify=False, **settings).evidence.method == "pooled"
    assert found_by(fit(problem(), 4, store=tmp_path, verify=25, **settings)).n == 25
    wrong: Any
    for wrong, message in (("yes", "must be 'auto'"), (1, "2 or more"), (2.5, "whole number")):
        with pytest.raises(ValueError, match=message):
            fit(problem(), 4, store=tmp_path / "new", verify=wrong, **settings)
    assert not (tmp_path / "new").exists()


def test_a_fit_whose_verification_fails_is_kept_with_a_warning(store, posterior):
    """The runs are finished; the model fails where the verification asks."""
    failing = problem(fail_beyond=2.0)
    with pytest.warns(NotVerified, match="the stack is not verified"):
        found = fit(failing, 4, store=store, verify=40, executor="here", progress=False,
                    trust_store=True)  # fmt: skip
    assert len(found.runs) == len(posterior.runs)
    assert found.evidence.method == "pooled"


def test_the_command_line_verifies_a_store_and_files_keep_what_was_found(store, tmp_path):
    model = tmp_path / "verified_model.py"
    model.write_text(
        "import vbstack\nfrom tests.system.test_verify import problem\ntarget = problem()\n"
    )
    arguments = ["verify", str(store), f"{model}:target", "--n", "25", "--quiet", "--executor",
                 "here"]  # fmt: skip
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "Verified: the stack agrees with the model at 25 draws." in done.output
    kept = StackedPosterior.load(store / "posterior.npz")
    assert found_by(kept).n == 25
    wrong = CliRunner().invoke(app, [*arguments[:4], "many", *arguments[5:]])
    assert wrong.exit_code == 1
    assert "'many' should be a number or auto" in wrong.output


def test_a_posterior_of_other_parameters_is_refused(posterior):
    with pytest.raises(ValueError, match=r"of the parameters \['a', 'b'\], the problem of"):
        checked(posterior, of=replace(problem(), names=("c", "d")))
