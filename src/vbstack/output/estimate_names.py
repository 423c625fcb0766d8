"""What the estimates of the log evidence are called where people read them."""

from __future__ import annotations

from vbstack.modes import Estimate

ESTIMATE_NAMES: dict[Estimate, str] = {
    "verified": "verified",
    "raw": "raw",
    "capped_components": "capped by components",
    "capped_runs": "capped by runs",
    "pooled_elbo": "pooled, ELBO",
    "pooled": "pooled, log evidence",
    "naive": "naive stacking",
}
