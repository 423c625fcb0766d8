"""Make a stored reference again: `python -m benchmarks references multisensory` (or `neuronal`).

`--data PATH --out FILE` makes one for other data instead. Half a minute, and two minutes. The
shipped recording of the neuronal problem itself is made by `recording`.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.folders import REFERENCES
from benchmarks.options import options_of
from benchmarks.problems.multisensory import truth as multisensory_truth
from benchmarks.problems.multisensory.model import read_session, simulated
from benchmarks.problems.neuronal import truth as neuronal_truth
from benchmarks.problems.neuronal.problem import log_joint
from benchmarks.problems.neuronal.recording import SHIPPED, quiet_parts, write_shipped
from benchmarks.problems.reference_posterior import Reference


def multisensory(data: Path | None) -> Reference:
    """By quadrature."""
    session = simulated() if data is None else read_session(data)
    return multisensory_truth.reference_of(session)


def neuronal(data: Path | None) -> Reference:
    """By importance sampling along the ridge."""
    return neuronal_truth.reference_of(log_joint(data))


MAKERS = {"multisensory": multisensory, "neuronal": neuronal}


def main(argv: list[str]) -> None:
    parser = options_of("references", __doc__)
    parser.add_argument("problem", choices=[*MAKERS, "recording"])
    parser.add_argument("--data", type=Path, help="real data instead of the shipped ones")
    parser.add_argument("--out", type=Path, help="required with --data")
    arguments = parser.parse_args(argv)
    if arguments.data is not None and arguments.out is None:
        parser.error("--data needs --out: the stored references are those of the shipped data")
    if arguments.problem == "recording":
        print(f"{SHIPPED}: {write_shipped().noise(quiet_parts())}")
        return
    reference = MAKERS[arguments.problem](arguments.data)
    path = reference.save(arguments.out or REFERENCES / f"{arguments.problem}.npz")
    print(f"{path}: log evidence {reference.log_evidence:.5f} ± {reference.log_evidence_sd:.1g}")
    print(f"{len(reference.draws)} draws; {reference.how}")
