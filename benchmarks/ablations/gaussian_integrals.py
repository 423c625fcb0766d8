"""Integrals of the kernel in two shapes: `python -m benchmarks gaussian-integrals`.

Both compute z = E_k[k(x, ·)] and the pairs κ for the same diagonal Gaussians: the shape for full
covariances that pooling uses, and the diagonal one of the engine. Milliseconds, medians of
repetitions; `results/gaussian_integrals.md`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.folders import RESULTS
from benchmarks.machine import machine
from benchmarks.options import options_of
from vbstack.gaussian_process.hyperparameters import Hyperparameters
from vbstack.gaussian_process.integrals import (
    diagonal_kernel_means,
    diagonal_kernel_pairs,
    kernel_means,
    kernel_pairs,
)
from vbstack.gaussian_process.prior import Prior

DIMENSIONS, COMPONENTS, POINTS = (2, 6, 10), 50, 150
REPETITIONS = 200


def milliseconds(work: Callable[[], object]) -> float:
    """Median wall time of `work`, after a first time that does not count."""
    work()
    taken = []
    for _ in range(REPETITIONS):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return 1e3 * float(np.median(taken))


def row(d: int) -> str:
    """Times of both shapes, which agree to rounding, in d dimensions."""
    rng = np.random.default_rng(d)
    h = Hyperparameters(0.3 * rng.normal(size=d), 0.5, 1.0, np.zeros(d), np.zeros(d))
    prior, points = Prior.of(h), rng.normal(size=(POINTS, d))
    means, sds = rng.normal(size=(COMPONENTS, d)), rng.uniform(0.2, 1.0, (COMPONENTS, d))
    factors = sds[:, :, None] * np.eye(d)
    np.testing.assert_allclose(
        kernel_means(prior, means, factors, points).T,
        diagonal_kernel_means(h, means, sds, points)[0],
        rtol=1e-9,
    )
    times = [
        milliseconds(lambda: kernel_means(prior, means, factors, points)),
        milliseconds(lambda: diagonal_kernel_means(h, means, sds, points)),
        milliseconds(lambda: kernel_pairs(prior, means, factors)),
        milliseconds(lambda: diagonal_kernel_pairs(h, means, sds)),
    ]
    ratios = times[0] / times[1], times[2] / times[3]
    cells = [f"{t:.3f}" for t in times]
    return (
        f"| {d} | {cells[0]} | {cells[1]} | {ratios[0]:.1f} | {cells[2]} | {cells[3]} "
        f"| {ratios[1]:.1f} |"
    )


def main(argv: list[str]) -> None:
    options_of("gaussian-integrals", __doc__).parse_args(argv)
    with threadpool_limits(1):
        rows = [row(d) for d in DIMENSIONS]
    lines = [
        "# Integrals of the kernel in two shapes",
        "",
        f"`python -m benchmarks gaussian-integrals` on {machine()}: {COMPONENTS} components, "
        f"{POINTS} points; milliseconds, medians of {REPETITIONS}.",
        "",
        "| D | z, full | z, diagonal | ratio | pairs, full | pairs, diagonal | ratio |",
        "|---|---|---|---|---|---|---|",
        *rows,
        "",
    ]
    (RESULTS / "gaussian_integrals.md").write_text("\n".join(lines))
    print("\n".join(lines))
