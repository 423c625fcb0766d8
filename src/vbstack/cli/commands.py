"""The command line: `vbstack fit · run · stack · verify · report · compare · status · import` …

Exit codes: 0 done, 1 a mistake of the user's with one clear line, 2 fewer runs than needed, 130
interrupted (everything is kept).
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from vbstack.analysis.model_comparison import compare as compare_models
from vbstack.assembly import numbered, posterior_of
from vbstack.assembly import stack as stack_runs
from vbstack.checks import checked_word
from vbstack.cli.arguments import (
    given_refine,
    given_starts,
    load_problem,
    model_names,
    number_or_auto,
    parsed_options,
    prior_weights,
    verify_number,
    whole_number,
)
from vbstack.fitting import fit as fit_problem
from vbstack.launching.cores import available_cores
from vbstack.launching.launcher import RunsFailed, prepared
from vbstack.launching.progress import described, table
from vbstack.launching.settings import LaunchSettings
from vbstack.launching.worker import Task, perform
from vbstack.modes import EngineChoice, EvaluationsUsed, OnError, SolverName, WeightsKind
from vbstack.posterior import StackedPosterior
from vbstack.problem import EvaluationError, Problem
from vbstack.runs.pickles import import_pickles
from vbstack.runs.printable import printable
from vbstack.runs.run import TooFewRuns
from vbstack.runs.store import RunStore
from vbstack.runs.versions import PYVBMC_PACKAGES, installed_versions
from vbstack.stacking.screening import Screen
from vbstack.verifying import verify as verify_stack

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)

Directory = Annotated[Path, typer.Argument(help="the store: a directory of runs")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON, for machines")]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", help="an option of the engine, name=value; repeatable"),
]
Engine = Annotated[str, typer.Option(help="auto, pyvbmc or native")]
ScoredWith = Annotated[str, typer.Option(help="components are scored with: auto, own or pooled")]
WhenFailing = Annotated[
    str | None,
    typer.Option("--on-error", help="fail_run, retry or floor; fail_run in a new store"),
]
Starts = Annotated[
    str | None,
    typer.Option(help="uniform, sobol, or a text file of points, a row per run; uniform if new"),
]
Batch = Annotated[
    bool | None,
    typer.Option(
        "--batch/--no-batch",
        help="all points of an iteration at once; by default where workers are more than runs",
    ),
]
TrustStore = Annotated[
    bool,
    typer.Option(
        "--trust-store", help="do not ask whether the store was made with this log density"
    ),
]
ProblemName = Annotated[str, typer.Argument(help="module:attribute or path/to/file.py:attribute")]


_MISTAKES = (ValueError, TypeError, OSError, ImportError, AttributeError, EvaluationError)


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Register a command; known errors end in one line and an exit code, not in a traceback."""

    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                function(*args, **kwargs)
        except TooFewRuns as error:
            _stop(str(error), 2)
        except KeyboardInterrupt:
            _stop("interrupted; everything is kept. The same command continues.", 130)
        except _MISTAKES as error:
            _stop(str(error) or type(error).__name__, 1)

    app.command(name=function.__name__.rstrip("_"))(guarded)
    return guarded


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"vbstack: {printable(str(message), lines=True)}", file=sys.stderr)


def _stop(message: str, code: int) -> None:
    print(f"vbstack: {printable(message, lines=True)}", file=sys.stderr)
    raise typer.Exit(code)


@command
def fit(
    problem: ProblemName,
    out: Annotated[Path, typer.Option(help="the store, made or continued")],
    runs: Annotated[str, typer.Option(help="number of runs, or auto")] = "auto",
    seed: Annotated[int | None, typer.Option(help="of the whole plan")] = None,
    workers: Annotated[int | None, typer.Option(help="processes; all cores by default")] = None,
    executor: Annotated[str, typer.Option(help="local, here, or a Dask scheduler")] = "local",
    starts: Starts = None,
    evaluations: ScoredWith = "auto",
    verify: Annotated[
        str, typer.Option(help="evaluations that check the stack: auto, a number, or no")
    ] = "auto",
    engine: Engine = "auto",
    timeout: Annotated[float | None, typer.Option(help="seconds for everything")] = None,
    run_timeout: Annotated[float | None, typer.Option(help="seconds a run may take")] = None,
    evaluation_timeout: Annotated[
        float | None, typer.Option(help="seconds after which an evaluation has failed")
    ] = None,
    batch: Batch = None,
    on_error: WhenFailing = None,
    option: Options = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="set what is in the store aside, and begin anew")
    ] = False,
    trust_store: TrustStore = False,
    quiet: Annotated[bool, typer.Option(help="no progress")] = False,
    as_json: AsJson = False,
) -> None:
    """Run VBMC several times, stack the runs, print the summary, save OUT/posterior.npz."""
    count = runs if runs == "auto" else whole_number("--runs", runs)
    if not quiet:  # the lines of progress have said it
        warnings.simplefilter("ignore", RunsFailed)
    posterior = fit_problem(
        load_problem(problem),
        count,
        store=str(out),
        seed=seed,
        n_workers=workers,
        executor=executor,
        starts=given_starts(starts),
        evaluations=checked_word("--evaluations", evaluations, EvaluationsUsed),
        verify=False if verify == "no" else verify_number(verify),
        engine=checked_word("--engine", engine, EngineChoice),
        timeout=timeout,
        run_timeout=run_timeout,
        evaluation_timeout=evaluation_timeout,
        batch="auto" if batch is None else batch,
        on_error=None if on_error is None else checked_word("--on-error", on_error, OnError),
        options=parsed_options(option) or None,
        progress=not quiet,
        fresh=fresh,
        trust_store=trust_store,
    )
    _finish(posterior, out, as_json)


@command
def run(
    problem: ProblemName,
    out: Annotated[Path, typer.Option(help="the shared store")],
    index: Annotated[int, typer.Option(help="which run of the plan: 0, 1, …")],
    seed: Annotated[
        int | None, typer.Option(help="of the whole plan, the same for every task; 0 if new")
    ] = None,
    starts: Starts = None,
    engine: Engine = "auto",
    on_error: WhenFailing = None,
    option: Options = None,
    trust_store: TrustStore = False,
) -> None:
    """One run of a plan, for job arrays: each task on its own machine, one shared directory."""
    inferred, store = load_problem(problem), RunStore(out)
    if seed is None and not store.exists():
        seed = 0
    points, options = given_starts(starts), parsed_options(option) or None
    count = index + 1 if points is None or isinstance(points, str) else len(points)
    if not 0 <= index < count:
        raise ValueError(f"--index {index} is not a run of a plan with {count} starting points")
    kind = checked_word("--engine", engine, EngineChoice)
    failing = None if on_error is None else checked_word("--on-error", on_error, OnError)
    settings = LaunchSettings(
        inferred,
        count,
        store=store,
        executor="here",
        seed=seed,
        starts=points,
        engine=kind,
        options=options,
        on_error=failing,
        trust_store=trust_store,
    )
    plan = prepared(settings, index)
    outcome = perform(inferred, Task(str(out.resolve()), index, plan))
    if outcome.status != "finished":
        _stop(f"run {index} {outcome.status}: {outcome.message}", 2)
    print(f"run {index} finished in {out}")


@command
def stack(
    directory: Directory,
    weights: Annotated[str, typer.Option(help="free weights: all, runs or naive")] = "all",
    evaluations: ScoredWith = "auto",
    tolerance: Annotated[float, typer.Option(help="nats, of the certificate")] = 0.02,
    max_draws: Annotated[int, typer.Option(help="per component")] = 512,
    final_draws: Annotated[int, typer.Option(help="per component with weight")] = 128,
    solver: Annotated[str, typer.Option(help="certified or adam")] = "certified",
    caution: Annotated[
        str,
        typer.Option(help="standard errors of own log-joints to withstand, or auto"),
    ] = "auto",
    seed: Annotated[int, typer.Option(help="of every draw")] = 0,
    refine: Annotated[str, typer.Option(help="by the pooled surrogate: auto, on, off")] = "auto",
    max_variance: Annotated[
        float,
        typer.Option(help="of an expected log-joint; runs above it are dropped"),
    ] = 5.0,
    min_runs: Annotated[int, typer.Option(help="fewer usable runs are an error")] = 1,
    all_runs: Annotated[bool, typer.Option(help="also runs that did not converge")] = False,
    as_json: AsJson = False,
) -> None:
    """Stack the finished runs of a store."""
    posterior = stack_runs(
        list(RunStore(directory).runs().values()),
        weights=checked_word("--weights", weights, WeightsKind),
        evaluations=checked_word("--evaluations", evaluations, EvaluationsUsed),
        tolerance=tolerance,
        max_draws=max_draws,
        final_draws=final_draws,
        solver=checked_word("--solver", solver, SolverName),
        screen=Screen(not all_runs, max_variance, min_runs),
        seed=seed,
        caution=number_or_auto("--caution", caution),
        refine=given_refine(refine),
    )
    _finish(posterior, directory, as_json)


@command
def verify(
    directory: Directory,
    problem: ProblemName,
    n: Annotated[str, typer.Option("--n", help="evaluations, at draws of the stack")] = "auto",
    seed: Annotated[int, typer.Option(help="of the draws")] = 0,
    workers: Annotated[int | None, typer.Option(help="processes; all cores by default")] = None,
    executor: Annotated[str, typer.Option(help="local, here, or a Dask scheduler")] = "local",
    timeout: Annotated[float | None, typer.Option(help="seconds for everything")] = None,
    trust_store: TrustStore = False,
    quiet: Annotated[bool, typer.Option(help="no progress")] = False,
    as_json: AsJson = False,
) -> None:
    """Check the stack of a store with further evaluations of the log density; they are kept.

    Example: vbstack verify results model.py:problem --n 50
    """
    store = RunStore(directory)
    posterior, note = posterior_of(store)
    if note and not quiet:
        print(f"vbstack: {note}", file=sys.stderr)
    found = verify_stack(
        numbered(posterior, list(store.runs())),
        load_problem(problem),
        verify_number(n),
        executor=executor,
        n_workers=workers,
        store=store,
        seed=seed,
        timeout=timeout,
        progress=not quiet,
        trust_store=trust_store,
    )
    if not as_json:
        print(f"{found}\n")
    _finish(found.posterior, directory, as_json)


@command
def report(
    directory: Directory,
    out: Annotated[Path | None, typer.Option(help="the file; DIRECTORY/report.html if not")] = None,
    title: Annotated[str | None, typer.Option(help="of the report")] = None,
    overwrite: Annotated[bool, typer.Option(help="replace a report that is there")] = False,
) -> None:
    """One HTML file about the runs of a store: results, figures, diagnostics, how to repeat it."""
    from vbstack.output.report import store_report

    path = store_report(directory, out, title=title, overwrite=overwrite)
    print(f"Report in {path}")


@command
def status(directory: Directory, as_json: AsJson = False) -> None:
    """A table of the runs: state, evaluations, ELBO, time, host."""
    store = RunStore(directory)
    plan, states = store.read_plan(), store.states()
    if as_json:
        print(json.dumps([asdict(state) for state in states], indent=1))
    else:
        Console(width=None if sys.stdout.isatty() else 160).print(table(states, described(plan)))


@command
def import_(
    files: Annotated[list[Path], typer.Argument(help="pickled pyvbmc posteriors")],
    out: Annotated[Path, typer.Option(help="a new store for them")],
    trust_pickles: Annotated[
        bool, typer.Option(help="loading a pickle can execute anything: only for your own files")
    ] = False,
) -> None:
    """Turn posteriors pickled by pyvbmc or svbmc users into a store."""
    if not trust_pickles:
        raise ValueError(
            "loading a pickle can execute any code in it; if you trust these files, add "
            "--trust-pickles"
        )
    count = import_pickles(files, out)
    print(f"{count} runs imported into {out}; stack them with: vbstack stack {out}")


@command
def compare(
    models: Annotated[list[Path], typer.Argument(help="stores or saved posteriors, two or more")],
    prior: Annotated[
        str | None, typer.Option(help="prior weights in the same order, such as 2,1,1")
    ] = None,
    figure: Annotated[Path | None, typer.Option(help="write the figure to this file")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare models of the same data by their evidence, each in a store of its own."""
    names = model_names(models)
    weights = None if prior is None else dict(zip(names, prior_weights(prior, names), strict=True))
    comparison = compare_models(dict(zip(names, models, strict=True)), prior=weights)
    if figure is not None:
        if os.path.lexists(figure):
            raise FileExistsError(f"{figure} exists; choose another name")
        comparison.figure().savefig(figure, dpi=150)
    print(comparison.to_json() if as_json else comparison.table())


@command
def doctor(as_json: AsJson = False) -> None:
    """Check the installation: versions, cores, threads, a place to write, other processes."""
    from threadpoolctl import threadpool_info

    report: dict[str, Any] = {
        "python": sys.version.split()[0],
        "versions": installed_versions(PYVBMC_PACKAGES),
        "cores": available_cores(),
        "threads": {pool["internal_api"]: pool["num_threads"] for pool in threadpool_info()},
        "can write": os.access(tempfile.gettempdir(), os.W_OK),
        "can send functions": bool(_tiny_problem().check().size),
    }
    if as_json:
        print(json.dumps(report, indent=1))
    else:
        for key, value in report.items():
            print(f"{key:>20}: {value}")


def _tiny_problem() -> Problem:
    return Problem(
        log_density=lambda x: float(-(x[0] ** 2)),
        plausible_lower_bounds=[-1.0],
        plausible_upper_bounds=[1.0],
    )


def _finish(posterior: StackedPosterior, out: Path, as_json: bool) -> None:
    """Print the result, then save it: a directory that cannot be written does not hide it."""
    path = out / "posterior.npz"
    if as_json:
        mean, covariance = posterior.moments()
        result = {
            "evidence": posterior.evidence.as_dict(),
            "gap": posterior.solution.gap,
            "names": list(posterior.names),
            "mean": mean.tolist(),
            "covariance": covariance.tolist(),
            "run_weights": posterior.run_weights.tolist(),
            "dropped": [asdict(d) for d in posterior.dropped],
            "posterior": str(path),
        }
        print(json.dumps(result, indent=1))
    else:
        print(posterior.summary())
    posterior.save(path, overwrite=True)
    if not as_json:
        print(f"\nSaved in {path}")


def main() -> None:
    """Entry point."""
    app()
