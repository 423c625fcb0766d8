"""One entry to every benchmark: `python -m benchmarks NAME [options]`."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import NamedTuple

STEPS = "paper.steps"  # one module for several commands


class Command(NamedTuple):
    """Its name, the module whose `main` it is, what it does, and its time on two idle cores."""

    name: str
    module: str
    line: str
    time: str


# fmt: off
COMMANDS = (
    Command("paper", STEPS, "the paper's tables and figures, with the stored baselines", "16 min"),
    Command("all", STEPS, "the same, with the baselines made again", "26 min, estimated"),
    Command("stack", STEPS,
            "random subsets of the archived runs, stacked and scored", "2 min for the ring"),
    Command("baselines", STEPS, "BBVI, nautilus and emcee", "2 to 5 min a problem, neuronal hours"),
    Command("peers", STEPS, "ten runs stacked by pyvbmc.SVBMC; needs torch", "1 min a problem"),
    Command("runtime", STEPS, "seconds of stacking and of a run", "5 min"),
    Command("tables", STEPS, "the tables, from the stored results", "seconds"),
    Command("figures", STEPS, "the figures, from the stored results", "seconds"),
    Command("run", STEPS,
            "make or extend the archives of the paper's problems; resumable", "hours"),
    Command("make-runs", "archived_runs",
            "make or extend the archive of any problem; resumable", "hours"),
    Command("coverage-runs", "coverage.archiving",
            "make or extend the archives of the coverage targets; resumable", "a day"),
    Command("references", "problems.make_references",
            "compute the stored true posteriors again", "½ min; neuronal 2 min"),
    Command("race-stacking", "races.race_stacking",
            "vbstack, pyvbmc.SVBMC and svbmc.SVBMC on the same runs; needs torch", "18 min"),
    Command("race-engines", "races.race_engines",
            "runs and stacks of the native engine beside pyvbmc's", "2 hours, estimated"),
    Command("engine-verdict", "races.engine_verdict",
            "what the stored race of the engines says in counts", "seconds"),
    Command("race-end-to-end", "races.race_end_to_end",
            "ten runs and their stack, by fit and by a plain loop; needs torch", "8 min"),
    Command("batches", "races.batches",
            "evaluations side by side: time, calls, and what batches cost", "10 min"),
    Command("dimensions", "races.dimensions",
            "stacks in six and ten dimensions beside a far longer optimisation", "½ min"),
    Command("profile-stacking", "races.profile_stacking",
            "where the time of a stack goes", "½ min"),
    Command("after-the-fit", "races.after_the_fit",
            "seconds of diagnostics and of the report", "1 min"),
    Command("choices", "ablations.solver_choices",
            "what the choices in the solver of the weights bring", "2 min"),
    Command("pooling", "ablations.pooling",
            "pooled evaluations against the runs' own values, on noisy runs", "10 min"),
    Command("noisy-bias", "ablations.noisy_bias",
            "noisy runs that differ in where they evaluate: what they overrate", "6 min"),
    Command("own-values", "ablations.own_values",
            "cautious weights by the runs' own log-joints: true ELBOs", "25 min, estimated"),
    Command("enough-runs", "ablations.enough_runs",
            "whether diagnostics know when the runs are enough", "5 min"),
    Command("ablation", "coverage.ablation",
            "what each heuristic of the native engine is worth", "1 hour"),
    Command("coverage", "coverage.command",
            "whether ten runs find all the mass of posteriors with several modes", "hours"),
    Command("calibration", "calibration.command",
            "whether the stated errors of the log evidence cover", "3 hours"),
    Command("tampered", "calibration.tampered",
            "whether a verification notices a stack that is wrong", "5 min"),
    Command("engine-figure", "coverage.run_figure",
            "one run of the native engine over time, as a figure of the docs", "seconds"),
    Command("refinement", "coverage.refinement",
            "stacks with and without components fitted to the pooled surrogate", "20 min"),
    Command("support", "ablations.support",
            "log densities that are −inf or fail in a part of space", "10 min"),
    Command("bounds", "ablations.bounds",
            "parameters with one hard bound; plausible bounds from a prior", "30 min"),
    Command("gaussian-integrals", "ablations.gaussian_integrals",
            "the kernel's integrals for full and for diagonal Gaussians: seconds", "seconds"),
    Command("faults", "faults.command",
            "mutated files, flipped bits and killed fits: what is lost or believed", "10 min"),
    Command("doc-tables", "doc_tables",
            "fill the tables of README and docs from the stored results", "seconds"),
)
# fmt: on


def listing() -> str:
    """Every command with what it does and how long it takes."""
    name, line = (max(len(getattr(c, part)) for c in COMMANDS) for part in ("name", "line"))
    rows = [f"  {c.name:{name}}  {c.line:{line}}  {c.time}" for c in COMMANDS]
    usage = "usage: python -m benchmarks NAME [options]; NAME --help shows the options of NAME"
    return "\n".join([usage, "", "Times are on two idle cores.", "", *rows])


def main(argv: list[str]) -> None:
    name = argv[0] if argv else ""
    if name in ("-h", "--help"):
        print(listing())
        raise SystemExit(0)
    found = {command.name: command for command in COMMANDS}.get(name)
    if found is None:
        problem = f"there is no benchmark {name!r}\n\n" if argv else ""
        print(problem + listing(), file=sys.stderr)
        raise SystemExit(2)
    # A module of several commands has to know which one is meant.
    options = argv if found.module == STEPS else argv[1:]
    import_module(f"benchmarks.{found.module}").main(options)


if __name__ == "__main__":
    main(sys.argv[1:])
