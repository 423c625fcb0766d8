"""The words that settings and states may be, in one place."""

from __future__ import annotations

from typing import Literal

EngineName = Literal["pyvbmc", "native"]
EngineChoice = Literal["auto", "pyvbmc", "native"]
StartsKind = Literal["uniform", "sobol"]
BatchChoice = Literal["auto"] | bool
OnError = Literal["fail_run", "retry", "floor"]

WeightsKind = Literal["all", "runs", "naive"]
EvaluationsUsed = Literal["auto", "own", "pooled"]
SolverName = Literal["certified", "adam"]
Refine = Literal["auto"] | bool
Estimate = Literal[
    "verified", "raw", "capped_components", "capped_runs", "pooled_elbo", "pooled", "naive"
]  # of the log evidence

EvidenceMethod = Literal["verified", "pooled", "own"]

MeanFunction = Literal["zero", "constant", "negative_quadratic"]
RunStatus = Literal["finished", "running", "failed", "interrupted", "waiting", "damaged"]
OutcomeStatus = Literal["finished", "busy", "failed", "died", "begun", "asked"]
