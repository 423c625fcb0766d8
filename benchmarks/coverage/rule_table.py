"""How the rule for enough runs does, and what each of its parts is worth, from stored waves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.coverage.coverage_table import Summary
from benchmarks.coverage.fit_row import TOO_MUCH, Wave


def _without_gains(wave: Wave) -> bool:
    return replace(wave, gains=[0.0] * len(wave.gains)).enough()


def _without_missing_mass(wave: Wave) -> bool:
    return replace(wave, by_runs=[0.0] * (len(wave.by_runs) - 1) + [1.0]).enough()


def _without_looks(wave: Wave) -> bool:
    return replace(wave, looks=10**6).enough()


RULES: dict[str, Callable[[Wave], bool]] = {
    "the rule": Wave.enough,
    "without the worth of single runs": _without_gains,
    "without the missing mass": _without_missing_mass,
    "without counting looks": _without_looks,
    "the rule, eight runs at least": lambda wave: wave.runs >= 8 and wave.enough(),
}


@dataclass(frozen=True)
class Outcome:
    """What a rule did in one fit: the runs at which it stopped (None: it went on after ten)."""

    runs: int | None
    missing: float  # share of the mass, when it stopped
    share: float  # of the evaluations of ten runs


def outcomes(s: Summary, rule: Callable[[Wave], bool]) -> list[Outcome]:
    """Of every fit of a target."""
    found = []
    for row in s.rows:
        stop = next((wave for wave in row.waves if rule(wave)), None)
        spent = sum(row.evaluations[: stop.runs]) if stop else sum(row.evaluations)
        missing = 1 - stop.mass_found(s.target.masses) if stop else 0.0
        found.append(Outcome(stop.runs if stop else None, missing, spent / sum(row.evaluations)))
    return found


def rule_table(found: list[Summary]) -> list[str]:
    """Each rule on all fits of development and of report targets."""
    lines = [
        "## When the runs are enough",
        "",
        "What `fit` does by default with two workers: the rule is asked after 4, 6, 8 and 10 runs. "
        f"False: it stops while more than {TOO_MUCH:.0%} of the mass is missing.",
        "",
        "| targets | rule | fits | stops by ten runs | false | share | evaluations of ten runs |",
        "|---|---|---|---|---|---|---|",
    ]
    for role in ("development", "report", "unimodal"):
        here = [s for s in found if s.target.role == role and all(row.waves for row in s.rows)]
        for name, rule in RULES.items():
            every = [outcome for s in here for outcome in outcomes(s, rule)]
            said = [outcome for outcome in every if outcome.runs is not None]
            false = sum(outcome.missing > TOO_MUCH for outcome in said)
            if every:
                rate = f"{false / len(said):.1%}" if said else "–"
                share = float(np.mean([outcome.share for outcome in every]))
                cells = (role, name, len(every), len(said), false, rate, f"{share:.0%}")
                lines.append("| " + " | ".join(map(str, cells)) + " |")
    return [*lines, ""]
