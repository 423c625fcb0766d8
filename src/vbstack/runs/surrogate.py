"""`Surrogate`: the Gaussian process a run ended with, as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbstack.arrays import Array
from vbstack.checks import checked
from vbstack.modes import MeanFunction

MEAN_SIZES = {"zero": (0, 0), "constant": (1, 0), "negative_quadratic": (1, 2)}  # p + q D numbers


@dataclass(frozen=True)
class Surrogate:
    """A squared-exponential Gaussian process with Ns hyperparameter samples, in the run's space.

    Parameters
    ----------
    inputs : (n, D)
        Training inputs.
    values : (n,)
        Log-joint at the inputs, log-Jacobian included.
    noise_variance : (Ns, n) or (Ns, 1)
        Observation variance that each hyperparameter sample adds to the kernel's diagonal.
    log_lengths : (Ns, D)
        Log length scales ℓ.
    log_output : (Ns,)
        Log output scale σ_f.
    mean : "negative_quadratic", "constant" or "zero"
        Kind of mean function.
    mean_parameters : (Ns, P)
        m0, then D centres and D log widths for the negative quadratic; m0 for the constant.
    """

    inputs: Array
    values: Array
    noise_variance: Array
    log_lengths: Array
    log_output: Array
    mean: MeanFunction
    mean_parameters: Array

    def __post_init__(self) -> None:
        if self.mean not in MEAN_SIZES:
            raise ValueError(
                f"surrogate: unknown mean function {self.mean!r}; known are {sorted(MEAN_SIZES)}"
            )
        n, d = np.shape(self.inputs)
        samples = np.shape(self.log_lengths)[0]
        columns = n if np.shape(self.noise_variance)[-1:] == (n,) else 1
        expected = {
            "inputs": (n, d),
            "values": (n,),
            "noise_variance": (samples, columns),
            "log_lengths": (samples, d),
            "log_output": (samples,),
            "mean_parameters": (samples, MEAN_SIZES[self.mean][0] + MEAN_SIZES[self.mean][1] * d),
        }
        for name, shape in expected.items():
            object.__setattr__(self, name, checked("surrogate", name, getattr(self, name), shape))
