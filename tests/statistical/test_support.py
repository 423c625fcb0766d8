"""Log densities that are −inf or fail in a part of space, from evaluations to the evidence."""

import numpy as np
import pytest

from benchmarks.ablations.support import below_diagonal, raising
from vbstack import Problem, fit


@pytest.mark.slow
@pytest.mark.parametrize("cut", [below_diagonal(2), raising(0.3)], ids=lambda cut: cut.name)
def test_the_evidence_of_a_cut_gaussian_is_found(cut, tmp_path):
    """`python -m benchmarks support` has ten runs, both engines and more problems."""
    posterior = fit(
        cut.problem(),
        6,
        store=tmp_path,
        seed=3,
        engine="native",
        executor="here",
        on_error=cut.on_error,
        progress=False,
    )
    e = posterior.evidence
    assert abs(e.log_evidence - cut.log_evidence) < 0.1
    assert np.mean(~cut.inside(posterior.sample(5000, seed=0))) < 0.03
    made = [run.evaluations for run in posterior.runs if run.evaluations is not None]
    assert sum(one.outside.sum() for one in made) < 0.4 * sum(one.size for one in made)


def test_a_constraint_is_asked_first_and_the_function_is_not_called_outside():
    calls = []

    def log_density(x):
        calls.append(x)
        return -0.5 * float(x @ x)

    problem = Problem(
        log_density=log_density,
        constraint=lambda x: x[0] < x[1],
        plausible_lower_bounds=[-2, -2],
        plausible_upper_bounds=[2, 2],
    )
    rng = np.random.default_rng(0)
    assert problem.evaluation(np.array([1.0, 0.0]), rng).value == -np.inf
    assert calls == []
    assert problem.evaluation(np.array([0.0, 1.0]), rng).value == -0.5
    assert len(calls) == 1
