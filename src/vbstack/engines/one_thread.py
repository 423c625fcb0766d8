"""`one_thread()`: numerical libraries use one thread while somebody here asks for that."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import threadpool_limits

_lock = threading.Lock()
_asking = 0
_limits: Any = None


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for linear algebra in this process, until the last of those who asked ends.

    Sums have other last digits with other numbers of threads. The limit is one of the process: of
    two threads that each set it and take it back, the first to end would take it from the other.
    """
    global _asking, _limits
    with _lock:
        if _asking == 0:
            _limits = threadpool_limits(1)
        _asking += 1
    try:
        yield
    finally:
        with _lock:
            _asking -= 1
            if _asking == 0:
                _limits.restore_original_limits()
