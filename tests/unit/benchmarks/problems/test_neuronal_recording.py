"""The noise of a recording, and where the likelihood looks at it; needs no NEURON."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from benchmarks.problems.neuronal.noise import Noise, Whitener
from benchmarks.problems.neuronal.recording import (
    SHIPPED,
    likelihood_times,
    quiet_parts,
    read_recording,
    stimulus_changes,
)


def test_whitener_is_a_multivariate_normal() -> None:
    times = np.array([0.0, 0.5, 1.0, 7.0, 30.0])
    noise = Noise(0.02, 15.0, 80.0)
    residual = np.array([0.01, 0.02, -0.01, 0.0, 0.03])
    expected = multivariate_normal(np.zeros(5), noise.covariance(times)).logpdf(residual)
    assert Whitener.of(noise, times).log_density(residual) == pytest.approx(expected, rel=1e-9)


def test_noise_is_recovered_from_long_quiet_stretches() -> None:
    noise = Noise(0.02, 15.0, 80.0)
    rng = np.random.default_rng(0)
    times = np.arange(0.0, 250.0, 0.5)
    found = Noise.estimate([noise.sample(times, rng) for _ in range(20)], 0.5)
    # 5 s of noise with 15 ms of memory: about 170 independent stretches, so 5 to 15 %.
    assert found.sd == pytest.approx(0.02, rel=0.2)
    assert found.decay == pytest.approx(15.0, rel=0.35)
    assert found.period == pytest.approx(80.0, rel=0.2)


def test_the_likelihood_looks_where_the_stimulus_changes() -> None:
    times = likelihood_times()
    assert np.all(np.diff(times) > 0)
    for change in stimulus_changes():
        assert np.sum((times >= change) & (times < change + 60)) >= 120
    recording = read_recording(SHIPPED)
    for begin, end in quiet_parts():
        quiet = recording.voltage[(recording.times >= begin) & (recording.times < end)]
        assert abs(quiet).max() < 0.1  # mV; the responses are up to 5


def test_a_recording_with_gaps_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "recording.csv"
    path.write_text("t_ms,v_mV\n0,0\n0.5,0\n2.0,0\n")
    with pytest.raises(ValueError, match="equally spaced"):
        read_recording(path)
