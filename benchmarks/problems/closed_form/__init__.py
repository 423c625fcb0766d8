"""Closed-form log densities of many shapes, on which the engines are raced.

All are normalised, so their log evidence is 0, and all can be sampled exactly.

`elliptical`
    gaussian(D)     correlation 0.8^|i−j|, standard deviations from 0.3 to 3
    student_t(D)    ν = 4, correlation 0.6
    contaminated()  five dimensions, a Gaussian and one fifth of another 2.5 times as wide
    hyperbolic()    six dimensions, correlated, tails that fall like exp(−r): symmetric normal
                    inverse Gaussian (Barndorff-Nielsen 1997)

`several_modes`
    two_modes()     five dimensions, Gaussians of sd 0.5 and 1 with weights 0.3 and 0.7, 5.6 apart
    unequal()       four dimensions, three Gaussians with weights 0.6, 0.3 and 0.1
    cross()         three dimensions, two Gaussians with correlations 0.95 and −0.95, equal means

`curved`
    rosenbrock(D)   pairs x1 ~ N(0, 1), x2 | x1 ~ N(x1², 0.4²) (Pagani, Wiegand & Nadarajah 2022)
    banana(D)       x1 ~ N(0, 1), x2 | x1 ~ N(x1² − 1, ½²), times a correlated Gaussian
    wave()          x1 ~ N(0, 1.5²), x2 | x1 ~ N(sin 2 x1, 0.3²)
    vee()           x1 ~ N(0, 1.5²), x2 | x1 ~ N(|x1|, 0.4²)
    crescent()      radius ~ N(3, 0.3²), angle ~ N(0, 0.7²)
    bent()          seven correlated Gaussians, and ½ x1² added to the second

`skewed_or_flat`
    skewed()        logarithms of four Gamma variables with shapes 0.7, 1, 2 and 5
    skew_normal()   six dimensions, correlated and skewed (Azzalini & Dalla Valle 1996)
    funnel()        v ~ N(0, 1), x2 and x3 | v ~ N(0, exp(v)) (after Neal 2003)
    plateau()       log p = −(r/4)⁸ in two dimensions: flat, then a wall

`bounded`
    at_a_bound()    Beta(1, 4), Beta(5, 1) and Beta(2, 2) on [0, 1]: most mass at a hard bound
    lognormal()     three parameters in (0, 30), logarithms ~ N(0.5, 0.6²) with correlation 0.7
    split()         on [0, 1], x1 ~ ½ Beta(2, 12) + ½ Beta(12, 3), x2 ~ Beta(1, 3), x3 ~ Beta(4, 4)
    copula()        five correlated parameters within bounds, with mass at two of them

`skew_normal` and `copula` were held out: no run of the native engine was changed with their help.
`CLOSED_FORM` names those with a true posterior, which a banana does not have here.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.problems.benchmark_problem import BenchmarkProblem
from benchmarks.problems.closed_form.bounded import at_a_bound, copula, lognormal, split
from benchmarks.problems.closed_form.curved import bent, crescent, rosenbrock, vee, wave
from benchmarks.problems.closed_form.elliptical import contaminated, gaussian, hyperbolic, student_t
from benchmarks.problems.closed_form.several_modes import cross, two_modes, unequal
from benchmarks.problems.closed_form.skewed_or_flat import funnel, plateau, skew_normal, skewed

CLOSED_FORM: dict[str, Callable[[], BenchmarkProblem]] = {
    "gaussian2": lambda: gaussian(2),
    "gaussian5": lambda: gaussian(5),
    "gaussian10": lambda: gaussian(10),
    "rosenbrock2": lambda: rosenbrock(2),
    "rosenbrock4": lambda: rosenbrock(4),
    "rosenbrock6": lambda: rosenbrock(6),
    "at_a_bound": at_a_bound,
    "student_t": student_t,
    "student_t5": lambda: student_t(5),
    "funnel": funnel,
    "two_modes": two_modes,
    "plateau": plateau,
    "skewed": skewed,
    "wave": wave,
    "cross": cross,
    "vee": vee,
    "unequal": unequal,
    "crescent": crescent,
    "lognormal": lognormal,
    "split": split,
    "contaminated": contaminated,
    "hyperbolic": hyperbolic,
    "bent": bent,
    "skew_normal": skew_normal,
    "copula": copula,
}
