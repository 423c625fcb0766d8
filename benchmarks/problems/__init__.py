"""The log densities that the benchmarks stack, with their true evidence and posteriors.

`PROBLEMS` has a function for every name; what it returns is a frozen `BenchmarkProblem`, and the
`problem()` of that is what a run sees.
"""

from benchmarks.problems.benchmark_problem import BenchmarkProblem
from benchmarks.problems.catalogue import PROBLEMS, benchmark_of

__all__ = ["PROBLEMS", "BenchmarkProblem", "benchmark_of"]
