"""A Gaussian process and mixtures that tests of several packages share."""

import numpy as np
import pytest

from vbstack.engines.native.diagonal_mixture import DiagonalMixture
from vbstack.engines.native.training import shaped
from vbstack.gaussian_process import hyperparameter_fit
from vbstack.gaussian_process.dense import DenseProcess
from vbstack.gaussian_process.hyperparameters import Hyperparameters


@pytest.fixture
def hyperparameters() -> Hyperparameters:
    """Those of a process of two parameters, all different."""
    return Hyperparameters(
        log_lengths=np.array([-0.7, -0.4]),
        log_output=0.8,
        height=0.5,
        centre=np.array([0.1, -0.2]),
        log_widths=np.array([0.3, 0.6]),
    )


@pytest.fixture
def process(hyperparameters: Hyperparameters) -> DenseProcess:
    """A process through twelve values of a bent function of two parameters."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (12, 2))
    values = -3 * x[:, 0] ** 2 - (x[:, 1] - x[:, 0] ** 2) ** 2
    return DenseProcess.condition(shaped(x, values), hyperparameters)


@pytest.fixture
def mixture() -> DiagonalMixture:
    rng = np.random.default_rng(4)
    weights = np.array([0.5, 0.3, 0.2])
    return DiagonalMixture(weights, rng.uniform(-0.7, 0.7, (3, 2)), rng.uniform(0.1, 0.5, (3, 2)))


@pytest.fixture
def ridge() -> DenseProcess:
    """A process that knows a straight ridge from −2 to 2, and nothing beyond −3 and 3."""
    along, across = np.meshgrid(np.linspace(-2.5, 2.5, 11), np.linspace(-0.6, 0.6, 5))
    x = np.column_stack([along.ravel(), across.ravel()])
    values = -0.5 * (x[:, 0] / 1.2) ** 4 - 0.5 * (x[:, 1] / 0.2) ** 2
    data = shaped(x, values)
    return hyperparameter_fit.fit(data, [hyperparameter_fit.first_guess(data)], 50)
