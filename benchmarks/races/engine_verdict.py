"""What the race of the engines says in words and counts: `python -m benchmarks engine-verdict`.

From `results/race_engines.json`: how many times as long pyvbmc computes, evaluations, runs that
pass and know their ELBO, and on which problems a stack of ten native runs is worse than one of
pyvbmc's runs: in its median, or beyond both intervals. Pooled stacks; where pyvbmc has none, its
stacks by own values.
"""

from __future__ import annotations

import json
from typing import Any

from benchmarks.folders import RESULTS
from benchmarks.options import options_of
from benchmarks.races.race_engines import MEASURES, NOISY

Row = dict[str, Any]


def worse(ours: Row, theirs: Row, way: str) -> dict[str, bool]:
    """The measures whose median is worse, and whether they are worse beyond both intervals.

    None where pyvbmc's archive has too few runs for stacks of ten.
    """
    if not theirs["stacks"]:
        return {}
    mine, other = ours["stacks"][way], theirs["stacks"].get(way, theirs["stacks"]["own"])
    found = {}
    for measure in (measure for measure in MEASURES if measure in mine):
        sign = -1 if measure == "true_elbo" else 1  # of what is bad
        (a, *mine_ends), (b, *other_ends) = mine[measure], other[measure]
        if sign * a > sign * b:
            best = min(sign * end for end in mine_ends)
            found[measure] = best > max(sign * end for end in other_ends)
    return found


def verdict(results: dict[str, dict[str, Row]]) -> list[str]:
    lines = []
    pairs = {name: (found["native"], found["pyvbmc"]) for name, found in results.items()}
    for name, (ours, theirs) in pairs.items():
        ratio = theirs["seconds"] / ours["seconds"]
        line = f"{name}: {ratio:.1f}×, {ours['evaluations']:.0f} / {theirs['evaluations']:.0f}"
        for way in ("pooled", "own"):
            marks = [f"{m}{' beyond' * far}" for m, far in worse(ours, theirs, way).items()]
            line += f"; {way} worse: {', '.join(marks) or 'none'}"
        lines.append(line)
    exact = [pair for name, pair in pairs.items() if name not in NOISY]
    more = sum(ours["evaluations"] > theirs["evaluations"] for ours, theirs in exact)
    far = sum(any(worse(*pair, "pooled").values()) for pair in exact)
    near = sum(bool(set(worse(*pair, "pooled")) - {"delta_lml"}) for pair in exact)
    compared = [pair for pair in exact if pair[1]["stacks"]]
    lines.append(
        f"{len(exact)} exact problems; native takes more evaluations on {more}; stacks of both on "
        f"{len(compared)}"
    )
    lines.append(f"pooled stacks: worse beyond the intervals on {far}")
    lines.append(f"pooled stacks: a median of MMTV, GsKL or true ELBO worse on {near}")
    covered = {name: ours["covered"] for name, (ours, _) in pairs.items()}
    short = [f"{name} {share:.0%}" for name, share in covered.items() if share < 0.9] or ["none"]
    lines.append(f"native: 2 √J covers fewer than 90 % of the errors of I_k on {', '.join(short)}")
    for place, engine in enumerate(("native", "pyvbmc")):
        runs, passing, within = (
            sum(pair[place][key] for pair in exact) for key in ("runs", "passing", "elbo_within")
        )
        lines.append(f"{engine}: {passing} of {runs} runs pass, {within} know their ELBO")
    return lines


def main(argv: list[str]) -> None:
    options_of("engine-verdict", __doc__).parse_args(argv)
    print("\n".join(verdict(json.loads((RESULTS / "race_engines.json").read_text()))))
