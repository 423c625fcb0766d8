"""Faults on purpose, counted.

Mutated files over every reader, flipped bits in journals, and `vbstack fit` killed at random times.
Writes benchmarks/results/faults.md.
"""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.faults.kills import WHOM, Tally, campaign
from benchmarks.faults.readers import OUTCOMES, READERS, Findings, findings, flipped_bits
from benchmarks.folders import RESULTS
from benchmarks.machine import machine
from benchmarks.options import options_of


def main(argv: list[str]) -> None:
    parser = options_of("faults", __doc__)
    parser.add_argument("--files", type=int, default=100_000, help="mutated files")
    parser.add_argument("--bits", type=int, default=20_000, help="flipped bits in journals")
    parser.add_argument("--kills", type=int, default=100, help="killed processes or groups")
    parser.add_argument("--workers", type=int, default=2, help="processes that read files")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS / "faults.md")
    given = parser.parse_args(argv)
    options = f"--files {given.files} --bits {given.bits} --kills {given.kills} --seed {given.seed}"
    parts = [
        "# Faults on purpose",
        f"`python -m benchmarks faults {options}`, {machine()}.",
    ]
    if given.files:
        begun = time.monotonic()
        found = findings(given.files, given.seed, given.workers)
        parts.append(_files_text(found, given.files, time.monotonic() - begun))
        print(parts[-1], flush=True)
    if given.bits:
        parts.append(_bits_text(given.bits, *flipped_bits(given.bits, given.seed)))
        print(parts[-1], flush=True)
    if given.kills:
        begun = time.monotonic()
        tally = campaign(given.kills, given.seed)
        parts.append(_kills_text(tally, time.monotonic() - begun))
        print(parts[-1], flush=True)
    given.out.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print(f"\nwritten to {given.out}")


def _files_text(found: Findings, files: int, seconds: float) -> str:
    lines = [
        f"## {files} mutated files ({seconds:.0f} s)",
        "",
        "Files of 0.1.0 and of this version with flipped bits, cut, with bytes inserted, removed",
        "or doubled; archives with right checksums and swapped or spoiled arrays; JSON with values",
        "of other types, huge, NaN or nested 3,000 deep. A journal is read without its damaged",
        "lines, and a damaged status.json is passed over, so neither gives an error.",
        "",
        "| file | " + " | ".join(OUTCOMES) + " |",
        "|---" * (1 + len(OUTCOMES)) + "|",
    ]
    for reader in READERS:
        counts = " | ".join(str(found.counts[reader, outcome]) for outcome in OUTCOMES)
        lines.append(f"| {reader} | {counts} |")
    totals = (sum(found.counts[reader, o] for reader in READERS) for o in OUTCOMES)
    lines.append("| all | " + " | ".join(map(str, totals)) + " |")
    lines += ["", f"Peak memory above that of the loaded libraries: {found.megabytes:.0f} MB."]
    return "\n".join([*lines, *(f"- {example}" for example in found.examples)])


def _bits_text(bits: int, noticed: int, harmless: int, silent: int) -> str:
    return (
        f"## {bits} flipped bits in a journal\n\n"
        f"Noticed {noticed}, without effect {harmless}, values changed silently {silent}."
    )


def _kills_text(tally: Tally, seconds: float) -> str:
    kills = ", ".join(f"{whom} {tally.kills[whom]}" for whom in WHOM)
    rows = (
        ("fits, each killed up to six times and started again", tally.fits),
        ("fits that could not be finished", tally.unfinished),
        ("runs lost", tally.runs_lost),
        ("runs or stacks that differ in a bit from those never killed", tally.different),
        ("different evaluations", tally.evaluations),
        ("evaluations under way when their process died, made again", tally.in_flight),
        ("evaluations done but killed before their line in the journal", tally.done_again),
        ("evaluations in a journal that were made again", tally.paid_twice),
        ("damaged files set aside", tally.journals_damaged),
        ("temporary files there when the last fit ended", tally.leftovers),
        ("temporary files that the next launch leaves", tally.never_removed),
    )
    return "\n".join(
        [
            f"## {sum(tally.kills.values())} kills ({seconds:.0f} s)",
            "",
            f"Killed: {kills}.",
            "",
            "| what | count |",
            "|---|---|",
            *(f"| {name} | {count} |" for name, count in rows),
        ]
    )
