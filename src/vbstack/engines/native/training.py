"""The evaluations of a run as its surrogate sees them: in the run's space, low values shaped.

A stationary kernel cannot follow both the posterior and a cliff of a million nats; there is no mass
down there, and all that matters is that it is low.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vbstack.arrays import Array
from vbstack.engines.recorder import Evaluator
from vbstack.gaussian_process.dense import JITTER
from vbstack.gaussian_process.training_data import TrainingData
from vbstack.runs.transform import Transform

_DEPTH = 20.0  # nats per dimension below the best, beyond which values are compressed
_SHAPING_DEPTH = 10.0  # nats per dimension below the best, beyond which values get extra noise
_SHAPING = 0.05  # sd of the extra noise per nat that a point lies below that


def training_data(recorder: Evaluator, map_: Transform) -> TrainingData:
    """All evaluations so far, seen from the space of this map.

    A point on a hard bound has no place there, and is left out.
    """
    made = recorder.evaluations()
    seen = made.seen_from(map_)
    outside = made.x[made.outside & map_.inside(made.x)]
    data = shaped(seen.x, seen.values, seen.sds)
    return replace(data, outside=map_.forward(outside)) if len(outside) else data


def shaped(inputs: Array, values: Array, sds: Array | None = None) -> TrainingData:
    """Points far below the best get noise of their own, so that they do not bend the rest."""
    known = np.zeros(len(values)) if sds is None else sds
    values = compressed(values, float(values.max()), inputs.shape[1])
    depth = values.max() - values - _SHAPING_DEPTH * inputs.shape[1] - 2 * known
    noise = JITTER + np.square(_SHAPING * np.maximum(0, depth)) + known**2
    return TrainingData(inputs, values, noise, sds)


def compressed(values: Array, top: float, dimension: int) -> Array:
    """Values whose depth below `top` beyond c = 20 D nats is logarithmic: c (1 + log depth/c)."""
    limit = _DEPTH * dimension
    depth = top - values
    return np.asarray(
        top - np.where(depth > limit, limit * (1 + np.log(np.maximum(depth, limit) / limit)), depth)
    )
