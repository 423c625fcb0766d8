"""Comparing models whose log evidence is known exactly."""

import json
from typing import Any

import numpy as np
import pytest

from tests.synthetic import gaussian_posterior, random_run
from vbstack import RunStore, compare, stack
from vbstack.analysis.model_comparison import verbal
from vbstack.runs.files import save_runs
from vbstack.stacking.evidence import OPTIMISM


@pytest.fixture(scope="module")
def models():
    return {"poor": gaussian_posterior(-7.0), "good": gaussian_posterior(-3.0, dimension=2)}


def test_differences_probabilities_and_words(models):
    result = compare(models)
    best, other = result.models
    assert (best.name, other.name) == ("good", "poor")
    assert other.difference == pytest.approx(-4, abs=4 * other.difference_error)
    assert other.difference_error == pytest.approx(np.hypot(best.sd, other.sd))
    assert best.probability == pytest.approx(1 / (1 + np.exp(-4)), abs=1e-3)
    assert best.probability + other.probability == pytest.approx(1)
    assert other.bayes_factor == pytest.approx(np.exp(4), rel=1e-2)
    assert other.verbal == "strong"
    assert best.verbal == ""
    assert result.warnings == ()
    assert result.log_bayes_factor("poor", "good")[0] == other.difference
    with pytest.raises(KeyError, match="no model is called 'bad'"):
        result.log_bayes_factor("good", "bad")


def test_probability_interval_is_that_of_a_gaussian_log_odds():
    """Two models: the odds' logarithm is Gaussian, so its quantiles are known."""
    runs = {"a": gaussian_posterior(0.0, variance=0.5), "b": gaussian_posterior(-1.0, variance=0.5)}
    result = compare(runs, level=0.8)
    a, b = result.models
    error = np.hypot(a.sd, b.sd)
    assert a.sd > 0.3
    for quantile, found in ((-1.2816, a.probability_low), (1.2816, a.probability_high)):
        assert found == pytest.approx(1 / (1 + np.exp(b.difference - quantile * error)), abs=3e-3)


def test_prior_weights_change_the_probabilities_only(models):
    even, odd = compare(models), compare(models, prior={"good": 1, "poor": np.exp(4)})
    assert odd.models[0].probability == pytest.approx(0.5, abs=2e-3)
    assert [m.difference for m in odd.models] == [m.difference for m in even.models]
    excluded = compare(models, prior={"good": 0, "poor": 2})
    assert [m.probability for m in excluded.models] == [0, 1]
    for bad, message in (
        ({"good": 1}, "the models are"),
        ({"good": -1, "poor": 2}, "zero or more"),
        ({"good": 0, "poor": 0}, "not all zero"),
    ):
        with pytest.raises(ValueError, match=message):
            compare(models, prior=bad)


@pytest.mark.parametrize(
    ("value", "word"),
    [(0.5, "not worth more than a bare mention"), (2, "positive"), (4, "strong"),
     (9, "very strong")],
)  # fmt: skip
def test_words_follow_kass_and_raftery(value, word):
    assert verbal(value) == word


def test_a_close_call_is_said():
    (text,) = compare({"a": gaussian_posterior(0.0), "b": gaussian_posterior(-0.02)}).warnings
    assert "a and b differ by 0.020" in text
    assert "not settled" in text


def test_what_a_cap_took_off_is_an_error_of_the_difference():
    """The raw and the capped estimate of the noisy model differ by more than the models do."""
    rng = np.random.default_rng(5)
    noisy = stack([random_run(rng, 2, noise_level=2) for _ in range(4)])
    cut = noisy.evidence.raw - noisy.evidence.log_evidence
    assert cut > 0.2
    near = gaussian_posterior(noisy.evidence.log_evidence - 0.1)
    result = compare({"noisy": noisy, "exact": near})
    assert result.models[0].sd >= cut + noisy.evidence.gap
    assert result.models[1].sd >= OPTIMISM
    assert any("not settled" in text for text in result.warnings)


def test_a_single_run_is_said(models):
    result = compare({**models, "lone": gaussian_posterior(-30.0, runs=1)})
    assert any("lone rests on a single run" in text for text in result.warnings)


def test_stores_and_files_are_models_too(models, tmp_path):
    saved = models["good"].save(tmp_path / "good.npz")
    directory = tmp_path / "poor"
    directory.mkdir()
    (directory / "store.json").write_text('{"format": "vbstack store"}')
    for index, run in enumerate(models["poor"].runs):
        save_runs(directory / f"run-{index:05d}.npz", [run])
    first = compare({"good": saved, "poor": RunStore(directory)})
    assert first.models == compare(models).models
    models["poor"].save(directory / "posterior.npz")
    assert compare({"good": str(saved), "poor": directory}).warnings == ()
    save_runs(directory / "run-00002.npz", [models["poor"].runs[0]])
    (text,) = compare({"good": saved, "poor": directory}).warnings
    assert "was made of other runs than the 3 that the store holds now" in text


def test_mistakes_are_named(models, tmp_path):
    with pytest.raises(ValueError, match="two or more"):
        compare({"good": models["good"]})
    wrong: Any = {"good": models["good"], "poor": 3}
    with pytest.raises(TypeError, match="model 'poor' is a int"):
        compare(wrong)
    with pytest.raises(ValueError, match="level=2"):
        compare(models, level=2)
    with pytest.raises(ValueError, match="cannot be read"):
        compare({"good": models["good"], "poor": tmp_path})


def test_table_json_and_figure(models):
    result = compare({**models, "$x^2$ <b>": gaussian_posterior(-800.0)})
    table = result.table()
    assert str(result) == table
    for text in ("good", "poor", "$x^2$ <b>", "very strong", "Kass & Raftery"):
        assert text in table
    found = json.loads(result.to_json(), parse_constant=lambda name: pytest.fail(name))
    assert [model["name"] for model in found["models"]] == [m.name for m in result.models]
    fig = result.figure()
    fig.canvas.draw()
    left, right = fig.axes
    assert [label.get_text() for label in left.get_yticklabels()] == ["$x^2$ <b>", "poor", "good"]
    assert left.get_yticklabels()[0].get_parse_math() is False
    assert right.patches[-1].get_width() == result.models[0].probability
