"""Where the benchmarks keep their data."""

from pathlib import Path

BENCHMARKS = Path(__file__).parent
ROOT = BENCHMARKS.parent  # of the repository
ARCHIVES = BENCHMARKS / "archives"  # VBMC runs, one file per problem
REFERENCES = BENCHMARKS / "references"  # true posteriors that took long to compute
RESULTS = BENCHMARKS / "results"  # what the commands write
