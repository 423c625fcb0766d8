"""`Evaluations`: many evaluations of the log density as arrays, in any space.

A missing standard deviation is None everywhere: the log density is then exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbstack.arrays import Array
from vbstack.checks import checked
from vbstack.problem import Evaluation
from vbstack.runs.transform import Link, Transform


@dataclass(frozen=True)
class Evaluations:
    """Evaluations of the log density, in order.

    Parameters
    ----------
    x : (n, D)
        Points.
    values : (n,)
        Log density (plus log prior) there.
    sds : (n,) or None
        Standard deviation of each value, when the log density is noisy.
    seconds : (n,) or None
        What each took, where it is known.
    failed : (n,) or None
        Which ones failed, so that their value is a substitute, where it is known.
    rejected : (n,) or None
        Which ones were not made, because the problem's constraint is false there; None if all were.
    """

    x: Array
    values: Array
    sds: Array | None = None
    seconds: Array | None = None
    failed: NDArray[np.bool_] | None = None
    rejected: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        n = np.shape(self.x)[0]
        object.__setattr__(self, "x", checked("evaluations", "x", self.x, np.shape(self.x)))
        object.__setattr__(
            self, "values", checked("evaluations", "values", self.values, (n,), finite=False)
        )
        for name in ("sds", "seconds"):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, checked("evaluations", name, given, (n,)))
        for name in ("failed", "rejected"):
            if getattr(self, name) is not None:
                which = checked("evaluations", name, getattr(self, name), (n,)) != 0
                which.flags.writeable = False
                object.__setattr__(self, name, which)

    @classmethod
    def of(cls, evaluations: Sequence[Evaluation], noisy: bool) -> Evaluations:
        """The arrays of these evaluations."""
        return cls(
            x=np.array([one.x for one in evaluations]),
            values=np.array([one.value for one in evaluations]),
            sds=np.array([one.sd for one in evaluations], dtype=float) if noisy else None,
            seconds=np.array([one.seconds for one in evaluations]),
            failed=np.array([bool(one.failure) for one in evaluations]),
        )

    @property
    def outside(self) -> NDArray[np.bool_]:
        """Which points are outside the support: their value is −inf."""
        return np.isneginf(self.values)

    @property
    def size(self) -> int:
        return int(self.values.size)

    @property
    def paid(self) -> int:
        """How many calls of the log density these are: rejected points are none."""
        return self.size if self.rejected is None else self.size - int(self.rejected.sum())

    def seen_from(self, space: Link | Transform) -> Evaluations:
        """The evaluations in another space: its points, and values with its log-Jacobian.

        Points on a hard bound have no place there and are left out, as are values that are not
        finite.
        """
        usable = space.inside(self.x) & np.isfinite(self.values)
        u = space.forward(self.x[usable])

        def kept(column: Any) -> Any:
            return None if column is None else column[usable]

        return Evaluations(
            x=u,
            values=self.values[usable] + space.log_jacobian(u),
            sds=kept(self.sds),
            seconds=kept(self.seconds),
            failed=kept(self.failed),
            rejected=kept(self.rejected),
        )
