"""Fill the measured tables of README.md and docs/ from results/: `python -m benchmarks doc-tables`.

A table stands below a comment that names it; it is made again from the stored results, and a test
fails when a page and the results disagree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.ablations.own_values import WAYS, lead_over_peer, medians
from benchmarks.coverage.ablation import MEASURES, WHOLE, change_text, compared
from benchmarks.coverage.command import ROWS
from benchmarks.coverage.coverage_table import Summary, of_present_engine, summaries
from benchmarks.coverage.fit_row import TOO_MUCH
from benchmarks.folders import RESULTS, ROOT
from benchmarks.options import options_of
from benchmarks.problems import PROBLEMS
from benchmarks.races.race_engines import NOISY

PAGES = (
    *("README.md", "docs/engine-results.md", "docs/engine-ablation.md", "docs/pooling.md"),
    "docs/design.md",
)
MARK = re.compile(r"(<!-- python -m benchmarks doc-tables: (\w+) -->\n)((?:\|.*\n)*)")

NAMES = {
    "gmm": "GMM",
    "gmm_noisy": "noisy GMM",
    "ring_noisy": "noisy ring",
    "at_a_bound": "mass at a bound, D = 3",
    "student_t": "Student t, D = 3",
    "funnel": "funnel, D = 3",
    "two_modes": "two modes, D = 5",
    "plateau": "plateau, D = 2",
    "skewed": "skewed, D = 4",
    "wave": "wave, D = 2",
    "cross": "crossed bars, D = 3",
    "vee": "vee, D = 2",
    "unequal": "unequal modes, D = 4",
    "crescent": "crescent, D = 2",
    "lognormal": "lognormal, D = 3",
    "contaminated": "contaminated Gaussian, D = 5",
    "split": "two modes within bounds, D = 3",
    "hyperbolic": "hyperbolic, D = 6",
    "bent": "bent Gaussian, D = 7",
    "skew_normal": "skew normal, D = 6 (held out)",
    "copula": "copula within bounds, D = 5 (held out)",
    "multisensory_exact": "multisensory, D = 6, without noise",
    **{f"gaussian{d}": f"Gaussian, D = {d}" for d in (2, 5, 10)},
    **{f"rosenbrock{d}": f"Rosenbrock, D = {d}" for d in (2, 4, 6)},
    **{f"banana{d}": f"banana, D = {d}" for d in (6, 10)},
}


def stacking() -> list[str]:
    """Time and weights of the stackers on the same runs."""
    results = _results("race_stacking")["rows"]
    rows = {(r["problem"], r["runs"], r["competitor"]): r for r in results}
    peers = ("pyvbmc 1.5.0", "svbmc 0.1.2")
    lines = [["runs stacked", "vbstack", *peers, "how far the peers' weights are below ours"]]
    for problem, size in (("ring", 10), ("ring", 40), ("gmm", 10), ("gmm", 40), ("gmm_noisy", 10)):
        ours = rows[problem, size, "vbstack"]
        theirs = [rows.get((problem, size, peer)) for peer in peers]
        below = [f"{peer['elbo_below_vbstack']:.3f}" for peer in theirs if peer]
        lines.append(
            [
                f"{_name(problem)}, {size} runs",
                f"{ours['seconds']:.2f} s, certified within {ours['gap']:.3f} nats",
                *(_peer(peer) for peer in theirs),
                " and ".join(below) + " nats",
            ]
        )
    return _table(lines)


def _peer(row: dict[str, Any] | None) -> str:
    return f"{row['seconds']:.0f} s ({row['ratio']:.0f}×)" if row else "not timed"


def engines(noisy: bool = False) -> list[str]:
    """Single runs and stacks of ten, by engine; of noisy problems with the runs' bias."""
    lines = [
        [
            *("problem", "engine", "runs that pass", "seconds of computing", "evaluations"),
            *("a run's ELBO − true ELBO",) * noisy,
            *("error of a run's ELBO (90 %)", "I_k covered"),
            *("stack: ΔLML", "MMTV", "GsKL", "true ELBO − log evidence"),
        ]
    ]
    for problem, found in _results("race_engines").items():
        if (problem in NOISY) is not noisy:
            continue
        for place, (engine, r) in enumerate(found.items()):
            lines.append(
                [
                    *("" if place else _name(problem), engine + r.get("of", "")),
                    f"{r['passing']} of {r['runs']}",
                    *(f"{r['seconds']:.1f}", f"{r['evaluations']:.0f}"),
                    *(f"{r['elbo_bias']:+.2f}" for _ in range(noisy)),
                    *(f"{r['elbo_error_90']:.3f}", f"{r['covered']:.0%}"),
                    *_scores(r["stacks"].get("own", {})),
                ]
            )
            if "pooled" in r["stacks"]:
                blank = [""] * (5 + noisy)
                lines.append(["", f"{engine}, pooled", *blank, *_scores(r["stacks"]["pooled"])])
    return _table(lines)


def noisy_bias() -> list[str]:
    """What runs overrate, by where they evaluate."""
    lines = [["evaluations at"]]
    results = _results("noisy_bias")
    for problem in results:
        lines[0] += [f"{_name(problem)}: ELBO − true ELBO (sd)", "true ELBO − log evidence"]
    for way in next(iter(results.values())):
        rows = [found[way] for found in results.values()]
        lines.append([way])
        for r in rows:
            lines[-1] += [f"{r['bias'][1]:+.2f} ({r['bias'][2]:.2f})", f"{r['true_elbo']:.2f}"]
    return _table(lines)


def coverage() -> list[str]:
    """The mass that ten runs find, native beside pyvbmc."""
    lines = [
        [
            *("target", "D, modes", "fits", "mass found (least)", "pyvbmc's", "lost nats"),
            *("pyvbmc's", "evaluations of a run", "pyvbmc's", "modes a run finds", "pyvbmc's"),
        ]
    ]
    for target, by in _coverage_rows().items():
        ours, theirs = by["native"], by.get("pyvbmc")
        pair = [_found(each) if each else None for each in (ours, theirs)]
        title = f"{target}{'' if ours.target.role == 'development' else ' (held out)'}"
        cells = [title, f"{ours.target.truth.dimension}, {ours.target.masses.size}"]
        cells.append(str(len(ours.rows)))
        for place in range(4):
            cells += [each[place] if each else "–" for each in pair]
        lines.append(cells)
    return _table(lines)


def _found(s: Summary) -> tuple[str, str, str, str]:
    """Mass, lost nats, evaluations of a run, and modes that a run finds."""
    return (
        f"{np.median(s.found):.3f} ({s.found.min():.2f})",
        f"{np.median(s.lost):.3f}",
        f"{s.per_run('evaluations'):.0f}",
        f"{s.rates.sum():.1f}",
    )


def enough() -> list[str]:
    """What `fit(n_runs="auto")` does with two workers, from the waves of the fits of ten runs."""
    lines = [
        [
            *("target", "fits", "stops after 4, 6, 8, 10 runs; goes on", "evaluations until then"),
            *("of ten runs", "lost nats", "of ten runs", "false"),
        ]
    ]
    for s in of_present_engine(summaries(RESULTS / ROWS)):
        if s.target.truth.noise_sd == 0 and all(row.waves for row in s.rows):
            lines.append([s.file.target, *_stops(s)])
    return _table(lines)


def _stops(s: Summary) -> list[str]:
    """After how many runs the rule stops, what that costs and loses, and how often it is wrong."""
    stops = [row.first_enough() for row in s.rows]
    counts = [sum(stop is not None and stop.runs == m for stop in stops) for m in (4, 6, 8, 10)]
    said = [(row, stop) for row, stop in zip(s.rows, stops, strict=True) if stop is not None]
    false = sum(1 - stop.mass_found(s.target.masses) > TOO_MUCH for _, stop in said)
    spent = [sum(row.evaluations[: stop.runs]) for row, stop in said]
    early = [stop.lost_nats for _, stop in said]
    return [
        str(len(s.rows)),
        f"{', '.join(map(str, counts))}; {len(stops) - len(said)}",
        f"{np.median(spent):.0f}" if said else "–",
        f"{s.evaluations:.0f}",
        f"{np.median(early):.3f}" if said else "–",
        f"{np.median(s.lost):.3f}",
        str(false),
    ]


def _coverage_rows() -> dict[str, dict[str, Summary]]:
    """Targets with several modes: the present engine's fits, and pyvbmc's where there are any."""
    found = summaries(RESULTS / ROWS)
    native = {s.file.target: s for s in of_present_engine(found) if s.target.masses.size > 1}
    theirs = {s.file.target: s for s in found if s.file.engine == "pyvbmc"}
    return {
        name: {"native": s} | ({"pyvbmc": theirs[name]} if name in theirs else {})
        for name, s in native.items()
    }


def ablation() -> list[str]:
    """What the engine loses without each of its heuristics."""
    rows = _results("ablation_present")
    lines = [["without", *(name for name in MEASURES if name != "modes of a run")]]
    for switch in dict.fromkeys(row["switch"] for row in rows):
        if switch != WHOLE:
            cells = (change_text(name, compared(rows, switch, name)) for name in lines[0][1:])
            lines.append([switch, *cells])
    return _table(lines)


def _scores(stacks: dict[str, list[float]]) -> list[str]:
    keys = ("delta_lml", "mmtv", "gskl", "true_elbo")
    return [f"{stacks[key][0]:.2g}" if key in stacks else "–" for key in keys]


RAW, POOLED = "own values: raw", "pooled: log evidence"
ERRORS = {
    "size of the error of the log evidence: raw": RAW,
    "… capped by components": "own values: capped by components",
    "… capped by runs": "own values: capped by runs",
    "… pyvbmc 1.5's two-level shrinkage (its function, at our weights)": (
        "own values: pyvbmc 1.5's two-level shrinkage"
    ),
    "… pooled": POOLED,
    "… pooled, the ELBO alone": "pooled: ELBO",
}


def pooling(study: str = "pooling") -> list[str]:
    """Medians of every estimate, a column per problem and number of runs."""
    summary = {(r["problem"], r["runs"], r["method"]): r for r in _results(study)["summary"]}
    columns = [(problem, runs) for problem, runs, method in summary if method == RAW]

    def line(title: str, cell: Callable[[dict[str, Any], dict[str, Any]], str]) -> list[str]:
        return [title, *(cell(summary[*c, RAW], summary[*c, POOLED]) for c in columns)]

    def both(key: str) -> Callable[[dict[str, Any], dict[str, Any]], str]:
        return lambda own, pooled: f"{own[key][0]:.2g} / {pooled[key][0]:.2g}"

    errors = [
        [title, *(f"{summary[*c, method]['absolute_error'][0]:.3f}" for c in columns)]
        for title, method in ERRORS.items()
    ]
    return _table(
        [
            ["", *(f"{_name(problem)}, {runs}" for problem, runs in columns)],
            line("bias: raw", lambda own, _: f"{own['bias'][0]:+.3f}"),
            line("bias: pooled ELBO", lambda _, pooled: f"{pooled['bias'][0]:+.3f}"),
            *errors,
            line(
                "log evidence within 1.96 stated sds: raw / pooled",
                lambda own, pooled: f"{100 * own['covered']:.0f} / {100 * pooled['covered']:.0f} %",
            ),
            line("MMTV: own / pooled weights", both("mmtv")),
            line("GsKL: own / pooled weights", both("gskl")),
            line(
                "true ELBO − log evidence: own / pooled",
                lambda own, pooled: f"{_missing(own):.3f} / {_missing(pooled):.3f}",
            ),
        ]
    )


VARIANTS = {
    "own surrogates": RAW,
    "(a) each run's hyperparameters, everyone's evaluations": (
        "(a) own hyperparameters, everyone's evaluations"
    ),
    "(b) one process, hyperparameters refitted": "(b) one process, refitted",
    "(c) precision-weighted surrogates with between-run variance": (
        "(c) precision-weighted surrogates"
    ),
    "**chosen: one process, priors from the runs, weighed**": "pooled: ELBO, selection left in",
    "chosen, each value less half its variance": "chosen, penalised by variance",
}


def variants() -> list[str]:
    """The variants of pooling at ten runs."""
    summary = {(r["problem"], r["runs"], r["method"]): r for r in _results("pooling")["summary"]}
    problems = [p for p in ("gmm_noisy", "ring_noisy", "multisensory") if (p, 10, RAW) in summary]
    titles = ("bias", "MMTV", "GsKL", "true ELBO − log evidence")
    lines = [["expected log-joints from", *titles]]
    for title, method in VARIANTS.items():
        rows = [summary[problem, 10, method] for problem in problems]
        lines.append(
            [
                title,
                ", ".join(f"{row['bias'][0]:+.2f}" for row in rows),
                ", ".join(f"{row['mmtv'][0]:.3f}" for row in rows),
                ", ".join(f"{row['gskl'][0]:.3f}" for row in rows),
                ", ".join(f"{_missing(row):.3f}" for row in rows),
            ]
        )
    return _table(lines)


OWN_VALUES = {  # numbers of runs of some problems
    "gmm": (10, 40),
    "ring": (10, 40),
    "gmm_noisy": (10, 40),
    "ring_noisy": (10,),
    "unequal": (10, 40),
    "student_t": (10,),
    "multisensory_exact": (10,),
    "contaminated": (10,),
    "hyperbolic": (10,),
}


def own_values() -> list[str]:
    """True ELBOs of weights by the runs' own log-joints."""
    found = {(r["problem"], r["runs"]): r for r in medians(_results("own_values")["rows"])}
    last = "cautious less pyvbmc 1.5.0's weights (subsets)"
    lines = [["runs stacked (subsets)", "cautious", "plain", "naive", last]]
    for problem, sizes in OWN_VALUES.items():
        for size in (size for size in sizes if (problem, size) in found):
            row = found[problem, size]
            cells = [*(f"{row[way]:.3f}" for way in WAYS), lead_over_peer(row)]
            lines.append([f"{_name(problem)}, {size} runs ({row['subsets']})", *cells])
    return _table(lines)


TABLES: dict[str, Callable[[], list[str]]] = {
    "stacking": stacking,
    "engines": engines,
    "noisy_engines": lambda: engines(noisy=True),
    "noisy_bias": noisy_bias,
    "coverage": coverage,
    "enough": enough,
    "ablation": ablation,
    "pooling": pooling,
    "pooling_exact": lambda: pooling("pooling_exact"),
    "variants": variants,
    "own_values": own_values,
}


def filled(text: str) -> str:
    """The page with every named table made from the stored results."""
    return MARK.sub(lambda match: match[1] + "\n".join(TABLES[match[2]]()) + "\n", text)


def _table(lines: list[list[str]]) -> list[str]:
    rule = ["---"] * len(lines[0])
    return [_line(cells) for cells in (lines[0], rule, *lines[1:])]


def _line(cells: list[str]) -> str:
    """A row of a table, negative numbers with a proper minus."""
    text = "|" + "|".join(cells) + "|" if cells[0] == "---" else f"| {' | '.join(cells)} |"
    return re.sub(r"(?<=[ (\[])-(?=\d)", "−", text)


def _name(problem: str) -> str:
    return NAMES.get(problem, problem)


def _missing(row: dict[str, Any]) -> float:
    """How far the true ELBO of the stack is from the log evidence."""
    return float(row["true_elbo"][0] - PROBLEMS[row["problem"]]().log_evidence)


def _results(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def main(argv: list[str]) -> None:
    options_of("doc-tables", __doc__).parse_args(argv)
    for page in PAGES:
        path = ROOT / page
        before = path.read_text(encoding="utf-8")
        after = filled(before)
        path.write_text(after, encoding="utf-8")
        print(f"{page}: {'changed' if after != before else 'as it was'}")
