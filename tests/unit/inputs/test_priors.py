"""Priors: what is accepted, what it does to the bounds, and what is refused at construction."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from vbstack import Problem
from vbstack.inputs.priors import IndependentPrior


def likelihood(x):
    return -0.5 * float(np.sum(np.square(x)))


def value_of(problem, x):
    return problem.evaluate(np.asarray(x, dtype=float), np.random.default_rng(0))[0]


BOX: dict[str, Any] = {"plausible_lower_bounds": [0.1, 0.1], "plausible_upper_bounds": [0.9, 0.9]}
X = np.array([0.3, 0.4])


class Pints:
    """A log prior as PINTS has them."""

    def __init__(self, n=2):
        self.n = n

    def n_parameters(self):
        return self.n

    def __call__(self, x):
        return float(stats.norm.logpdf(x).sum())


class WithLogPdf:
    """A joint prior as pyvbmc has them."""

    D = 2

    def log_pdf(self, x):
        return np.array([[stats.norm.logpdf(x).sum()]])


class Triangle(stats.rv_continuous):  # type: ignore[misc]
    """A density of its own, 2 (1 − x) between 0 and 1, without a distribution function."""

    def _pdf(self, x):
        return 2 * (1 - x)


NORMALS = stats.norm(0, 1).logpdf(X).sum()


@pytest.mark.parametrize(
    ("prior", "names", "log_prior", "support"),
    [
        ([stats.norm(0, 1), stats.expon()], (), stats.norm.logpdf(0.3) - 0.4, [None, 0]),
        (
            {"rate": stats.gamma(2), "p": stats.beta(2, 3)},
            ("rate", "p"),
            stats.gamma(2).logpdf(0.3) + stats.beta(2, 3).logpdf(0.4),
            [0, 0],
        ),
        (stats.norm(0, 1), ("a", "b"), NORMALS, [None, None]),
        (stats.norm, ("a", "b"), NORMALS, [None, None]),
        ([Triangle(a=0, b=1)()] * 2, (), np.log(1.4) + np.log(1.2), [0, 0]),
        ([stats.Normal(mu=0, sigma=1), stats.Uniform(a=-1, b=1)], (),
         stats.norm.logpdf(0.3) - np.log(2), [None, -1]),
        (stats.multivariate_normal([0, 0], np.eye(2)), (), NORMALS, [None, None]),
        (stats.multivariate_t([0, 0], np.eye(2), df=4), (), None, [None, None]),
        (Pints(), (), NORMALS, [None, None]),
        (WithLogPdf(), (), NORMALS, [None, None]),
        (lambda x: -float(np.sum(x)), (), -0.7, [None, None]),
        (lambda x: -np.inf if x[0] > x[1] else 0.0, (), 0.0, [None, None]),
    ],
)  # fmt: skip
def test_ten_kinds_of_priors(prior, names, log_prior, support):
    known = isinstance(prior, (list, dict)) or hasattr(prior, "pdf")
    problem = Problem(likelihood, prior=prior, names=names, **({} if known else BOX))
    assert problem.dimension == 2
    if names:
        assert problem.names == names
    if log_prior is None:
        log_prior = prior.logpdf(X)
    assert value_of(problem, X) == pytest.approx(likelihood(X) + log_prior)
    lower = [-np.inf if end is None else end for end in support]
    assert problem.lower_bounds.tolist() == lower


def test_plausible_bounds_are_central_quantiles_where_none_are_given():
    laws = [stats.lognorm(1.0, scale=3.0), stats.norm(5, 2)]
    problem = Problem(
        likelihood, prior=laws, plausible_lower_bounds=[None, 4], plausible_upper_bounds=[8, None]
    )
    assert problem.plausible_lower_bounds == pytest.approx([laws[0].ppf(0.05), 4.0])
    assert problem.plausible_upper_bounds == pytest.approx([8.0, laws[1].ppf(0.95)])
    joint = Problem(likelihood, prior=stats.multivariate_normal([1, 2], np.diag([4.0, 9.0])))
    far = stats.norm.ppf(0.95)
    assert joint.plausible_upper_bounds == pytest.approx([1 + 2 * far, 2 + 3 * far])
    heavy = Problem(likelihood, prior=stats.multivariate_t([1, 2], np.diag([4.0, 9.0]), df=3))
    assert heavy.plausible_upper_bounds[0] == pytest.approx(1 + 2 * stats.t(3).ppf(0.95))


def test_supports_become_hard_bounds_within_those_given():
    prior = {"a": stats.uniform(0, 4), "b": stats.expon()}
    given = Problem(likelihood, prior=prior, lower_bounds=[-1, None], upper_bounds=[None, 50.0])
    assert given.lower_bounds.tolist() == [0.0, 0.0]
    assert given.upper_bounds.tolist() == [4.0, 50.0]


def test_names_choose_from_a_dict_in_their_order():
    prior = {"a": stats.norm(0, 1), "b": stats.norm(9, 1)}
    problem = Problem(likelihood, prior=prior, names=("b", "a"))
    assert problem.names == ("b", "a")
    assert problem.plausible_lower_bounds[0] > 5

    with pytest.raises(ValueError, match=r"the names \['a', 'b'\], but none for \['c'\]"):
        Problem(likelihood, prior=prior, names=("a", "c"))


def test_a_problem_that_is_made_again_keeps_its_prior():
    problem = Problem(likelihood, prior={"a": stats.norm(0, 1), "b": stats.expon()})
    again = replace(problem, log_density=lambda x: 0.0)
    assert isinstance(again.prior, IndependentPrior)
    assert again.description() == problem.description()
    assert value_of(again, X) == pytest.approx(stats.norm.logpdf(0.3) - 0.4)


class Half(stats.rv_continuous):  # type: ignore[misc]
    """Not normalised: it integrates to one half, and has no quantiles."""

    def _pdf(self, x):
        return 0.5 * np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)


class Inconsistent(stats.rv_continuous):  # type: ignore[misc]
    """Its density is twice what its distribution function says."""

    def _pdf(self, x):
        return np.where((x > 0) & (x < 1), 2.0, 0.0)

    def _cdf(self, x):
        return np.clip(x, 0, 1)

    def _ppf(self, q):
        return q


class Duck:
    """Not of SciPy, with a density that does not fit its quantiles."""

    def logpdf(self, x):
        return stats.norm(0, 1).logpdf(x) + 1.0

    def __getattr__(self, name):
        return getattr(stats.norm(0, 1), name)


def broken(x):
    raise ZeroDivisionError("no data")


NORMAL = stats.norm(0, 1)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ([NORMAL], "the prior is for 1 parameters, the problem has 2"),
        ([NORMAL] * 3, "the prior is for 3 parameters, the problem has 2"),
        ([NORMAL, stats.gamma], r"prior of 'x2' is the family 'gamma' .* gamma\(a, loc=…"),
        ([NORMAL, type(stats.norm)], "prior of 'x2' is the class norm_gen"),
        ([NORMAL, stats.poisson(3)], "prior of 'x2' is a discrete distribution"),
        (stats.poisson(3), "the prior is a discrete distribution"),
        ([NORMAL, 1.0], "prior of 'x2' is 1.0, not a frozen univariate distribution"),
        ([NORMAL, stats.norm([0, 1], 1)], "prior of 'x2' has arrays as parameters"),
        ([NORMAL, stats.norm(0, -1)], r"prior of 'x2' has the support \[nan, nan\]"),
        ([NORMAL, Half()()], "prior of 'x2' is not a normalised density: it integrates to 0.5"),
        ([NORMAL, Inconsistent(a=0, b=1)()], "prior of 'x2' is not a normalised density"),
        ([NORMAL, Duck()], r"'x2' is not a normalised density: it integrates to 2.45 between"),
        ([NORMAL, stats.vonmises(2.0)], "'x2' is not a normalised density: beyond .* periodic"),
        ("normal", "the prior is 'normal', expected univariate distributions"),
        (Pints, "the prior is the class Pints"),
        (Pints(3), "the prior is for 3 parameters, the problem has 2"),
        (stats.multivariate_normal([0, 0, 0]), "the prior is for 3 parameters"),
        (stats.matrix_normal(np.zeros((2, 2))), "log_prior raised ValueError"),
        (broken, "log_prior raised ZeroDivisionError: no data, at the plausible point"),
        (lambda x: stats.norm.logpdf(x), "log_prior raised .* returns one number"),
        (lambda x: np.nan, "log_prior returned nan at the plausible point"),
        (lambda x: np.inf, "log_prior returned inf at the plausible point"),
        (lambda x: -np.inf, "the log prior is −inf at 200 plausible points"),
        (lambda x: "high", "log_prior raised TypeError"),
    ],
)
def test_wrong_priors_are_refused_at_construction(prior, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Problem(likelihood, prior=prior, dimension=2, **BOX)


def test_bounds_that_cut_a_prior_off_are_refused():
    with pytest.raises(ValueError, match=r"\[0, inf\] of 'a' hold 0.5 of its prior.*truncnorm"):
        Problem(likelihood, prior={"a": NORMAL}, lower_bounds=0)
    with pytest.raises(ValueError, match=r"\[2, 3\] of 'a' hold 0 of its prior.* is \[0, 1\]"):
        Problem(likelihood, prior={"a": stats.uniform()}, lower_bounds=2, upper_bounds=3)
    Problem(likelihood, prior={"a": NORMAL}, lower_bounds=-5, upper_bounds=5)  # 6e-7 of it


def test_a_prior_is_not_asked_where_the_constraint_is_false():
    def prior(x):
        assert x[0] < x[1]
        return 0.0

    Problem(likelihood, prior=prior, constraint=lambda x: bool(x[0] < x[1]), **BOX)
    with pytest.raises(ValueError, match="log_prior raised AssertionError"):
        Problem(likelihood, prior=prior, **BOX)


def test_two_priors_are_one_too_many():
    with pytest.raises(ValueError, match="give log_prior or prior"):
        Problem(likelihood, prior=NORMAL, log_prior=NORMAL)


@pytest.mark.parametrize(
    "law",
    [
        stats.beta(0.1, 0.1),
        stats.gamma(0.05),
        stats.cauchy(1e6, 1e-3),
        stats.pareto(0.5),
        stats.t(1.5, scale=1e-8),
        stats.truncnorm(-0.1, 50, loc=3, scale=2),
        stats.lognorm(4.0),
        stats.vonmises_line(2.0),
        stats.halfcauchy(scale=25),
        stats.gamma(1000.0),
        stats.weibull_max(1.5),
        stats.rv_histogram(np.histogram(np.random.default_rng(0).normal(size=2000), 40)),
    ],
)
def test_steep_and_heavy_laws_pass(law):
    """Whatever SciPy normalises is not refused."""
    law = law.freeze() if hasattr(law, "freeze") else law
    median = float(law.ppf(0.5))
    box: dict[str, Any] = {
        "plausible_lower_bounds": law.ppf(0.3),
        "plausible_upper_bounds": law.ppf(0.7),
    }
    problem = Problem(likelihood, prior=[law], **box)
    assert value_of(problem, [median]) == pytest.approx(likelihood(median) + law.logpdf(median))
