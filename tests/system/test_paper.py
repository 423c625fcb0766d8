"""The whole pipeline of the paper's experiments on tiny settings, twice: `make paper-smoke`."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("emcee", reason="the extra `bench` is not installed")
pytest.importorskip("nautilus", reason="the extra `bench` is not installed")

ROOT = Path(__file__).parents[2]
TINY = ("--sizes", "1", "2", "4", "--subsets", "2", "--repeats", "1", "--limit", "200")
FILES = {
    "stack_gmm.json",
    "baselines_gmm.json",
    "tables.md",
    "scores.png",
    "bias.png",
    "overlays.png",
}


def pipeline(folder: Path) -> dict[str, str]:
    """Run everything for the GMM; checksums of what was written."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks", "all", "--problem", "gmm", *TINY]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    settings = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [*command, "--workers", "1", "--out", str(folder)], check=True, cwd=ROOT, env=settings
    )
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}


@pytest.mark.slow
def test_pipeline_is_complete_and_repeatable(tmp_path: Path) -> None:
    first, second = pipeline(tmp_path / "a"), pipeline(tmp_path / "b")
    assert set(first) == FILES
    assert first == second
    rows = json.loads((tmp_path / "a" / "stack_gmm.json").read_text())["rows"]
    assert {row["method"] for row in rows} == {"vbmc", "naive", "runs", "all"}
    assert len(rows) == 2 + 2 * 2 * 3
    assert all(0 <= row["mmtv"] <= 1 and row["gskl"] >= 0 for row in rows)
    baselines = json.loads((tmp_path / "a" / "baselines_gmm.json").read_text())["rows"]
    assert {row["method"] for row in baselines} == {"bbvi50", "bbvi500", "nautilus", "emcee"}
    text = (tmp_path / "a" / "tables.md").read_text()
    assert "*0.0089 [0.0043, 0.015]*" in text  # the paper's, beside ours
