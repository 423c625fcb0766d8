"""Ways to spoil a file: its bytes, the arrays of an `.npz`, the values of a JSON text."""

from __future__ import annotations

import copy
import io
import json
import random
import zipfile
from typing import Any

import numpy as np

_DEEP = "DEEP"  # becomes a list nested 3,000 times
_ODD: tuple[Any, ...] = (
    *(None, True, False, "", "text", "\x1b[31mred", "x" * 10_000, -1, 0, 1, 7, 1.5, -0.5),
    *(1e308, -1e308, float("nan"), float("inf"), float("-inf"), 10**30, 10**400, 2**63),
    *([], [0], [[]], [None], {}, {"a": 1}, {"index": 0, "reason": 1}, _DEEP),
)
_NUMBERS = (np.nan, np.inf, -np.inf, -1.0, 0.0, 1.0, 1e-300, 1e300, 1e160, -1e160, 2.0)

Member = tuple[str, bytes]


def mutated(content: bytes, rng: random.Random) -> bytes:
    """The content, spoiled in a way that suits its kind."""
    if rng.random() < 0.4:
        return _bytes(content, rng)
    return _npz(content, rng) if content[:2] == b"PK" else _lines(content, rng)


def _bytes(content: bytes, rng: random.Random) -> bytes:
    data = bytearray(content)
    place, length = rng.randrange(len(data)), rng.choice((1, 2, 4, 16, 200))
    kind = rng.randrange(6)
    if kind == 0:
        for _ in range(rng.choice((1, 1, 1, 2, 8))):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del data[place:]
    elif kind == 2:
        data[place:place] = rng.randbytes(length)
    elif kind == 3:
        del data[place : place + length]
    elif kind == 4:
        data[place : place + length] = bytes(len(data[place : place + length]))
    else:
        other = rng.randrange(len(data))
        data[place:place] = data[other : other + length]
    return bytes(data)


def _lines(content: bytes, rng: random.Random) -> bytes:
    """JSON with another value somewhere: one object, or one a line."""
    if content.count(b"}\n{") == 0:
        return _json(content, rng)
    lines = content.splitlines(keepends=True)
    place = rng.randrange(len(lines))
    other = rng.randrange(len(lines))
    if rng.random() < 0.3:
        lines[place], lines[other] = lines[other], lines[place]
    else:
        lines[place] = _json(lines[place], rng) + b"\n"
    return b"".join(lines)


def _json(content: bytes, rng: random.Random) -> bytes:
    value = json.loads(content)
    for _ in range(rng.choice((1, 1, 2))):
        _set_somewhere(value, rng)
    return json.dumps(value).replace(f'"{_DEEP}"', "[" * 3000 + "]" * 3000).encode()


def _set_somewhere(value: Any, rng: random.Random) -> None:
    """Replace, remove or add one value at a random depth."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(value[key], (dict, list)) and value[key] and rng.random() < 0.8:
            value = value[key]
            continue
        kind = rng.random()
        if kind < 0.1:
            del value[key]
        elif kind < 0.2 and isinstance(value, dict):
            value["unknown"] = copy.deepcopy(rng.choice(_ODD))
        else:
            value[key] = copy.deepcopy(rng.choice(_ODD))
        return


def _npz(content: bytes, rng: random.Random) -> bytes:
    """An archive whose checksums are right and whose content is not."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(member.filename, archive.read(member)) for member in archive.infolist()]
    first, second = rng.sample(range(len(members)), 2)
    kind = rng.randrange(8)
    if kind == 0:
        names = members[first][0], members[second][0]
        members[first], members[second] = (
            (names[0], members[second][1]),
            (names[1], members[first][1]),
        )
    elif kind == 1:
        del members[first]
    elif kind == 2:
        members[first] = (members[first][0], _bytes(members[first][1], rng))
    elif kind <= 4:
        place = next(n for n, (name, _) in enumerate(members) if name == "header.json.npy")
        text = _json(bytes(np.load(io.BytesIO(members[place][1]))), rng)
        members[place] = (members[place][0], _npy(np.frombuffer(text, np.uint8)))
    else:
        members[first] = (members[first][0], _npy(_array(members[first][1], rng)))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members:
            archive.writestr(name, data)
    return buffer.getvalue()


def _array(data: bytes, rng: random.Random) -> Any:
    """An array with odd numbers, another shape or another type."""
    array = np.load(io.BytesIO(data)).copy()
    kind = rng.randrange(7)
    if kind <= 2 and array.size:
        flat = array.reshape(-1)
        with np.errstate(all="ignore"):
            flat[rng.randrange(flat.size)] = np.array(rng.choice(_NUMBERS)).astype(array.dtype)
    elif kind == 3:
        return array[..., None] if rng.random() < 0.5 else array.reshape(-1)[:-1]
    elif kind == 4:
        return array.T
    elif kind == 5:
        with np.errstate(all="ignore"):
            return array.astype(rng.choice(("U8", "c16", "i1", "f2", "b1", "S4", "f8")))
    else:
        with np.errstate(all="ignore"):
            return array * np.array(rng.choice(_NUMBERS)).astype(array.dtype)
    return array


def _npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()
