"""`write_report()`: everything about a stack in one HTML file that needs no network.

The template escapes whatever users supplied: names, messages, paths. A content security policy
allows only the file's own style and script, by their hashes, and images within the file.
"""

from __future__ import annotations

import base64
import hashlib
import os
import platform
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from vbstack.analysis.diagnosis import Diagnostics, diagnostics
from vbstack.assembly import numbered, posterior_of
from vbstack.output.estimate_names import ESTIMATE_NAMES
from vbstack.output.figure_style import Units
from vbstack.output.number_text import decimals, fixed, number, percent
from vbstack.output.report_figures import pictures
from vbstack.output.reproduce import Origin, commands
from vbstack.posterior import StackedPosterior
from vbstack.runs.atomic import replacing
from vbstack.runs.files import FileError
from vbstack.runs.store import RunStore
from vbstack.runs.versions import NATIVE_PACKAGES, PYVBMC_PACKAGES, installed_versions

_DRAWS = 40_000  # for quantiles
_QUANTILES = (0.025, 0.25, 0.5, 0.75, 0.975)
_CONTENTS = ("parameters", "evidence", "figures", "runs", "problem", "reproduce")


def write_report(
    posterior: StackedPosterior,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    units: Units = None,
    origin: Origin | None = None,
    overwrite: bool = False,
) -> Path:
    """Write the report to `path`, whole or not at all; an existing file is kept by default."""
    target = Path(path)
    if os.path.lexists(target) and not overwrite:
        raise FileExistsError(f"{target} exists; pass overwrite=True (--overwrite) to replace it")
    text = render(posterior, title=title, units=units, origin=origin)
    with replacing(target, overwrite=overwrite) as file:
        file.write(text.encode())
    return target


def store_report(
    directory: str | os.PathLike[str], path: str | os.PathLike[str] | None = None, **settings: Any
) -> Path:
    """Write the report of a store's runs, to DIR/report.html by default.

    DIR/posterior.npz is used when it was made of the runs that are there now; otherwise they are
    stacked. Runs are called by their numbers in the store.
    """
    store = RunStore(directory)
    origin = Origin(str(directory), store.read_plan(), tuple(store.states()))
    target = store.directory / "report.html" if path is None else path
    numbers = list(store.runs())
    if not numbers:
        raise FileError(f"{store.directory} holds no finished run to report on")
    posterior, note = posterior_of(store)
    origin = replace(origin, note=note)
    posterior = numbered(posterior, numbers)
    finished = tuple(d for d in posterior.dropped if d.index in numbers)  # others: see the store
    return write_report(replace(posterior, dropped=finished), target, origin=origin, **settings)


def render(
    posterior: StackedPosterior,
    *,
    title: str | None = None,
    units: Units = None,
    origin: Origin | None = None,
) -> str:
    """The report as HTML text."""
    found = diagnostics(posterior)
    css, js = (_template_text(name) for name in ("report.css", "report.js"))
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("vbstack.output"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"number": number, "fixed": fixed, "percent": percent}
    environment.filters["words"] = ESTIMATE_NAMES.__getitem__
    how, lines = commands(posterior, origin)
    return environment.get_template("report.html.j2").render(
        css=Markup(css),
        js=Markup(js),
        css_hash=_hash(css),
        js_hash=_hash(js),
        title=title or f"Stack of {len(posterior.runs)} runs: {_listing(posterior.names)}",
        subtitle=_subtitle(posterior, origin),
        contents=[(anchor, anchor.capitalize()) for anchor in _CONTENTS],
        p=posterior,
        e=posterior.evidence,
        d=found,
        places=decimals(posterior.evidence.sd) - 1,
        draws=f"{_DRAWS:,}",
        quantile_names=[f"{q:.1%}".replace(".0%", "%") for q in _QUANTILES],
        parameters=_parameters(posterior),
        units=units,
        evidence=_evidence_rows(posterior),
        figures=list(pictures(posterior, found, units)),
        runs=_run_rows(posterior, found, origin),
        troubles=_troubles(posterior, origin),
        unfinished=origin.unfinished if origin else [],
        plan=origin.plan if origin else None,
        bounds=_bounds(posterior, origin),
        how=how,
        commands=lines,
        versions=_versions(posterior),
        version=installed_versions(["vbstack"])["vbstack"],
        note=origin.note if origin else "",
    )


def _template_text(name: str) -> str:
    return resources.files("vbstack.output").joinpath("templates", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _listing(names: Sequence[str]) -> str:
    shown = ", ".join(names[:4])
    return shown if len(names) <= 4 else f"{shown}, …"


def _subtitle(posterior: StackedPosterior, origin: Origin | None) -> str:
    kinds = sorted({run.engine for run in posterior.runs})
    where = f" From {origin.directory}." if origin else ""
    made = sum(r.evaluations.paid for r in posterior.runs if r.evaluations is not None)
    counted = f", {made:,} evaluations of the log density" if made else ""
    return (
        f"{posterior.weights.size} components of {len(posterior.runs)} runs (engine: "
        f"{', '.join(kinds)}){counted}.{where}"
    )


def _parameters(posterior: StackedPosterior) -> list[dict[str, Any]]:
    """Mean, sd, quantiles and mode of every parameter."""
    mean, covariance = posterior.moments()
    quantiles = np.quantile(posterior.sample(_DRAWS, seed=0), _QUANTILES, axis=0)
    table = np.vstack([mean, np.sqrt(np.diag(covariance)), quantiles, posterior.mode()]).T
    return [
        {"name": name, "numbers": row, "decimals": decimals(row[1])}
        for name, row in zip(posterior.names, table.tolist(), strict=True)
    ]


def _evidence_rows(posterior: StackedPosterior) -> list[tuple[str, float, str]]:
    e = posterior.evidence
    rows = [
        ("log evidence", e.log_evidence, "the estimate to report"),
        ("its sd", e.sd, "its standard deviation"),
        ("raw", e.raw, "expected log-joint plus entropy, on fresh draws"),
        ("capped by components", e.capped_components, "log-joint at most the median component's"),
        ("capped by runs", e.capped_runs, "log-joint at most the median run's"),
        ("naive", e.naive, "every run with the same weight: a baseline"),
        ("expected log-joint", e.expected_log_joint, "the first part of raw"),
        ("entropy", e.entropy, "the second part of raw"),
        ("entropy s.e.", e.entropy_sd, "Monte Carlo error of the entropy"),
        ("quadrature sd", e.gp_sd, "error of the expected log-joint, from the runs' surrogates"),
        ("gap", e.gap, "no weights of this kind have an ELBO, less its charge, higher by more"),
        ("charge", posterior.solution.charge, "taken off when own log-joints choose weights"),
    ]
    pooled = e.from_pool
    if pooled is not None:
        rows[5:5] = [
            ("pooled ELBO", pooled.elbo, "log-joints from all runs' evaluations together"),
            (
                "pooled",
                pooled.log_evidence,
                "the same and the stack's divergence from the posterior",
            ),
        ]
    return rows


def _run_rows(
    posterior: StackedPosterior, found: Diagnostics, origin: Origin | None
) -> list[dict[str, Any]]:
    """Stacked, dropped and unfinished runs in the order of their numbers."""
    stacked = dict(zip(posterior.kept, posterior.runs, strict=True))
    states = {state.index: state for state in (origin.states if origin else ())}
    empty = dict.fromkeys(
        ("weight", "elbo", "elbo_sd", "gain", "covered", "alone", "components", "evaluations",
         "seconds", "seed")
    )  # fmt: skip
    rows: dict[int, dict[str, Any]] = {}
    for index, state in states.items():
        known = {name: getattr(state, name) for name in ("elbo", "elbo_sd", "seconds")}
        rows[index] = {**empty, **known, "state": state.state, "evaluations": state.evaluations}
    for one in found.runs:
        row = rows.get(one.index, {**empty, "elbo": one.elbo, "elbo_sd": one.elbo_sd})
        rows[one.index] = {**row, "state": "dropped" if one.dropped else "stacked"}
        if one.index in stacked:
            run = stacked[one.index]
            made = None if run.evaluations is None else run.evaluations.paid
            rows[one.index] |= {"weight": one.weight, "gain": one.gain, "covered": one.covered}
            rows[one.index] |= {"alone": one.alone, "components": run.n_components}
            rows[one.index] |= {"evaluations": made, "seconds": run.seconds, "seed": run.seed}
    return [{"index": index, **rows[index]} for index in sorted(rows)]


def _troubles(posterior: StackedPosterior, origin: Origin | None) -> list[tuple[int, str, str]]:
    """Dropped and unfinished runs with their reasons."""
    dropped: list[tuple[int, str, str]] = [
        (d.index, "dropped", d.reason) for d in posterior.dropped
    ]
    unfinished: list[tuple[int, str, str]] = [
        (state.index, state.state, state.message or f"after {state.evaluations} evaluations")
        for state in (origin.unfinished if origin else ())
    ]
    return sorted(dropped + unfinished)


def _bounds(posterior: StackedPosterior, origin: Origin | None) -> list[tuple[Any, ...]]:
    """Name, lower bound, plausible bounds where the plan has them, upper bound."""
    transform = posterior.runs[0].transform
    columns = [transform.lower.tolist(), transform.upper.tolist()]
    if origin:
        described = origin.plan.problem
        keys = ("plausible_lower_bounds", "plausible_upper_bounds")
        columns[1:1] = [[float(value) for value in described[key]] for key in keys]
    return list(zip(posterior.names, *columns, strict=True))


def _versions(posterior: StackedPosterior) -> list[tuple[str, str, str]]:
    """Name, versions recorded by the runs, version now."""
    packages = dict.fromkeys((*NATIVE_PACKAGES, *PYVBMC_PACKAGES))
    now = {"python": platform.python_version(), **installed_versions(list(packages))}
    then: dict[str, set[str]] = {}
    for run in posterior.runs:
        for name, value in run.versions.items():
            then.setdefault(name, set()).add(str(value))
    names = [*now, *sorted(set(then) - set(now))]
    return [(name, ", ".join(sorted(then.get(name, ()))), now.get(name, "")) for name in names]
