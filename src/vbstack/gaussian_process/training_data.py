"""`TrainingData`: what a process is conditioned on, in one space."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vbstack.arrays import Array


@dataclass(frozen=True)
class TrainingData:
    """Evaluations and the noise that a process takes them to have.

    Parameters
    ----------
    inputs : (n, D)
        Points in the space of the process.
    values : (n,)
        Log density there, log-Jacobian included.
    noise_variance : (n,)
        Variance that is added to the kernel's diagonal.
    sds : (n,) or None
        Standard deviations of noisy values; None when they are exact.
    outside : (m, D) or None
        Points where the log density is −inf; None when there are none.
    """

    inputs: Array
    values: Array
    noise_variance: Array
    sds: Array | None = None
    outside: Array | None = None

    @property
    def size(self) -> int:
        return int(self.values.size)

    @property
    def dimension(self) -> int:
        return int(self.inputs.shape[1])

    @property
    def top(self) -> float:
        """The highest value; of noisy ones the highest lower confidence bound, value − 2 sd."""
        return float((self.values if self.sds is None else self.values - 2 * self.sds).max())

    def at(self, index: NDArray[np.integer] | NDArray[np.bool_]) -> TrainingData:
        """Some of the evaluations."""
        sds = None if self.sds is None else self.sds[index]
        return TrainingData(self.inputs[index], self.values[index], self.noise_variance[index], sds)

    def including(
        self, point: Array, value: float, noise_variance: float, sd: float
    ) -> TrainingData:
        """With one evaluation more."""
        return TrainingData(
            np.vstack([self.inputs, point]),
            np.append(self.values, value),
            np.append(self.noise_variance, noise_variance),
            None if self.sds is None else np.append(self.sds, sd),
            self.outside,
        )

    def excluding(self, point: Array) -> TrainingData:
        """With one point more that is outside the support."""
        known = np.empty((0, self.dimension)) if self.outside is None else self.outside
        return replace(self, outside=np.vstack([known, point]))


def joined(parts: list[TrainingData]) -> TrainingData:
    """All evaluations of several sets; for processes that need no standard deviations."""
    return TrainingData(
        np.concatenate([part.inputs for part in parts]),
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.noise_variance for part in parts]),
    )
