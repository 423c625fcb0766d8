"""What the words of a command line mean."""

import sys
from pathlib import Path

import numpy as np
import pytest

from vbstack.cli.arguments import (
    given_refine,
    given_starts,
    load_problem,
    model_names,
    number_or_auto,
    parsed_options,
    prior_weights,
    whole_number,
)

MODEL = """
from vbstack import Problem

def make():
    return problem

problem = Problem(
    log_density=lambda x: 0.0, plausible_lower_bounds=[0.0], plausible_upper_bounds=[1.0]
)
number = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "arguments_model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    sys.modules.pop("arguments_model", None)
    return tmp_path


@pytest.mark.parametrize(
    "name",
    ["arguments_model:problem", "arguments_model:make", "arguments_model.py:problem"],
)
def test_a_problem_is_found_in_a_module_or_a_file(folder, name):
    assert load_problem(name).names == ("x1",)


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [("model", ValueError, "should read module:attribute"),
     ("missing.py:problem", FileNotFoundError, "missing.py does not exist"),
     ("arguments_model:other", ValueError, "has no attribute 'other'"),
     ("arguments_model:number", TypeError, "is a int, not a vbstack.Problem")],
)  # fmt: skip
def test_what_is_no_problem_is_refused_by_name(folder, name, error, words):
    with pytest.raises(error, match=words):
        load_problem(name)


@pytest.mark.parametrize(
    ("text", "words"),
    [("1 / 0", "raised ZeroDivisionError"), ("def (", "raised SyntaxError"),
     ("raise SystemExit(0)", "raised SystemExit"),
     ("def problem(): return {}[0]", "raised KeyError")],
)  # fmt: skip
def test_what_the_code_of_a_problem_raises_is_said(folder, text, words):
    (folder / "arguments_model.py").write_text(text)
    with pytest.raises(ValueError, match=f"arguments_model.py {words}"):
        load_problem("arguments_model.py:problem")


def test_a_file_with_the_name_of_a_module_is_not_taken_for_it(folder):
    (folder / "json.py").write_text(MODEL)
    with pytest.raises(ValueError, match=r"json.py has the name of the module 'json'.*rename it"):
        load_problem("json.py:problem")


def test_a_file_is_not_taken_for_one_of_the_same_name_that_was_loaded_before(folder):
    load_problem("arguments_model.py:problem")
    (folder / "other").mkdir()
    (folder / "other" / "arguments_model.py").write_text(MODEL.replace("problem =", "second ="))
    assert load_problem("other/arguments_model.py:second").names == ("x1",)


def test_starts_are_a_word_or_a_file_of_points(tmp_path):
    assert given_starts(None) is None
    assert given_starts("sobol") == "sobol"
    path = tmp_path / "starts.txt"
    path.write_text("0.5 1\n-2 3e-1\n")
    np.testing.assert_array_equal(given_starts(str(path)), [[0.5, 1.0], [-2.0, 0.3]])
    with pytest.raises(ValueError, match="'grid' should be one of .* or a file"):
        given_starts("grid")


def test_options_are_json_where_they_are_json():
    given = parsed_options(["a=1", "b=[1, 2]", "c=text", "d=true"])
    assert given == {"a": 1, "b": [1, 2], "c": "text", "d": True}
    with pytest.raises(ValueError, match="should read name=value"):
        parsed_options(["a"])


def test_numbers_and_names():
    assert whole_number("--runs", "12") == 12
    with pytest.raises(ValueError, match="'many' should be a number or auto"):
        whole_number("--runs", "many")
    given = [number_or_auto("--caution", text) for text in ("1.5", "auto")]
    assert given == [1.5, "auto"]
    with pytest.raises(ValueError, match="--caution 'much' should be a number or auto"):
        number_or_auto("--caution", "much")
    assert prior_weights("2,1", ["a", "b"]) == [2.0, 1.0]
    for wrong in ("2", "a,b"):
        with pytest.raises(ValueError, match="should be 2 numbers"):
            prior_weights(wrong, ["a", "b"])
    assert model_names([Path("x/a"), Path("x/b")]) == ["a", "b"]
    assert model_names([Path("x/a"), Path("y/a")]) == ["x/a", "y/a"]


def test_refine_is_auto_on_or_off():
    assert [given_refine(word) for word in ("auto", "on", "off")] == ["auto", True, False]
    with pytest.raises(ValueError, match="--refine 'yes' should be one of auto, on, off"):
        given_refine("yes")
