"""The rows of one target, engine and label: a JSON file that several processes may add to."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.coverage.fit_row import FitRow, Wave
from vbstack.runs.atomic import replacing


@dataclass(frozen=True)
class RowFile:
    """Where the rows are, and what all of them were made with.

    Parameters
    ----------
    target, engine, label : str
        Together the name of the file.
    made_with : mapping
        What makes rows comparable: runs of a fit, options, number of archived runs.
    folder : Path
        Where the files are.
    """

    target: str
    engine: str
    label: str
    made_with: Mapping[str, Any]
    folder: Path

    @classmethod
    def read(cls, path: Path) -> tuple[RowFile, list[FitRow]]:
        """A file with its rows, in order of their seeds."""
        content = json.loads(path.read_text(encoding="utf-8"))
        keys = ("target", "engine", "label", "made_with")
        named: dict[str, Any] = {key: content[key] for key in keys}
        return cls(**named, folder=path.parent), _rows(content)

    @property
    def path(self) -> Path:
        return self.folder / f"{self.target}-{self.engine}-{self.label}.json"

    def rows(self) -> list[FitRow]:
        """The rows so far; those of another archive are none, other differences are an error."""
        if not self.path.exists():
            return []
        content = json.loads(self.path.read_text(encoding="utf-8"))
        found, asked = content["made_with"], dict(self.made_with)
        if found.get("archived") != asked.get("archived"):
            return []
        if found != asked:
            raise SystemExit(
                f"{self.path} has rows made with {found}, not with {asked}: give another --label"
            )
        return _rows(content)

    def add(self, row: FitRow) -> None:
        """Write the file with one more row, in place of one with its seed."""
        with self._locked():
            rows = sorted(
                [row, *(old for old in self.rows() if old.seed != row.seed)],
                key=lambda one: one.seed,
            )
            head = {
                "target": self.target,
                "engine": self.engine,
                "label": self.label,
                "made_with": dict(self.made_with),
            }
            lines = ",\n".join(json.dumps(asdict(one)) for one in rows)
            text = f'{json.dumps(head)[:-1]}, "rows": [\n{lines}\n]}}\n'
            with replacing(self.path, overwrite=True, durable=False) as temporary:
                temporary.write(text.encode())

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / ".lock", "w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield


def _rows(content: Mapping[str, Any]) -> list[FitRow]:
    return [
        FitRow(**{**row, "waves": tuple(Wave(**wave) for wave in row.get("waves", ()))})
        for row in content["rows"]
    ]
