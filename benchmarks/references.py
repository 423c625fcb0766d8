"""Make a stored reference again: `python -m benchmarks.references multisensory`.

`--data FILE --out FILE` makes one for other data instead. It takes half a minute.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.multisensory_model import read_session, simulated
from benchmarks.multisensory_truth import reference_of
from benchmarks.reference import REFERENCES, Reference


def multisensory(data: Path | None) -> Reference:
    return reference_of(simulated() if data is None else read_session(data))


MAKERS = {"multisensory": multisensory}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problem", choices=sorted(MAKERS))
    parser.add_argument("--data", type=Path, help="real data instead of the shipped ones")
    parser.add_argument("--out", type=Path, help="required with --data")
    arguments = parser.parse_args()
    if arguments.data is not None and arguments.out is None:
        parser.error("--data needs --out: the stored references are those of the shipped data")
    reference = MAKERS[arguments.problem](arguments.data)
    path = reference.save(arguments.out or REFERENCES / f"{arguments.problem}.npz")
    print(f"{path}: log evidence {reference.log_evidence:.5f} ± {reference.log_evidence_sd:.1g}")
    print(f"{len(reference.draws)} draws; {reference.how}")


if __name__ == "__main__":
    main()
