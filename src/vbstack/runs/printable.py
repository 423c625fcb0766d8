"""Text that came from a file or from a user's function, made fit for a terminal."""

from __future__ import annotations

import unicodedata

LONGEST = 2000  # characters of a message that are kept: more is a dump of data, not a reason
_WORDS = 80  # characters of a reason in a few words

# Control, format (text direction, zero width) and lone surrogates; line and paragraph separators.
_UNWANTED = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def printable(text: str, *, lines: bool = False) -> str:
    """The text without characters that steer a terminal; `lines` keeps its line breaks."""
    if text.isprintable():
        return text
    kept = []
    for character in text:
        if character == "\n" and lines:
            kept.append(character)
        elif character in "\n\t\r":
            kept.append(" ")
        elif unicodedata.category(character) not in _UNWANTED:
            kept.append(character)
    return "".join(kept)


def in_few_words(reason: str) -> str:
    """What happened, without what a user's function said of it: all before the first colon."""
    words = reason.partition(": ")[0]
    return words if len(words) <= _WORDS else f"{words[:_WORDS]}…"
