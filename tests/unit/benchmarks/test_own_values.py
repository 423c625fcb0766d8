"""`own-values`: its medians and its verdict, on made-up rows; the truth of a component."""

import numpy as np
import pytest

from benchmarks.ablations.own_values import medians, subsets, verdict
from benchmarks.problems import PROBLEMS
from benchmarks.scoring.true_elbo import true_log_joint
from tests.synthetic import identity, make_run


def row(problem: str, cautious: float, naive: float, **more: float) -> dict[str, object]:
    numbers = {"cautious": cautious, "plain": -0.5, "naive": naive}
    return {"problem": problem, "runs": 10, "status": "certified", **numbers, **more}


def test_the_verdict_names_where_caution_falls_short():
    rows = [row("gmm", -0.1, -0.2, pyvbmc=-0.05), row("ring", -0.3, -0.2), row("ring", -0.1, 0.1)]
    found = medians(rows)
    assert [r["problem"] for r in found] == ["gmm", "ring"]
    assert found[1]["lead"] == pytest.approx(-0.15)
    assert found[0]["peer_lead"] == pytest.approx(-0.05)
    text = verdict(found)
    assert "below naive stacking: ring at 10." in text
    assert "below pyvbmc's weights: gmm at 10." in text


def test_subsets_are_the_same_every_time_and_all_runs_are_one():
    assert subsets(20, 5, 3) == subsets(20, 5, 3)
    assert len(subsets(20, 5, 3)) == 3
    assert subsets(4, 4, 3) == [[0, 1, 2, 3]]


def test_the_true_log_joint_of_a_component_is_its_expectation():
    """E[log N(x; μ, Σ)] under N(c, s²): the Gaussian's value at c less ½ s² tr Σ⁻¹."""
    target = PROBLEMS["gaussian2"]()
    centre, sd = np.array([[-1.0, 1.0]]), 0.2
    run = make_run(centre, sd, 0.0, transform=identity(2))
    index = np.arange(2)
    sds = np.geomspace(0.3, 3.0, 2)
    covariance = 0.8 ** np.abs(index[:, None] - index) * np.outer(sds, sds)
    at_centre = float(target.log_densities(centre)[0])
    expected = at_centre - 0.5 * sd**2 * np.trace(np.linalg.inv(covariance))
    assert true_log_joint(target, run, 0)[0] == pytest.approx(expected, abs=0.02)
