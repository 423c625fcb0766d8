"""vbstack: one global posterior, and its evidence, from independent VBMC runs."""

from vbstack.analysis.comparison import ComparedModel, Comparison
from vbstack.analysis.diagnosis import Diagnostics, diagnostics
from vbstack.analysis.model_comparison import compare
from vbstack.assembly import stack
from vbstack.fitting import fit
from vbstack.launching.launcher import launch
from vbstack.posterior import Components, GaussianMixture, StackedPosterior
from vbstack.problem import Evaluation, EvaluationError, Problem
from vbstack.runs.evaluations import Evaluations
from vbstack.runs.files import FileError, load_runs, save_runs
from vbstack.runs.plan import Plan
from vbstack.runs.run import Run, TooFewRuns
from vbstack.runs.store import DamagedFile, RunStore, StoreMismatch
from vbstack.runs.surrogate import Surrogate
from vbstack.runs.transform import Link, Transform
from vbstack.stacking.evidence import Evidence, PooledEvidence
from vbstack.stacking.mixture import Mixture
from vbstack.stacking.pooling import Pooled, pool
from vbstack.stacking.screening import Dropped, Screen, screen
from vbstack.stacking.settings import StackSettings
from vbstack.stacking.verification import VerifiedEvidence
from vbstack.stacking.weights import WeightSolution
from vbstack.verifying import Verification, verify

__version__ = "0.1.0"

__all__ = [
    "ComparedModel",
    "Comparison",
    "Components",
    "DamagedFile",
    "Diagnostics",
    "Dropped",
    "Evaluation",
    "EvaluationError",
    "Evaluations",
    "Evidence",
    "FileError",
    "GaussianMixture",
    "Link",
    "Mixture",
    "Plan",
    "Pooled",
    "PooledEvidence",
    "Problem",
    "Run",
    "RunStore",
    "Screen",
    "StackSettings",
    "StackedPosterior",
    "StoreMismatch",
    "Surrogate",
    "TooFewRuns",
    "Transform",
    "Verification",
    "VerifiedEvidence",
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
    "verify",
]
