"""Equations as MathML, made when the site is built: nothing is loaded or computed by the reader."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
_DISPLAY = re.compile(r'<div class="arithmatex">\\\[(.*?)\\\]</div>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """The page with every equation that arithmatex marked turned into MathML."""
    content = _DISPLAY.sub(lambda found: _mathml(found[1], "block"), content)
    return _INLINE.sub(lambda found: _mathml(found[1], "inline"), content)


def _mathml(latex: str, display: str) -> str:
    # The converter leaves no space between a function's name and its argument.
    spaced = re.sub(r"\\log\s+", r"\\log\\,", html.unescape(latex).strip())
    return convert(spaced, display=display)
