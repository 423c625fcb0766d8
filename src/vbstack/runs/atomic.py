"""Files that are there whole or not at all.

A file is written under a temporary name in the same folder and then put in place in one step.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(target: Path, *, overwrite: bool, durable: bool = True) -> Iterator[Path]:
    """A temporary file to fill, which then becomes `target` in one step, or is gone after an error.

    An existing target is kept, by an error, unless `overwrite` is given. `durable` waits until the
    content is on the disk.
    """
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} exists; pass overwrite=True to replace it")
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        if durable:
            with temporary.open("r+b") as file:
                os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
    except BaseException:
        temporary.unlink()
        raise


def write_text(target: Path, text: str, *, durable: bool = True) -> None:
    """Put a text in place of whatever the file held."""
    with replacing(target, overwrite=True, durable=durable) as temporary:
        temporary.write_text(text, encoding="utf-8")


def create_text(target: Path, text: str) -> None:
    """Write a new file; if another process was first, its file stays."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        temporary.chmod(0o666 & ~_umask())
        os.link(temporary, target)
    except FileExistsError:
        return
    finally:
        temporary.unlink()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
