"""Runs on a Dask cluster: `python -m examples.dask_cluster [address of a scheduler]`.

Without an address a small cluster of separate processes is started on this machine. Needs
`pip install vbstack[dask]`.
"""

from __future__ import annotations

import sys
from typing import Any

from examples.fit_from_log_density import main


def run(address: str | None = None, n_runs: int = 2, **settings: Any) -> None:
    import distributed

    if address:
        main(n_runs, executor=address, **settings)
        return
    make: Any = distributed.LocalCluster
    client: Any = distributed.Client
    with (
        make(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        client(cluster) as connected,
    ):
        main(n_runs, executor=connected, **settings)


if __name__ == "__main__":
    run(sys.argv[1] if len(sys.argv) > 1 else None)
