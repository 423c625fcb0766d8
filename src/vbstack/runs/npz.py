"""The arrays of an `.npz` file that may come from anybody: checked before memory is taken.

NumPy's own reader believes what a file says of itself: two megabytes can claim two gigabytes. Here
every size is compared with the bytes that are there, and only plain numbers are read.
"""

from __future__ import annotations

import io
import math
import re
import zipfile

import numpy as np
from numpy.typing import NDArray

_MOST_MEMBERS = 100_000  # four thousand runs with everything
_LARGEST = 2**31  # bytes of all arrays together
# Arrays of zeros shrink a thousandfold, those of a run at most fiftyfold and all together hardly at
# all: what is small may shrink as it likes.
_ALWAYS_ALLOWED = 2**26
_LARGEST_RATIO = 100
_HEADER = re.compile(
    rb"\{'descr': '([<>|][fiub][1248])', 'fortran_order': (True|False), "
    rb"'shape': \(((?:[0-9]{1,12}, )*[0-9]{1,12},?|)\), \} *\n"
)
_LONGEST_HEADER = 10_000


def read_arrays(content: bytes) -> dict[str, NDArray[np.generic]]:
    """The arrays of an `.npz` file by name; a ValueError says what is wrong with it."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            _check_sizes(members, len(content))
            return {
                member.filename.removesuffix(".npy"): _array(archive.read(member))
                for member in members
            }
    except Exception as error:  # the bytes are all in memory: whatever is wrong is in them
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _check_sizes(members: list[zipfile.ZipInfo], size: int) -> None:
    total = sum(member.file_size for member in members)
    names = {member.filename for member in members}
    if len(members) > _MOST_MEMBERS or len(names) != len(members):
        raise ValueError(f"{len(members)} arrays, {len(names)} of them with different names")
    if total > min(_LARGEST, max(_ALWAYS_ALLOWED, _LARGEST_RATIO * size)):
        raise ValueError(f"{size} bytes claim to hold {total}")
    for member in members:
        if not member.filename.endswith(".npy"):
            raise ValueError(f"{member.filename!r} is not an array")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"compression {member.compress_type} is not known")


def _array(data: bytes) -> NDArray[np.generic]:
    """The array of a member in NumPy's format, of plain numbers only."""
    lengths = {b"\x93NUMPY\x01\x00": 2, b"\x93NUMPY\x02\x00": 4}
    width = lengths.get(data[:8])
    if width is None:
        raise ValueError("a member is not an array of numbers")
    start = 8 + width
    length = int.from_bytes(data[8:start], "little")
    found = _HEADER.fullmatch(data[start : start + min(length, _LONGEST_HEADER)])
    if found is None:
        raise ValueError("an array has an unknown header, or does not hold plain numbers")
    kind = np.dtype(found[1].decode())
    shape = tuple(int(n) for n in found[3].replace(b" ", b"").split(b",") if n)
    begin = start + length
    # A dimension of zero must not hide a huge one.
    if math.prod(max(n, 1) for n in shape) * kind.itemsize > max(len(data), 2**20):
        raise ValueError(f"an array claims the shape {shape}")
    if math.prod(shape) * kind.itemsize != len(data) - begin:
        raise ValueError(f"{len(data) - begin} bytes for an array of shape {shape}")
    values = np.frombuffer(data, kind, offset=begin)
    return values.reshape(shape, order="F" if found[2] == b"True" else "C")
