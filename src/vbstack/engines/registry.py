"""The engines by name. Each is imported when it is first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vbstack.checks import checked_word
from vbstack.engines.recorder import Engine
from vbstack.modes import EngineChoice, EngineName
from vbstack.problem import Problem

# What an engine takes long to import: done once, before the processes of the runs are forked.
HEAVY_IMPORTS: dict[EngineName, str] = {"pyvbmc": "pyvbmc", "native": "vbstack.engines.native.loop"}

_MEASURED = 10  # parameters: the native engine was raced up to here


def resolved(name: EngineChoice, problem: Problem) -> EngineName:
    """The name of the engine that `name` means.

    "auto" is the native engine for log densities without noise of up to ten parameters, on which it
    was measured, and pyvbmc for all others.
    """
    if name == "auto":
        return "pyvbmc" if problem.noisy or problem.dimension > _MEASURED else "native"
    checked_word("engine", name, EngineChoice)
    return name


def engine_named(name: EngineName) -> Engine:
    """The engine itself."""
    checked_word("engine", name, EngineName)
    if name == "native":
        from vbstack.engines.native.loop import run_native

        return run_native
    from vbstack.engines.pyvbmc import run_pyvbmc

    return run_pyvbmc


def check_options(name: EngineName, options: Mapping[str, Any], problem: Problem) -> None:
    """An error if the engine does not take these options; nothing is evaluated."""
    if name == "native":
        from vbstack.engines.native.policy import Policy

        Policy.of(options, problem.dimension, problem.noisy)
    elif options:
        from vbstack.engines.pyvbmc import check_pyvbmc_options

        check_pyvbmc_options(problem, options)
