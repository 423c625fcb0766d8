"""`Fingerprint`: what a log density is made of, part by part, so that a change can be named.

It covers the code of the log density and of the functions of yours that it uses, the values that
they use (closures, defaults, global names, attributes), `args`, `kwargs`, the files that these
name, the prior and the constraint. It does not see other files that the log density reads, the
environment, or the inside of compiled code.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import os
import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vbstack.inputs.mapped import Insertion, Mapped
from vbstack.inputs.priors import IndependentPrior
from vbstack.problem import Problem
from vbstack.runs.canonical import (
    Canon,
    held,
    inner_function,
    is_installed,
    used_globals,
)
from vbstack.runs.opening import open_regular

FILE = "file "  # the first word of the parts that are files
_CODE, _CLASS = ": code", ": class "  # the last word, a middle one, of parts that are code
_LARGEST_FILE = 2**30  # bytes that are read, in about a second


@dataclass(frozen=True)
class Fingerprint:
    """The parts of a log density.

    Parameters
    ----------
    parts : mapping of str to str
        The digest of each part by its name, such as "code of f" or "kwargs['sigma']". Digests
        that rest on bytecode begin with the version of Python: others make other bytecode.
    """

    parts: Mapping[str, str]

    @classmethod
    def of(cls, problem: Problem) -> Fingerprint:
        """The fingerprint of this problem's log density and prior."""
        walk = _Walk()
        walk.callable("log_density", problem.log_density)
        for place, value in enumerate(problem.args):
            walk.argument(f"args[{place}]", value)
        for name, value in problem.kwargs.items():
            walk.argument(f"kwargs[{name!r}]", value)
        if isinstance(problem.log_prior, IndependentPrior):
            for name, law in zip(problem.names, problem.log_prior.laws, strict=True):
                walk.value(f"prior of {name!r}", law)
        else:
            walk.callable("log_prior", problem.log_prior)
        walk.callable("constraint", problem.constraint)
        return cls(dict(sorted(walk.parts.items())))

    def differences(self, other: Fingerprint) -> list[str]:
        """The names of the parts that differ, are new, or are gone."""
        names = sorted(set(self.parts) | set(other.parts))
        return [
            name
            for name in names
            if self.parts.get(name) != other.parts.get(name) and not self._untold(other, name)
        ]

    def incomparable(self, other: Fingerprint) -> list[str]:
        """The names of the parts that cannot be compared: their Python versions differ."""
        return [name for name in self.parts if self._untold(other, name)]

    def _untold(self, other: Fingerprint, name: str) -> bool:
        mine, theirs = self.parts.get(name, ""), other.parts.get(name, "")
        python, _, _ = mine.rpartition(":")
        others, _, _ = theirs.rpartition(":")
        return bool(python and others and python != others)


class _Walk:
    """Goes through a callable and whatever of the user's own code it uses."""

    def __init__(self) -> None:
        self.parts: dict[str, str] = {}
        self._canon = Canon()
        self._visited: set[int] = set()

    def argument(self, name: str, value: Any) -> None:
        """One part by its content; if it is the path of a file, that file by its content too."""
        self.value(name, value)
        content = _file_content(value) if isinstance(value, (str, Path)) else None
        if content is not None:
            self.parts[FILE + name] = content

    def value(self, name: str, value: Any) -> None:
        """One part by its content; functions among the values are gone through."""
        if _is_own_function(value):
            self.callable(name, value)
            return
        self._canon.coded = False
        try:
            digest = self._canon.digest(value).hex()
        except Exception:  # whatever an object does when it is looked at: it counts by its type
            digest = self._canon.digest(type(value).__qualname__).hex()
        self.parts[name] = f"python {_python()}:{digest}" if self._canon.coded else digest

    def callable(self, name: str, function: Any) -> None:
        """The parts of a function, method, partial or callable object."""
        if id(function) in self._visited:
            return
        self._visited.add(id(function))
        if isinstance(function, Mapped):
            self.callable(name, function.function)
            self._map(function.map)
        elif isinstance(function, functools.partial):
            self.callable(name, function.func)
            for place, value in enumerate(function.args):
                self.value(f"{name}: argument {place} of the partial", value)
            for key, value in function.keywords.items():
                self.value(f"{name}: argument {key!r} of the partial", value)
        elif isinstance(function, types.MethodType):
            self.callable(name, function.__func__)
            self._attributes(name, function.__self__, function.__func__)
        elif _is_own_function(function):
            self._function(name, function)
        elif callable(function) and _is_own_object(function):
            self.value(f"{name}{_CLASS}{type(function).__qualname__}", type(function))
            self._attributes(name, function, type(function).__call__)
        else:
            self.value(name, function)

    def _map(self, map_: Any) -> None:
        """Fixed parameters by their values; a prior transform as a function."""
        if isinstance(map_, Insertion):
            for parameter, value in map_.fixed.items():
                self.value(f"fixed {parameter!r}", value)
        else:
            self.callable("transform", map_)

    def _function(self, name: str, function: Any) -> None:
        inner = function if isinstance(function, types.FunctionType) else inner_function(function)
        self._canon.coded = False
        digest = self._canon.code(inner.__code__).hex()
        self.parts[f"{name}{_CODE}"] = f"python {_python()}:{digest}"
        for what, value in held(inner):
            self.value(f"{name}: {what}", value)
        for what, value in used_globals(inner):
            if _is_own_function(value):
                self.callable(f"function {what!r}", value)
            else:
                self.value(f"global {what!r}", value)

    def _attributes(self, name: str, owner: Any, method: Any) -> None:
        """The state of an instance, without what the method itself assigns at every call."""
        if isinstance(owner, type) or not isinstance(getattr(owner, "__dict__", None), dict):
            self.value(f"{name}: instance", owner)
            return
        self.value(f"{name}{_CLASS}{type(owner).__qualname__}", type(owner))
        code = getattr(method, "__code__", None)
        steps = [] if code is None else dis.get_instructions(code)
        assigned = {step.argval for step in steps if step.opname == "STORE_ATTR"}
        for attribute, value in vars(owner).items():
            if attribute not in assigned:
                self.value(f"{name}: attribute {attribute!r}", value)


def is_code(part: str) -> bool:
    """Whether a part of a fingerprint is code: of a function, or of a class of the user's."""
    return part.endswith(_CODE) or _CLASS in part


def _file_content(path: str | Path) -> str | None:
    """The digest of a regular file, by its size alone if it is huge; None if there is none."""
    try:
        handle = open_regular(Path(path), os.O_RDONLY, follow=True)
        with os.fdopen(handle, "rb") as file:
            size = os.fstat(handle).st_size
            if size > _LARGEST_FILE:
                return f"{size} bytes"
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except (OSError, ValueError):  # also a text that cannot be a path
        return None


def _is_own_function(value: Any) -> bool:
    inner = value if isinstance(value, types.FunctionType) else inner_function(value)
    return inner is not None and not is_installed(inner) and not isinstance(value, type)


def _is_own_object(value: Any) -> bool:
    return not isinstance(value, type) and not is_installed(type(value))


def _python() -> str:
    return f"{sys.version_info[0]}.{sys.version_info[1]}"
