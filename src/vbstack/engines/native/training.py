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

# Nats per dimension below the best, beyond which depth counts logarithmically: all mass is far
# above, also of a Student t in ten dimensions, and the kernel need not follow the rest.
DEPTH = 20.0
LOW_NOISE = (
    0.1  # of the depth beyond: without it the mean of a Gaussian is off by 0.05 sd, not 0.002
)


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
    """Points and their values, low ones compressed; `sds` are those of noisy values.

    Where values are compressed, a Gaussian's log density is no longer quadratic. Noise keeps a few
    such values from bending the surrogate where the mass is.
    """
    top = float(values.max())
    low = compressed(values, top, inputs.shape[1])
    noise = JITTER + noise_of_low(low, top, inputs.shape[1]) ** 2
    return TrainingData(inputs, low, noise if sds is None else noise + sds**2, sds)


def noise_of_low(values: Array, top: float, dimension: int) -> Array:
    """The standard deviation that compressed values are taken to have; others have none."""
    return np.asarray(LOW_NOISE * np.maximum(top - values - DEPTH * dimension, 0.0))


def compressed(values: Array, top: float, dimension: int) -> Array:
    """Values whose depth below `top` beyond c = 20 D nats is logarithmic: c (1 + log depth/c)."""
    limit = DEPTH * dimension
    depth = top - values
    return np.asarray(
        top - np.where(depth > limit, limit * (1 + np.log(np.maximum(depth, limit) / limit)), depth)
    )
