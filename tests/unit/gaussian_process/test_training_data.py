"""What a process is conditioned on."""

import numpy as np
import pytest

from vbstack.gaussian_process.training_data import TrainingData, joined


@pytest.fixture
def noisy():
    rng = np.random.default_rng(0)
    sds = np.array([0.1, 2.0, 0.5, 1.0])
    return TrainingData(rng.normal(size=(4, 2)), np.array([1.0, 4.0, 1.5, -1.0]), sds**2, sds)


def test_the_top_of_noisy_values_is_the_highest_lower_confidence_bound(noisy):
    assert noisy.top == pytest.approx(1.0 - 2 * 0.1)
    assert TrainingData(noisy.inputs, noisy.values, noisy.noise_variance).top == 4.0


def test_some_evaluations_and_one_more_are_all_of_them(noisy):
    last = noisy.inputs[3], noisy.values[3], noisy.noise_variance[3], noisy.sds[3]
    again = noisy.at(np.arange(3)).including(*last)
    assert again.size == 4
    for name in ("inputs", "values", "noise_variance", "sds"):
        np.testing.assert_array_equal(getattr(again, name), getattr(noisy, name))
    exact = TrainingData(noisy.inputs, noisy.values, noisy.noise_variance)
    assert exact.at(noisy.values > 0).including(*last).sds is None


def test_joined_parts_are_all_evaluations_in_order(noisy):
    whole = joined([noisy.at(np.array([0, 1])), noisy.at(np.array([2, 3]))])
    assert whole.sds is None
    for name in ("inputs", "values", "noise_variance"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(noisy, name))
