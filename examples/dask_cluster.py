"""Runs on a Dask cluster: `python -m examples.dask_cluster [address of a scheduler]`.

Without an address a small cluster of separate processes is started on this machine. Needs
`pip install vbstack[dask]`.
"""

from __future__ import annotations

import sys
from typing import Any

from examples.fit_from_log_density import main
from vbstack import StackedPosterior


def run(address: str | None = None, n_runs: int = 2, **settings: Any) -> StackedPosterior:
    import distributed

    if address:
        return main(n_runs, executor=address, **settings)
    make: Any = distributed.LocalCluster
    client: Any = distributed.Client
    with (
        make(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        client(cluster) as connected,
    ):
        return main(n_runs, executor=connected, **settings)


if __name__ == "__main__":
    run(sys.argv[1] if len(sys.argv) > 1 else None)
