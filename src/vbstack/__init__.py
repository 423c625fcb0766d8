"""vbstack: one global posterior, and its evidence, from independent VBMC runs."""

from vbstack.analysis.comparison import ComparedModel, Comparison
from vbstack.analysis.diagnosis import Diagnostics, diagnostics
from vbstack.analysis.model_comparison import compare
from vbstack.assembly import stack
from vbstack.fitting import fit
from vbstack.launching.launcher import launch
from vbstack.output.export import GaussianMixture
from vbstack.posterior import Components, StackedPosterior
from vbstack.problem import EvaluationError, Problem
from vbstack.runs.files import FileError, load_runs, save_runs
from vbstack.runs.run import Evaluations, Run
from vbstack.runs.store import RunStore, StoreMismatch
from vbstack.runs.surrogate import Surrogate
from vbstack.runs.transform import Link, Transform
from vbstack.stacking.evidence import Evidence
from vbstack.stacking.mixture import Mixture
from vbstack.stacking.pooling import Pooled, pool
from vbstack.stacking.screening import Dropped, Screen, TooFewRuns, screen
from vbstack.stacking.weights import WeightSolution

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
