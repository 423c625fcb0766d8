"""The engines by name. Each is imported when it is first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vbstack.engines.recorder import Engine
    from vbstack.problem import Problem

ENGINES = ("pyvbmc", "native")
# What an engine takes long to import: done once, before the processes of the runs are forked.
HEAVY_IMPORTS = {"pyvbmc": "pyvbmc", "native": "vbstack.engines.native.loop"}

_MEASURED = 10  # parameters: the native engine was raced up to here


def resolved(name: str, problem: Problem) -> str:
    """The name of the engine that `name` means.

    "auto" is the native engine for log densities without noise of up to ten parameters, on which it
    was measured, and pyvbmc for all others.
    """
    if name == "auto":
        return "pyvbmc" if problem.noisy or problem.dimension > _MEASURED else "native"
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
