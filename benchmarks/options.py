"""The command line of one benchmark."""

from __future__ import annotations

import argparse


def options_of(command: str, description: str | None) -> argparse.ArgumentParser:
    """A parser for `python -m benchmarks COMMAND`; its help shows the description as it is."""
    return argparse.ArgumentParser(
        prog=f"python -m benchmarks {command}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
