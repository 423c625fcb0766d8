"""Every coverage target by its name."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.coverage.coverage_target import CoverageTarget, single
from benchmarks.coverage.development_targets import DEVELOPMENT
from benchmarks.coverage.report_targets import REPORT
from benchmarks.problems import PROBLEMS

# Of several dimensions and shapes, with archives of their own.
UNIMODAL = ("gaussian2", "rosenbrock2", "crescent", "student_t", "gaussian5", "skew_normal")


def _single(name: str) -> Callable[[], CoverageTarget]:
    return lambda: single(PROBLEMS[name]())


TARGETS: dict[str, Callable[[], CoverageTarget]] = {
    **{make.__name__: make for make in (*DEVELOPMENT, *REPORT)},
    **{name: _single(name) for name in UNIMODAL},
}
