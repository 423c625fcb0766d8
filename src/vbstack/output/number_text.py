"""Numbers as text, for tables that people read."""

from __future__ import annotations

import numpy as np


def number(value: float, digits: int = 4) -> str:
    """A number with this many significant digits, with a true minus sign."""
    return f"{value:.{digits}g}".replace("inf", "∞").replace("-", "−")


def fixed(value: float | None, places: int = 3) -> str:
    """A number with this many decimals; with significant digits when these would not fit."""
    if value is None:
        return ""
    if not -1e9 < value < 1e9 or places > 9:
        return number(value)
    text = f"{value:.{max(0, places)}f}"
    return (text if float(text) != 0 else text.removeprefix("-")).replace("-", "−")


def percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def decimals(sd: float) -> int:
    """Decimals that show a standard deviation with three digits."""
    return 4 if not 0 < sd < np.inf else max(0, 2 - int(np.floor(np.log10(sd))))
