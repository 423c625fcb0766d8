"""vbstack: one global posterior, and its evidence, from independent VBMC runs."""

from vbstack.evidence import Evidence
from vbstack.files import FileError, load_runs, save_runs
from vbstack.mixture import Mixture
from vbstack.posterior import Components, StackedPosterior
from vbstack.run import Evaluations, Run
from vbstack.screen import Dropped, Screen, TooFewRuns, screen
from vbstack.stack import stack
from vbstack.surrogate import Surrogate
from vbstack.transform import Link, Transform
from vbstack.weights import WeightSolution

__version__ = "0.1.0"

__all__ = [
    "Components",
    "Dropped",
    "Evaluations",
    "Evidence",
    "FileError",
    "Link",
    "Mixture",
    "Run",
    "Screen",
    "StackedPosterior",
    "Surrogate",
    "TooFewRuns",
    "Transform",
    "WeightSolution",
    "load_runs",
    "save_runs",
    "screen",
    "stack",
]
