"""One iteration: surrogate and mixture after new evaluations."""

from dataclasses import replace

import numpy as np
import pytest

from vbstack import Problem
from vbstack.engines.native import iteration, mixture_fit, space
from vbstack.engines.native.diagonal_mixture import DiagonalMixture
from vbstack.engines.native.policy import Policy
from vbstack.engines.recorder import Recorder
from vbstack.runs.journal import Journal


@pytest.mark.parametrize(("restart", "nearest"), [(5.0, True), (np.inf, False)])
def test_a_mixture_far_below_the_best_value_starts_again_at_the_best_points(restart, nearest):
    """The narrow mode is seven nats higher; a mixture on the wide one does not find its way."""

    def log_density(x):
        wide, narrow = np.square((x + 2) / 0.8).sum(), np.square((x - 2) / 0.2).sum()
        return float(np.logaddexp(-0.5 * wide, 25 - 0.5 * narrow))

    rng = np.random.default_rng(3)
    problem = Problem(
        log_density=log_density, plausible_lower_bounds=[-4, -4], plausible_upper_bounds=[4, 4]
    )
    recorder = Recorder(problem, 0, Journal())
    for spread, centre in ((1.0, -2.0), (0.25, 2.0)):
        for point in centre + spread * rng.standard_normal((25, 2)):
            recorder(point)
    policy = Policy.of({"restart": restart}, 2)
    state = iteration.first_state(recorder, space.unit_box(problem), rng, policy)
    wide = DiagonalMixture(np.ones(1), np.full((1, 2), -0.25), np.full((1, 2), 0.05))
    away = replace(state, fitted=mixture_fit.evaluated(state.process, wide, rng))
    after = iteration.refitted(away, recorder, rng, policy, warming=False, number=1)
    found = after.map_.inverse(after.fitted.mixture.means)
    assert bool(found[:, 0].max() > 1) is nearest
