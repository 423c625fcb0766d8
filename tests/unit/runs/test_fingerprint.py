"""Fingerprints: the same in every process, and each change is named."""

import functools
import subprocess
import sys
import textwrap
import threading
import types
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from vbstack import Plan, Problem
from vbstack.runs.canonical import Canon
from vbstack.runs.fingerprint import Fingerprint

SCALE, TABLE = 2.0, {"a": (1, 2), "b": [3.0]}


def helper(x):
    return x / SCALE


def density(x, shift=0.5, *, power=2):
    return -float(helper(x[0]) ** power) + shift + len(TABLE)


class Model:
    unit = 3.0

    def __init__(self, data):
        self.data, self.calls, self.lock = np.asarray(data), 0, threading.Lock()

    def __call__(self, x):
        self.calls += 1
        return self.log_density(x)

    def log_density(self, x):
        return float(np.sum(self.data - x[0])) * self.unit


def of(log_density, **settings):
    return Fingerprint.of(
        Problem(
            log_density=log_density,
            plausible_lower_bounds=[-1],
            plausible_upper_bounds=[1],
            **settings,
        )
    )


def test_it_names_what_a_function_is_made_of():
    assert list(of(density).parts) == [
        "function 'helper': code",
        "global 'SCALE'",
        "global 'TABLE'",
        "log_density: code",
        "log_density: default of 'power'",
        "log_density: default of 'shift'",
        "log_prior",
    ]


def compiled(text, name="f"):
    space = {"__name__": "__main__", "np": np, "functools": functools}
    exec(textwrap.dedent(text), space)
    return space[name]


FIRST = """
LIMITS = {1, 2, 5}
def f(x):
    return 1.0 if x in LIMITS else sum(g(i) for i in x)
def g(x):
    return x + 1
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("def f(x):", "def f(x):\n    'A docstring.'  # and a comment\n", []),
        ("LIMITS = {1, 2, 5}", "LIMITS = {5, 2, 1}", []),
        ("{1, 2, 5}", "{1, 2, 6}", ["global 'LIMITS'"]),
        ("x + 1", "x + 1.0", ["function 'g': code"]),
        ("g(i)", "-g(i)", ["log_density: code"]),
        ("1.0 if", "True if", ["log_density: code"]),
        ("sum(", "max(", ["log_density: code"]),
    ],
)
def test_what_differs_is_named(old, new, expected):
    changed = compiled(FIRST.replace(old, new))
    assert of(compiled(FIRST)).differences(of(changed)) == expected


def test_recursion_and_cycles_end():
    text = """
    def f(x): return g(x)
    def g(x): return f(x) if x else h
    h = []
    h.append(h)
    """
    first, second = compiled(text), compiled(text)
    assert of(first) == of(second)


def test_partials_methods_and_objects():
    model = Model([1.0, 2.0])
    partial = functools.partial(density, shift=1.0)
    assert of(partial).differences(of(functools.partial(density, shift=2.0))) == [
        "log_density: argument 'shift' of the partial"
    ]
    for callable_of in (lambda model: model, lambda model: model.log_density):
        found = of(callable_of(model)).differences(of(callable_of(Model([1.0, 3.0]))))
        assert found == ["log_density: attribute 'data'"]
    before = of(model)
    model([1.0])
    assert of(model) == before  # its own count of calls is no part of it


def test_caches_and_decorated_functions_are_what_is_in_them():
    text = "@functools.cache\ndef f(x):\n    return x + %s\n"
    one, two = compiled(text % 1), compiled(text % 2)
    before = of(one)
    one(1)
    assert of(one) == before
    assert before.differences(of(two)) == ["log_density: code"]


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        (stats.norm(0, 1), stats.norm(0, 1), stats.norm(0, 2)),
        (stats.norm(0, 1), stats.norm(0, 1), stats.cauchy(0, 1)),
        *(
            (make(1.0), make(1.0), make(2.0))
            for make in (
                lambda s: stats.multivariate_normal([0, 0], np.eye(2) * s),
                lambda s: stats.multivariate_t([0, 0], np.eye(2) * s, df=3),
                lambda s: stats.dirichlet([s, 1]),
            )
        ),
    ],
)
def test_frozen_distributions_are_their_name_and_parameters(one, same, other):
    before = Canon().digest(one)
    one.logpdf([0.4, 0.6] if hasattr(one, "alpha") or hasattr(one, "dim") else 0.3)  # fills caches
    assert Canon().digest(one) == before == Canon().digest(same)
    assert before != Canon().digest(other)


def family(slope):
    """A distribution of the user's own, whose code holds the slope."""
    text = f"""
    class Line(stats.rv_continuous):
        def _pdf(self, x):
            return 1 + {slope} * (x - 0.5)
    """
    space = {"stats": stats, "__name__": "__main__"}
    exec(textwrap.dedent(text), space)
    line: Any = space["Line"]
    return line(a=0, b=1)()


def histogram(seed):
    return stats.rv_histogram(np.histogram(np.random.default_rng(seed).normal(size=100), 9))()


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        (stats.norm(0, 1), stats.norm(0, 1), stats.norm(0, 2)),
        (stats.norm(0, 1), stats.norm(0, 1), stats.cauchy(0, 1)),
        (family(1.0), family(1.0), family(0.5)),
        (histogram(0), histogram(0), histogram(1)),
        (stats.Normal(mu=0), stats.Normal(mu=0), stats.Normal(mu=0.5)),
        (
            stats.make_distribution(stats.gamma)(a=2),
            stats.make_distribution(stats.gamma)(a=2),
            stats.make_distribution(stats.invgamma)(a=2),
        ),
        (
            stats.truncate(stats.Normal(mu=0), 0, 5),
            stats.truncate(stats.Normal(mu=0), 0, 5),
            stats.truncate(stats.Normal(mu=0), 0, 6),
        ),
    ],
)
def test_the_prior_of_each_parameter_is_a_part(one, same, other):
    def parts(law):
        prior = {"a": stats.norm(1, 2), "b": law}
        box: dict[str, Any] = {
            "plausible_lower_bounds": [-1, 0.3],
            "plausible_upper_bounds": [1, 0.6],
        }
        return Fingerprint.of(Problem(density, prior=prior, **box))

    assert parts(one) == parts(same)
    assert parts(one).differences(parts(other)) == ["prior of 'b'"]


def test_a_joint_prior_is_one_part():
    def parts(scale):
        prior = stats.multivariate_normal([0, 0], np.eye(2) * scale)
        return Fingerprint.of(Problem(density, prior=prior))

    assert parts(1.0) == parts(1.0)
    assert parts(1.0).differences(parts(2.0)) == ["log_prior"]


def test_fixed_values_are_parts_and_what_they_are_fixed_in_too():
    def three(scale=1.0, limit=5.0):
        return Problem(
            functools.partial(density, shift=scale),
            names=("a", "b", "c"),
            prior=stats.multivariate_normal(np.zeros(3), np.eye(3) * scale),
            constraint=lambda x: bool(x[0] < limit),
        )

    before = Fingerprint.of(three().fixed(b=2.0))
    assert before == Fingerprint.of(three().fixed(b=2.0))
    assert before.differences(Fingerprint.of(three().fixed(b=3.0))) == ["fixed 'b'"]
    assert "fixed 'b'" in before.differences(Fingerprint.of(three().fixed(c=2.0)))
    twice, once = three().fixed(b=2.0).fixed(c=1.0), three().fixed(c=1.0, b=2.0)
    assert Fingerprint.of(twice) == Fingerprint.of(once)
    changed = before.differences(Fingerprint.of(three(2.0).fixed(b=2.0)))
    assert "log_density: argument 'shift' of the partial" in changed
    assert any(part.startswith("log_prior") for part in changed)
    changed = before.differences(Fingerprint.of(three(limit=6.0).fixed(b=2.0)))
    assert changed == ["constraint: closure variable 'limit'"]


def test_a_prior_transform_is_a_function_like_any_other():
    def problem(width):
        return Problem.from_prior_transform(density, lambda u: width * u, 1)

    parts = Fingerprint.of(problem(2.0))
    assert "transform: code" in parts.parts
    assert parts.differences(Fingerprint.of(problem(3.0))) == [
        "transform: closure variable 'width'"
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, True),
        ("1", b"1"),
        ((1, 2), [1, 2]),
        (np.arange(3), np.arange(3.0)),
        (np.arange(4), np.arange(4).reshape(2, 2)),
        (0.0, -0.0),
        ({"a": 1}, {"a": 2}),
        (np.ma.masked_array([1, 2], [False, True]), np.ma.masked_array([1, 2], [False, False])),
        (np.array([1, "a"], object), np.array([1, "b"], object)),
        (np.float32(1), np.float64(1)),
        (range(3), range(4)),
        (np.sum, np.mean),
        (len, max),
        (np.exp, np.log),
    ],
)
def test_different_values_have_different_digests(one, other):
    assert Canon().digest(one) != Canon().digest(other)


def test_the_order_of_sets_and_dicts_and_of_memory_does_not_matter():
    digest = Canon().digest
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    array = np.arange(6).reshape(2, 3)
    assert digest(array) == digest(np.asfortranarray(array))


def test_what_cannot_be_read_counts_by_its_type(tmp_path):
    with (tmp_path / "a").open("w") as one, (tmp_path / "b").open("w") as two:
        assert Canon().digest(one) == Canon().digest(two)
    generators = np.random.default_rng(1), np.random.default_rng(2)
    assert Canon().digest(generators[0]) == Canon().digest(generators[1])

    class Hostile:
        def __reduce_ex__(self, protocol):
            raise SystemError("not me")

    assert of(density, args=(Hostile(),)).parts["args[0]"]


def test_it_is_the_same_in_other_processes_whatever_the_seed_of_hashes():
    text = """
    import json
    from tests.unit.runs.test_fingerprint import Model, compiled, density, of, FIRST
    for f in (density, Model([1.0]), compiled(FIRST)):
        print(json.dumps(dict(of(f, args=({"x", "y", "z"}, {1: {"p", "q"}})).parts)))
    """
    outputs = {
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(text)],
            env={**__import__("os").environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1


def test_bytecode_of_another_python_is_not_compared():
    now = of(density)
    old = Fingerprint({k: v.replace("python 3.", "python 2.") for k, v in now.parts.items()})
    assert old != now
    assert old.differences(now) == []
    assert "log_density: code" in old.incomparable(now)
    changed = replace(old, parts={**old.parts, "global 'SCALE'": "x"})
    assert changed.differences(now) == ["global 'SCALE'"]


def test_a_plan_keeps_it_and_does_without():
    problem = Problem(log_density=density, plausible_lower_bounds=[-1], plausible_upper_bounds=[1])
    plan = Plan(problem.description(), 1, "native", model=of(density))
    assert Plan.from_json(plan.as_json()).model == of(density)
    bare = replace(plan, model=None)
    assert "model" not in bare.as_json()
    assert Plan.from_json(bare.as_json()).model is None
    assert bare.differences(plan) == []


def test_modules_of_ones_own_count_by_the_names_that_are_used(monkeypatch):
    def module(text):
        made = types.ModuleType("my_own_helpers")
        exec(text, vars(made))
        monkeypatch.setitem(sys.modules, "my_own_helpers", made)
        return made

    def using(text):
        space = {"__name__": "__main__", "my": module(text)}
        exec("def f(x): return my.used(x) * my.FACTOR", space)
        return of(space["f"])

    first = using("FACTOR = 2\ndef used(x): return x\ndef unused(x): return 0")
    assert first == using("FACTOR = 2\ndef used(x): return x\ndef unused(x): return 1")
    assert first.differences(using("FACTOR = 3\ndef used(x): return x")) == ["global 'my.FACTOR'"]
    changed = first.differences(using("FACTOR = 2\ndef used(x): return -x"))
    assert changed == ["function 'my.used': code"]
