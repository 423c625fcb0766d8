"""Screening: reasons, limits, and runs that do not belong together."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.synthetic import make_run, make_transform
from vbstack import Screen, TooFewRuns, screen, stack


def good(**details):
    return make_run([[0.0], [1.0]], 1.0, 0.0, **details)


def test_reasons_name_the_value_and_the_limit():
    runs = [
        good(),
        good(converged=False),
        good(variance=7.0),
        good(converged=False, elbo=np.nan),
    ]
    kept, dropped = screen(runs)
    assert kept == (0,)
    assert [d.index for d in dropped] == [1, 2, 3]
    assert dropped[0].reason == "did not converge"
    assert "variance 7" in dropped[1].reason
    assert "not below 5" in dropped[1].reason


def test_rules_are_adjustable():
    runs = [good(converged=False), good(variance=7.0), good(converged=False, elbo=np.nan)]
    kept, dropped = screen(runs, Screen(require_converged=False, max_variance=10))
    assert kept == (0, 1)
    assert "not finite" in dropped[0].reason


def test_the_variance_includes_the_spread_over_hyperparameters():
    samples = np.array([[0.0, -4.0], [0.0, 4.0]])
    run = replace(good(), log_joint=samples, log_joint_covariance=np.zeros((2, 2, 2)))
    with pytest.raises(TooFewRuns, match="variance 32"):
        screen([run])


def test_too_few_runs_lists_every_dropped_run():
    runs = [good(), good(converged=False), good(variance=9.0)]
    with pytest.raises(TooFewRuns) as error:
        screen(runs, Screen(min_runs=2))
    message = str(error.value)
    assert "1 of 3 runs passed the screen, at least 2 are needed" in message
    assert "run 1: did not converge" in message
    assert "run 2: the expected log-joint" in message
    with pytest.raises(TooFewRuns, match="no runs were given"):
        stack([])


def test_runs_of_different_problems_are_refused_with_the_difference():
    with pytest.raises(ValueError, match="run 1 has D = 2 parameters, run 0 has D = 1"):
        screen([good(), make_run([[0.0, 0.0]], 1.0, 0.0)])
    bounded = make_transform([12], 0.0, 1.0)
    with pytest.raises(
        ValueError, match=r"run 2 has lower bound 0.0 for parameter 'x1', run 0 has -inf"
    ):
        screen([good(), good(), good(transform=bounded)])
    with pytest.raises(ValueError, match=r"run 1 names its parameters \('b',\), run 0 \('a',\)"):
        screen([good(names=("a",)), good(names=("b",))])
    wrong: list[Any] = [good(), "run"]
    with pytest.raises(TypeError, match="item 1 is a str"):
        screen(wrong)


def test_dropped_runs_are_reported_by_the_posterior():
    posterior = stack([good(converged=False), good(), good()])
    assert posterior.kept == (1, 2)
    assert posterior.dropped[0].index == 0
    assert "0 dropped: did not converge" in posterior.summary()
