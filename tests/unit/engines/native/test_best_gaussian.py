"""The best Gaussian of a surrogate."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from vbstack.engines.native.best_gaussian import Gaussian, best_gaussian
from vbstack.gaussian_process import hyperparameter_fit
from vbstack.gaussian_process.quadrature import expected_log_joints
from vbstack.gaussian_process.training_data import TrainingData


def test_one_gaussian_has_the_slope_and_the_curvature_of_its_elbo(process):
    mean, covariance = np.array([0.1, -0.2]), np.array([[0.09, 0.02], [0.02, 0.05]])
    found = Gaussian.of(process, mean, covariance)
    diagonal = Gaussian.of(process, mean, np.diag([0.04, 0.09]))
    integral = expected_log_joints(process, mean[None], np.array([[0.2, 0.3]]))[0][0]
    entropy = (np.log(2 * np.pi) + 1) + np.log(0.2 * 0.3)
    assert diagonal.elbo == pytest.approx(integral + entropy)

    def at(step):
        return Gaussian.of(process, mean + step, covariance)

    np.testing.assert_allclose(
        found.slope, approx_fprime(np.zeros(2), lambda v: at(v).elbo, 1e-6), atol=1e-5
    )
    columns = [(at(v).slope - at(-v).slope) / 2e-5 for v in 1e-5 * np.eye(2)]
    np.testing.assert_allclose(found.curvature, np.column_stack(columns), atol=1e-6)


def test_the_best_gaussian_of_a_gaussian_is_the_gaussian():
    rng = np.random.default_rng(5)
    true_mean, covariance = np.array([0.2, -0.1]), np.array([[0.09, 0.07], [0.07, 0.08]])
    x = rng.uniform(-1, 1, (40, 2))
    away = x - true_mean
    values = -0.5 * np.einsum("nd,nd->n", away, np.linalg.solve(covariance, away.T).T)
    data = TrainingData(x, values, np.full(40, 1e-6))
    process = hyperparameter_fit.fit(data, [hyperparameter_fit.first_guess(data)], 100)
    best = best_gaussian(process, np.zeros(2), 0.1 * np.eye(2))
    np.testing.assert_allclose(best.mean, true_mean, atol=1e-2)
    np.testing.assert_allclose(best.covariance, covariance, atol=1e-2)
    log_evidence = 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    assert best.elbo == pytest.approx(log_evidence, abs=1e-2)
