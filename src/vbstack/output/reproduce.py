"""Where a stack comes from, and the commands that make it again."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass

from vbstack.posterior import StackedPosterior
from vbstack.runs.plan import Plan
from vbstack.runs.store import RunState
from vbstack.stacking.settings import StackSettings


@dataclass(frozen=True)
class Origin:
    """Where a stack comes from: the store's directory, its plan, the state of its runs, and a line
    if its saved posterior was not current."""

    directory: str
    plan: Plan
    states: tuple[RunState, ...]
    note: str = ""

    @property
    def unfinished(self) -> list[RunState]:
        return [state for state in self.states if state.state != "finished"]


def commands(posterior: StackedPosterior, origin: Origin | None) -> tuple[str, str]:
    """How to make this result again: a sentence and the commands."""
    if origin is None:
        lines = [
            "from vbstack import Screen, stack",
            f"posterior = stack(runs, {_python(posterior.settings)})  # the runs above, in order",
            'posterior.report("report.html")',
        ]
        return "This posterior was stacked from runs whose store is not known.", "\n".join(lines)
    where, plan = shlex.quote(origin.directory), origin.plan
    finish = [
        f"vbstack stack {where} {_options(posterior.settings)}",
        f"vbstack report {where}",
    ]
    if "imported" in plan.options:
        files = " ".join(shlex.quote(str(name)) for name in plan.options["imported"])
        first = f"vbstack import {files} --out {where} --trust-pickles"
        return "The runs were imported from files.", "\n".join([first, *finish])
    count = 1 + max(state.index for state in origin.states)
    words = [
        *("vbstack", "fit", "MODEL.py:PROBLEM", "--out", origin.directory, "--runs", str(count)),
        *("--seed", str(plan.seed), "--engine", plan.engine),
    ]
    if plan.on_error is not None:
        words += ["--on-error", plan.on_error]
    if plan.starts is not None:
        words += ["--starts", "STARTS.txt" if isinstance(plan.starts, tuple) else plan.starts]
    if plan.batch:
        words += ["--batch"]
    for name, value in plan.as_json()["options"].items():
        words += ["--option", f"{name}={json.dumps(value)}"]
    return _about(plan), "\n".join([shlex.join(words), *finish])


def _about(plan: Plan) -> str:
    """What the commands leave to the reader."""
    text = (
        "MODEL.py:PROBLEM is your own file and the problem in it; everything else is as it was "
        f"planned. The seed of the plan is {plan.seed}."
    )
    if isinstance(plan.starts, tuple):
        text += " STARTS.txt holds the starting points, a row per run; they are in store.json."
    if plan.starts is None:
        text += (
            " Version 0.1.0 made this store, and did not record starting points and what happens "
            "when the log density fails."
        )
    if plan.unreadable_options():
        text += f" The options {plan.unreadable_options()} were objects; their text is shown."
    return text


def _python(settings: StackSettings) -> str:
    """The settings as arguments of `stack`."""
    text = ", ".join(f"{name}={value!r}" for name, value in vars(settings).items())
    return text.replace("max_variance=inf", 'max_variance=float("inf")')


def _options(settings: StackSettings) -> str:
    """The settings as options of `vbstack stack`."""
    screen = settings.screen
    words = [
        *("--weights", settings.weights, "--evaluations", settings.evaluations),
        *("--tolerance", repr(settings.tolerance), "--max-draws", repr(settings.max_draws)),
        *("--final-draws", repr(settings.final_draws), "--solver", settings.solver),
        *("--caution", str(settings.caution)),
        *("--seed", repr(settings.seed), "--max-variance", repr(screen.max_variance)),
        *("--min-runs", repr(screen.min_runs)),
        *("--refine", {"auto": "auto", True: "on", False: "off"}[settings.refine]),
    ]
    return shlex.join(words + ([] if screen.require_converged else ["--all-runs"]))
