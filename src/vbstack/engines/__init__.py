"""The engines by name. Each is imported when it is first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vbstack.engine import Engine

ENGINES = ("pyvbmc", "native")
# What an engine takes long to import: done once, before the processes of the runs are forked.
HEAVY_IMPORTS = {"pyvbmc": "pyvbmc", "native": "vbstack.engines.native.loop"}


def resolved(name: str) -> str:
    """The name of the engine that `name` means; "auto" is pyvbmc."""
    if name == "auto":
        return "pyvbmc"
    if name not in ENGINES:
        raise ValueError(f"engine={name!r} is not known; choose 'auto' or one of {ENGINES}")
    return name


def engine_named(name: str) -> Engine:
    """The engine itself."""
    if name not in ENGINES:
        raise ValueError(f"engine={name!r} is not known; choose one of {ENGINES}")
    if name == "native":
        from vbstack.engines.native.loop import run_native

        return run_native
    from vbstack.engines.pyvbmc import run_pyvbmc

    return run_pyvbmc
