"""Digests of Python values and functions that are the same in every process.

A pickle is not: it depends on the order of sets, on memory and on line numbers. Here a function is
its instructions with their constants and names, what its closure and defaults hold, and the global
names that it uses; a value is its content. Functions and classes of installed packages are their
name and version. What cannot be read (open files, locks, generators of random numbers) is its type.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import importlib.metadata
import inspect
import struct
import sys
import sysconfig
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

_INSTALLED = [
    Path(path).resolve()
    for name, path in sysconfig.get_paths().items()
    if name in ("stdlib", "platstdlib", "purelib", "platlib")
]
_STORED = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF")
_SHAPES = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR | inspect.CO_COROUTINE
_LOADED = ("LOAD_GLOBAL", "LOAD_NAME")
_CHANGING = {"add", "append", "appendleft", "clear", "extend", "insert", "pop", "popleft", "remove"}
_CHANGING |= {"setdefault", "update", "write"}  # methods that change what they are called on

# What SciPy's random variables (since 1.15, such as scipy.stats.Normal) are made of.
_RANDOM_VARIABLE = ("_original_parameters", "_components", "_weights", "_dist")


class Canon:
    """Makes digests; `coded` says whether bytecode was among what the last ones were made of."""

    def __init__(self) -> None:
        self.coded = False
        self._path: list[int] = []  # of containers, from the outermost to the one at hand
        self._known: dict[int, tuple[bytes, bool, Any]] = {}  # holds the object, so ids stay unique

    def digest(self, value: Any) -> bytes:
        """The digest of any value."""
        if id(value) in self._known:
            found, coded, _ = self._known[id(value)]
            self.coded |= coded
            return found
        if id(value) in self._path:
            return _hash("cycle", str(len(self._path) - self._path.index(id(value))).encode())
        outer, self.coded = self.coded, False
        self._path.append(id(value))
        try:
            found = self._digest(value)
        finally:
            self._path.pop()
        if not _is_atom(value):
            self._known[id(value)] = found, self.coded, value
        self.coded |= outer
        return found

    def _digest(self, value: Any) -> bytes:
        kind = type(value)
        name = kind.__qualname__
        if _is_atom(value):
            return _hash(name, _atom(value))
        if isinstance(value, np.ndarray) and kind.__module__.startswith("numpy"):
            return self._array(value)
        if isinstance(value, (list, tuple)) and not _has_state(value):
            return _hash(name, *map(self.digest, value))
        if isinstance(value, (set, frozenset)):
            return _hash(name, *sorted(map(self.digest, value)))
        if isinstance(value, Mapping) and not _has_state(value):
            pairs = [self.digest(key) + self.digest(item) for key, item in value.items()]
            return _hash(name, *sorted(pairs))
        if isinstance(value, types.ModuleType):
            return _hash("module", value.__name__.encode())
        if isinstance(value, types.CodeType):
            return self.code(value)
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, (property, staticmethod, classmethod, functools.cached_property)):
            return _hash(name, *(self.digest(item) for item in _functions_in(value)))
        if isinstance(value, types.MethodType):
            return _hash("method", self.digest(value.__func__), self.digest(value.__self__))
        if isinstance(value, functools.partial):
            parts = value.func, value.args, value.keywords
            return _hash("partial", *map(self.digest, parts))
        if isinstance(value, types.FunctionType):
            return self._function(value)
        inner = inner_function(value)
        if inner is not None:
            return _hash("wrapper", self.digest(inner))
        if isinstance(value, (types.BuiltinFunctionType, np.ufunc)):
            return named(value)
        return self._object(value)

    def _array(self, array: Any) -> bytes:
        head = f"{array.dtype.str if array.dtype.names is None else array.dtype!r}{array.shape}"
        if np.ma.isMaskedArray(array):
            mask = np.ma.getmaskarray(array)
            return _hash("masked", head.encode(), self._array(array.filled(0)), self._array(mask))
        if array.dtype.hasobject:
            return _hash("objects", head.encode(), *map(self.digest, array.ravel().tolist()))
        return _hash("array", head.encode(), np.ascontiguousarray(array).tobytes())

    def code(self, code: types.CodeType) -> bytes:
        """Instructions with their constants and names; no lines, files, comments or docstrings."""
        self.coded = True
        shape = (code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount)
        parts = [repr((shape, code.co_flags & _SHAPES)).encode(), code.co_exceptiontable]
        for step in dis.get_instructions(code):
            constant = step.opcode in dis.hasconst
            value = self.digest(step.argval) if constant else repr(step.argval).encode()
            parts += [step.opname.encode(), value]
        return _hash("code", *parts)

    def _function(self, function: types.FunctionType) -> bytes:
        if is_installed(function):
            return named(function)
        parts = [self.code(function.__code__)]
        for name, value in (*held(function), *used_globals(function)):
            parts += [name.encode(), self.digest(value)]
        return _hash("function", *parts)

    def _class(self, cls: type) -> bytes:
        if is_installed(cls):
            return named(cls)
        parts = [self.digest(base) for base in cls.__bases__]
        for name, value in sorted(vars(cls).items()):
            if _is_content(name, value):
                parts += [name.encode(), self.digest(value)]
        return _hash("class", cls.__qualname__.encode(), *parts)

    def _object(self, value: Any) -> bytes:
        """An object by what a pickle would keep of it; where there is nothing, by its type."""
        kind = self.digest(type(value))
        state = _distribution(value)
        if state is None:
            state = _reduced(value)
        return _hash("object", kind, b"" if state is None else self.digest(state))


def held(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function holds: the variables of its closure, without those that it changes itself,
    and its defaults."""
    changed = _names(function.__code__)[1]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name in changed:
            continue
        try:
            yield f"closure variable {name!r}", cell.cell_contents
        except ValueError:  # not filled yet
            yield f"closure variable {name!r}", None
    defaults = function.__defaults__ or ()
    count = function.__code__.co_argcount
    names = function.__code__.co_varnames[count - len(defaults) : count]
    for name, value in (
        *zip(names, defaults, strict=True),
        *(function.__kwdefaults__ or {}).items(),
    ):
        yield f"default of {name!r}", value


def used_globals(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Global names that a function uses, sorted, with their values; of modules of the user's own
    those attributes that it names. What the function itself assigns or fills, such as a list of its
    calls, is left out: it changes with every call."""
    loaded, changed, attributes = _names(function.__code__)
    space = function.__globals__
    for name in sorted(loaded - changed):
        if name not in space or (name.startswith("__") and name.endswith("__")):
            continue
        value = space[name]
        yield name, value
        if isinstance(value, types.ModuleType) and not is_installed(value):
            for attribute in sorted(attributes & set(vars(value))):
                yield f"{name}.{attribute}", vars(value)[attribute]


def inner_function(value: Any) -> Any:
    """The function in a wrapper that is no function itself: a cache, a compiled function."""
    for name in ("__wrapped__", "py_func"):
        inner = getattr(value, name, None) if callable(value) else None
        if isinstance(inner, types.FunctionType):
            return inner
    return None


def is_installed(value: Any) -> bool:
    """Whether a function, class or module belongs to Python, to an installed package, or to us."""
    name = _module_name(value)
    if name in ("__main__", None):
        return False
    module = sys.modules.get(name)
    if module is None:
        return False
    if isinstance(value, types.FunctionType) and vars(module) is not value.__globals__:
        return False  # made by exec in a namespace that only has the name of a module
    if name.split(".")[0] in ("builtins", "vbstack"):
        return True
    file = getattr(module, "__file__", None)
    if file is None:
        return name in sys.builtin_module_names or name.split(".")[0] in sys.stdlib_module_names
    path = Path(file).resolve()
    return any(path.is_relative_to(folder) for folder in _INSTALLED)


def named(value: Any) -> bytes:
    """A function or class of an installed package: module, name and version."""
    module = _module_name(value) or type(value).__module__
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", repr(type(value)))
    owner = getattr(value, "__self__", None)
    kind = "" if owner is None or isinstance(owner, types.ModuleType) else repr(type(owner))
    return _hash("installed", f"{module}:{name}:{kind}:{_version(module)}".encode())


@functools.cache
def _version(module: str) -> str:
    root = module.split(".")[0]
    if root in sys.stdlib_module_names or root == "builtins":
        return ""
    try:
        return str(
            getattr(sys.modules.get(root), "__version__", None) or importlib.metadata.version(root)
        )
    except importlib.metadata.PackageNotFoundError:
        return ""


def _module_name(value: Any) -> str | None:
    if isinstance(value, types.ModuleType):
        return value.__name__
    if isinstance(value, types.FunctionType):
        return value.__globals__.get("__name__")
    return getattr(value, "__module__", None)


def _names(code: types.CodeType) -> tuple[set[str], set[str], set[str]]:
    """Global names that the code, or code in it, loads; names whose values it changes; attributes
    that it names."""
    loaded, changed, attributes = set(), set(), set()
    steps = [step for step in dis.get_instructions(code) if step.opname != "CACHE"]
    for place, step in enumerate(steps):
        if step.opname in _LOADED or step.opname.startswith("LOAD_FROM_DICT_OR_GLOBALS"):
            loaded.add(step.argval)
        elif step.opname in _STORED:
            changed.add(step.argval)
        elif step.opcode in dis.hasname:
            attributes.add(str(step.argval))
        if step.opname in (*_LOADED, "LOAD_DEREF") and _changes(steps[place + 1 : place + 3]):
            changed.add(step.argval)
        if isinstance(step.argval, types.CodeType):
            inner = _names(step.argval)
            loaded |= inner[0]
            changed |= inner[1]
            attributes |= inner[2]
    return loaded, changed, attributes


def _changes(following: list[dis.Instruction]) -> bool:
    """Whether what was just loaded is changed by what follows: x.append(…), x[…] = …, x[…] += …"""
    if len(following) < 2:
        return False
    first, second = following
    if first.opname in ("LOAD_METHOD", "LOAD_ATTR"):
        return first.argval in _CHANGING
    in_place = second.opname == "COPY" and second.argval == 2
    return first.opname.startswith("LOAD_") and (in_place or second.opname == "STORE_SUBSCR")


def _is_atom(value: Any) -> bool:
    kinds = (type(None), bool, int, float, complex, str, bytes, bytearray, range, slice)
    return type(value) in kinds or isinstance(value, (np.generic, np.dtype)) or value is ...


def _atom(value: Any) -> bytes:
    if isinstance(value, float) and type(value) is float:
        return struct.pack("<d", value)
    if isinstance(value, np.generic):
        return value.dtype.str.encode() + value.tobytes()
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return bytes(value) if isinstance(value, (bytes, bytearray)) else repr(value).encode()


def _has_state(value: Any) -> bool:
    """Whether a container of a class of its own holds more than its items."""
    return bool(getattr(value, "__dict__", None))


def _functions_in(value: Any) -> list[Any]:
    names = ("fget", "fset", "fdel", "__func__", "func")
    return [getattr(value, name) for name in names if getattr(value, name, None) is not None]


def _is_content(name: str, value: Any) -> bool:
    """Whether an entry of a class is code or data of its author's."""
    dunder = name.startswith("__") and name.endswith("__")
    return not name.startswith("_abc_") and (
        not dunder or isinstance(value, (types.FunctionType, staticmethod, classmethod))
    )


def _distribution(value: Any) -> Any:
    """A frozen distribution of SciPy by its name and parameters; None for anything else.

    A family of the user's own is also its class; one made of a histogram is that.
    """
    if not type(value).__module__.startswith("scipy.stats"):
        return None
    if hasattr(value, "dist") and hasattr(value, "args") and hasattr(value, "kwds"):
        family = value.dist
        own = () if is_installed(type(family)) else (type(family),)
        histogram = (family._histogram,) if hasattr(family, "_histogram") else ()
        return family.name, value.args, value.kwds, *own, *histogram
    if hasattr(value, "_original_parameters") or hasattr(value, "_components"):
        parts = [vars(value).get(name) for name in _RANDOM_VARIABLE]
        return repr(value).partition("(")[0], parts  # the family has no other name
    if hasattr(value, "covariance"):
        return np.asarray(value.covariance)
    if hasattr(value, "log_pdet"):
        return value.U, value.log_pdet
    state = getattr(value, "__dict__", {})
    return {name: item for name, item in state.items() if not name.startswith("_")} or None


def _reduced(value: Any) -> Any:
    """What a pickle of the object would be made of; None where there is none."""
    if isinstance(value, (np.random.Generator, np.random.BitGenerator, np.random.RandomState)):
        return None
    if type(value).__module__ == "random":
        return None
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:
        return None
    if isinstance(reduced, str):
        return reduced
    return [list(part) if isinstance(part, Iterator) else part for part in reduced]


def _hash(tag: str, *parts: bytes) -> bytes:
    result = hashlib.blake2b(digest_size=16)
    for part in (tag.encode(), *parts):
        result.update(struct.pack("<Q", len(part)))
        result.update(part)
    return result.digest()
