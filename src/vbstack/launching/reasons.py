"""Why runs failed, for people: each reason in full once, then in a few words.

A reason is what the user's function said, up to a thousand characters, and the point. It is said
when the run fails, if anybody watches, and again with the list of failed runs at the end.
"""

from __future__ import annotations

from collections.abc import Mapping

from vbstack.runs.printable import in_few_words

_LISTED = 20  # failed runs that a message lists
_POINT = ", at x = "


class Reasons:
    """The reasons that have been shown so far."""

    def __init__(self) -> None:
        self._shown: dict[str, int] = {}  # the run of which each was said

    def line(self, index: int, reason: str) -> str:
        """The reason of a run: in full if it was not shown before, else where it was."""
        text, mark, point = reason.rpartition(_POINT)
        text = text if mark else reason
        if text not in self._shown:
            self._shown[text] = index
            return reason
        first = self._shown[text]
        where = "above" if first == index else f"as run {first}"
        return f"{in_few_words(text)}{mark}{point if mark else ''} ({where})"

    def listing(self, failures: Mapping[int, str]) -> str:
        """A line for each failed run."""
        shown = dict(sorted(failures.items())[:_LISTED])
        lines = [f"run {index}: {self.line(index, reason)}" for index, reason in shown.items()]
        if len(failures) > len(shown):
            lines.append(f"and {len(failures) - len(shown)} more")
        return "".join(f"\n  {line}" for line in lines)
