"""Opening the files of a store: regular files only, never through a link, never kept by a child.

A store may be shared with others. A link in the place of a file would make us write elsewhere, and
a FIFO would make us wait for ever, so neither is opened.

Locks and journals are held open for as long as a run takes. A child that the log density forks
inherits them, and with them the lock (`flock` belongs to the open file, not to the process): after
the death of the run, the child would keep it. So every forked child closes them first. POSIX locks
(`lockf`) are not inherited, but are lost as soon as the process closes any other descriptor of the
file, which looking at a store does.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

LARGEST = 2**31  # bytes of a file that is read at once

_held: set[int] = set()


class NotARegularFile(OSError):
    """A link, FIFO, device or directory where a file should be."""


class TooLarge(OSError):
    """A file that is larger than anything vbstack writes."""


def open_regular(path: Path, flags: int, *, follow: bool = False) -> int:
    """A descriptor of a regular file; `follow` allows the path to be a symbolic link to one."""
    # A FIFO opens at once with O_NONBLOCK, which means nothing for regular files.
    asked = flags | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    try:
        handle = os.open(path, asked, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise _not_regular(path) from error
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _not_regular(path)
    return handle


def read_regular(path: Path, *, largest: int = LARGEST, follow: bool = False) -> bytes:
    """The whole content of a regular file of at most `largest` bytes; nothing is changed."""
    handle = open_regular(path, os.O_RDONLY, follow=follow)
    with os.fdopen(handle, "rb") as file:
        size = os.fstat(handle).st_size
        if size > largest:
            raise TooLarge(
                errno.EFBIG, f"{size} bytes, more than the {largest} that are read here", str(path)
            )
        return file.read(size)


def hold(handle: int) -> int:
    """The descriptor, which forked children will close."""
    _held.add(handle)
    return handle


def release(handle: int) -> None:
    """Close a descriptor that `hold` was given; in a forked child it is closed already."""
    if handle in _held:
        _held.discard(handle)
        os.close(handle)


def _close_in_child() -> None:
    while _held:
        release(next(iter(_held)))


os.register_at_fork(after_in_child=_close_in_child)


def _not_regular(path: Path) -> NotARegularFile:
    return NotARegularFile(
        errno.EINVAL,
        "this is a link, FIFO, device or directory; vbstack opens regular files only: put a copy "
        "of the file here, or remove it",
        str(path),
    )
