"""vbstack: one global posterior, and its evidence, from independent VBMC runs."""

from vbstack.compare import compare
from vbstack.comparison import ComparedModel, Comparison
from vbstack.diagnostics import Diagnostics, diagnostics
from vbstack.evidence import Evidence
from vbstack.export import GaussianMixture
from vbstack.files import FileError, load_runs, save_runs
from vbstack.fit import fit
from vbstack.launch import launch
from vbstack.mixture import Mixture
from vbstack.pool import Pooled, pool
from vbstack.posterior import Components, StackedPosterior
from vbstack.problem import EvaluationError, Problem
from vbstack.run import Evaluations, Run
from vbstack.screen import Dropped, Screen, TooFewRuns, screen
from vbstack.stack import stack
from vbstack.store import RunStore, StoreMismatch
from vbstack.surrogate import Surrogate
from vbstack.transform import Link, Transform
from vbstack.weights import WeightSolution

__version__ = "0.1.0"

__all__ = [
    "ComparedModel",
    "Comparison",
    "Components",
    "Diagnostics",
    "Dropped",
    "EvaluationError",
    "Evaluations",
    "Evidence",
    "FileError",
    "GaussianMixture",
    "Link",
    "Mixture",
    "Pooled",
    "Problem",
    "Run",
    "RunStore",
    "Screen",
    "StackedPosterior",
    "StoreMismatch",
    "Surrogate",
    "TooFewRuns",
    "Transform",
    "WeightSolution",
    "compare",
    "diagnostics",
    "fit",
    "launch",
    "load_runs",
    "pool",
    "save_runs",
    "screen",
    "stack",
]
