"""A stored true posterior and its file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.folders import REFERENCES
from benchmarks.problems.reference_posterior import Reference


def test_a_reference_survives_its_file(tmp_path: Path) -> None:
    stored = Reference.load(REFERENCES / "multisensory.npz")
    again = Reference.load(stored.save(tmp_path / "copy.npz"))
    assert again.log_evidence == stored.log_evidence
    assert again.how == stored.how
    np.testing.assert_array_equal(again.draws, stored.draws)
    few = stored.sample(100, np.random.default_rng(0))
    assert len(np.unique(few, axis=0)) == 100
    assert len(stored.sample(len(stored.draws) + 5, np.random.default_rng(0))) > len(stored.draws)
