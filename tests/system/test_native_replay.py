"""Runs of the native engine that continue from a journal."""

import numpy as np

from tests.small_problems import CENTRE, evaluations_of, gaussian_run, noisy_gaussian_problem
from vbstack.engines.native.loop import run_native
from vbstack.engines.recorder import Recorder
from vbstack.runs.journal import Journal


def test_a_run_is_replayed_bit_for_bit_from_half_a_journal():
    finished = gaussian_run()
    journal = Journal()
    whole = gaussian_run(journal=journal)
    half = Journal()
    for evaluation in journal.evaluations[: len(journal.evaluations) // 2]:
        half.append(evaluation)
    again = gaussian_run(journal=half)
    for run in (whole, again):
        for name in ("weights", "means", "sds", "log_joint", "log_joint_covariance"):
            np.testing.assert_array_equal(getattr(run, name), getattr(finished, name))
        np.testing.assert_array_equal(evaluations_of(run).x, evaluations_of(finished).x)


def test_a_noisy_run_continues_from_its_journal():
    problem, options = noisy_gaussian_problem(), {"max_fun_evals": 40}
    recorder = Recorder(problem, 3, Journal())
    whole = run_native(problem, CENTRE, 3, recorder, options)
    journal = Journal()
    for evaluation in recorder.made[:25]:
        journal.append(evaluation)
    again = Recorder(problem, 3, journal)
    run = run_native(problem, CENTRE, 3, again, options)
    assert again.replayed == 25
    assert run.elbo == whole.elbo
    np.testing.assert_array_equal(evaluations_of(run).values, evaluations_of(whole).values)
