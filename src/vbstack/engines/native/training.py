"""The evaluations of a run as its surrogate sees them: in the run's space, low values shaped.

A stationary kernel cannot follow both the posterior and a cliff of a million nats; there is no mass
down there, and all that matters is that it is low.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vbstack.arrays import Array
from vbstack.engines.native.policy import Policy
from vbstack.engines.recorder import Evaluator
from vbstack.gaussian_process.dense import JITTER
from vbstack.gaussian_process.training_data import TrainingData
from vbstack.runs.transform import Transform


def training_data(recorder: Evaluator, map_: Transform, policy: Policy) -> TrainingData:
    """All evaluations so far, seen from the space of this map.

    A point on a hard bound has no place there, and is left out.
    """
    made = recorder.evaluations()
    seen = made.seen_from(map_)
    outside = made.x[made.outside & map_.inside(made.x)]
    data = shaped(seen.x, seen.values, policy, seen.sds)
    return replace(data, outside=map_.forward(outside)) if len(outside) else data


def shaped(inputs: Array, values: Array, policy: Policy, sds: Array | None = None) -> TrainingData:
    """Points far below the best get noise of their own, so that they do not bend the rest."""
    known = np.zeros(len(values)) if sds is None else sds
    values = compressed(values, float(values.max()), inputs.shape[1], policy)
    depth = values.max() - values - policy.shaping * inputs.shape[1] - 2 * known
    noise = JITTER + np.square(policy.shaping_sd * np.maximum(0, depth)) + known**2
    return TrainingData(inputs, values, noise, sds)


def compressed(values: Array, top: float, dimension: int, policy: Policy) -> Array:
    """Values whose depth below `top` beyond c = 20 D nats is logarithmic: c (1 + log depth/c)."""
    limit = policy.compression * dimension
    depth = top - values
    return np.asarray(
        top - np.where(depth > limit, limit * (1 + np.log(np.maximum(depth, limit) / limit)), depth)
    )
