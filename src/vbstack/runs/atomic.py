"""Files that are there whole or not at all.

A file is written under a temporary name in the same folder and then put in place in one step. The
temporary name says which process writes it, so that what a killed one leaves can be told and
removed (`remove_abandoned`). A link in the place of the file is replaced, and never written
through; the temporary file is written through the descriptor that made it, so that nobody who may
write in the folder can put a link in its way.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_SECONDS_OF_ANY_WRITE = 86_400.0  # a temporary file that is older has no writer any more
_TEMPORARY = re.compile(r"\.(.+)\.([0-9a-f]{8})-([0-9]{1,10})-[0-9a-f]{8}")
# Version 0.1.0 named only the target and eight random characters.
_OLD_TEMPORARY = re.compile(r"\.(run-[0-9]{5,}\.[a-z.]+|store\.json|posterior\.npz)\.[a-z0-9_]{8}")


@contextmanager
def replacing(target: Path, *, overwrite: bool, durable: bool = True) -> Iterator[BinaryIO]:
    """A temporary file to fill, which then becomes `target` in one step, or is gone after an error.

    An existing target, also a link that leads nowhere, is kept, by an error, unless `overwrite` is
    given. `durable` waits until the content and its name are on the disk.
    """
    if os.path.lexists(target) and not overwrite:
        raise FileExistsError(f"{target} exists; pass overwrite=True to replace it")
    temporary = _temporary_for(target)
    with temporary.open("xb") as file:  # a new file, with the mode that the umask gives
        try:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    if durable:
        sync_directory(target.parent)


def write_text(target: Path, text: str, *, durable: bool = True) -> None:
    """Put a text in place of whatever the file held."""
    with replacing(target, overwrite=True, durable=durable) as file:
        file.write(text.encode())


def create_text(target: Path, text: str) -> None:
    """Write a new file; if another process was first, its file stays."""
    temporary = _temporary_for(target)
    try:
        with temporary.open("xb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, target)
    except FileExistsError:
        return
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(target.parent)


def sync_directory(directory: Path) -> None:
    """Wait until the names in a directory are on the disk, where the file system can do that."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems refuse; the file itself is written
            os.fsync(handle)
    finally:
        os.close(handle)


def remove_abandoned(directory: Path) -> int:
    """Remove the temporary files of writers that are dead; returns how many there were.

    What may not be removed, in a store that is only read, stays.
    """
    removed = 0
    for entry in os.scandir(directory):
        with suppress(OSError):
            if entry.is_file(follow_symlinks=False) and _abandoned(entry):
                os.unlink(entry.path)
                removed += 1
    return removed


def _abandoned(entry: os.DirEntry[str]) -> bool:
    found = _TEMPORARY.fullmatch(entry.name)
    if found is None and _OLD_TEMPORARY.fullmatch(entry.name) is None:
        return False
    if found is not None and found[2] == _place():
        return not _alive(int(found[3])) or _is_old(entry)
    return _is_old(entry)


def _is_old(entry: os.DirEntry[str]) -> bool:
    return time.time() - entry.stat(follow_symlinks=False).st_mtime > _SECONDS_OF_ANY_WRITE


def _temporary_for(target: Path) -> Path:
    """A name beside the target that nobody else has."""
    return target.with_name(f".{target.name}.{_place()}-{os.getpid()}-{secrets.token_hex(4)}")


def _place() -> str:
    """Where the numbers of processes mean the same: this machine, and this container on it."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return f"{zlib.crc32(f'{socket.gethostname()} {namespace}'.encode()):08x}"


def _alive(process: int) -> bool:
    """Whether a process of this machine can still write; one that is dead but not reaped cannot."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return True
    return state != "Z"
