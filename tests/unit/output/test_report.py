"""The report as text: complete, self-contained, escaped."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from tests.synthetic import random_run
from vbstack import FileError, Plan, Problem, RunStore, Screen, stack
from vbstack.output.number_text import fixed, number
from vbstack.output.report import render, store_report
from vbstack.output.reproduce import Origin

HOSTILE = "<script>alert(1)</script>"
NAMES = (HOSTILE, 'rate" onload="alert(2)')


def runs(count=3, **details):
    rng = np.random.default_rng(5)
    return [random_run(rng, 2, names=NAMES, seed=100 + m, **details) for m in range(count)]


class Tags(HTMLParser):
    """Every tag with its attributes, and the text outside of style and script."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.open.append(tag)

    def handle_data(self, data):
        if self.open[-1:] not in (["style"], ["script"]):
            self.texts.append(data)


def problem():
    return Problem(
        log_density=lambda x: 0.0,
        plausible_lower_bounds=[-1, -1],
        plausible_upper_bounds=[1, 1],
        names=NAMES,
    )


def a_store(path):
    """A store with runs 0, 2 and 3, of which 3 did not converge; run 1 failed."""
    store = RunStore(path)
    store.open(problem(), seed=42, options={"max_fun_evals": 20, "name": "a b"})
    first, second, third = runs()
    store.save(0, first)
    store.save(2, second)
    store.save(3, runs(converged=False)[2])
    store.save_failure(1, {"message": f"log_density raised {HOSTILE}"})
    return store, third


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("store")
    a_store(path)
    return path


@pytest.fixture(scope="module")
def text(directory):
    return store_report(directory).read_text()


def test_everything_is_in_the_file(directory, text):
    for part in (
        *("Log evidence", "Parameters", "Runs", "Reproduce", "97.5%", "quadrature sd"),
        *(
            "did not converge",
            "--engine pyvbmc",
            "--seed 42",
            "--option max_fun_evals=20",
            "&#39;name=&#34;a b&#34;",
        ),
        *("vbstack stack", "vbstack report", "pyvbmc", "Stacking cannot find a region"),
    ):
        assert part in text
    assert len(text) < 5e6
    pictures = [a for tag, a in Tags(text).tags if tag == "img"]
    assert len(pictures) >= 6
    assert all(len(a["alt"]) > 30 and a["src"].startswith("data:image/") for a in pictures)


def test_runs_are_called_by_their_numbers_in_the_store(text):
    page = "".join(Tags(text).texts)
    assert re.search(r"Run 1\s*\(failed\): log_density raised <script>", page)
    assert re.search(r"Run 3\s*\(dropped\): did not converge", page)
    rows = re.findall(r'<th scope="row" data-value="(\d)">\d</th><td class="word">(\w+)<', text)
    assert rows == [("0", "stacked"), ("1", "failed"), ("2", "stacked"), ("3", "dropped")]


def test_what_users_supply_is_escaped(text):
    tags = Tags(text).tags
    assert [tag for tag, _ in tags].count("script") == 1
    assert not [a for _, a in tags if any(name.startswith("on") for name in a)]
    assert HOSTILE not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_nothing_is_fetched_and_only_its_own_code_may_run(text):
    tags = Tags(text).tags
    sources = [a.get("src") or a.get("href") for _, a in tags if "src" in a or "href" in a]
    assert all(source.startswith(("data:", "#")) for source in sources)
    policy = next(a["content"] for tag, a in tags if tag == "meta" and "http-equiv" in a)
    assert policy.startswith("default-src 'none'; img-src data:;")
    for tag in ("style", "script"):
        (own,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.S)
        digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_headings_and_tables_are_usable_without_a_mouse(text):
    tags = Tags(text).tags
    assert tags[0] == ("html", {"lang": "en"})
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in tags
    regions = [a for _, a in tags if "scroll" in a.get("class", "").split()]
    assert regions
    assert all(a["tabindex"] == "0" and a["aria-label"] for a in regions)
    ids = [a["id"] for _, a in tags if "id" in a]
    assert len(ids) == len(set(ids))
    targets = [a["href"][1:] for tag, a in tags if tag == "a"]
    assert set(targets) <= set(ids)


def test_an_existing_report_is_kept_unless_asked(directory, tmp_path, text):
    before = (directory / "report.html").stat().st_mtime_ns
    with pytest.raises(FileExistsError, match="overwrite"):
        store_report(directory)
    assert (directory / "report.html").stat().st_mtime_ns == before
    assert not list(directory.glob(".report*"))


def test_a_store_without_finished_runs_has_no_report(tmp_path):
    store = RunStore(tmp_path)
    with pytest.raises(FileError, match=r"store\.json cannot be read"):
        store_report(tmp_path)
    store.open(problem())
    with pytest.raises(FileError, match="holds no finished run"):
        store_report(tmp_path)


def test_a_posterior_of_one_run_can_be_reported_without_a_store(tmp_path):
    path = stack(runs(1)).report(tmp_path / "one.html", title="One", units={HOSTILE: "m<s"})
    text = path.read_text()
    assert path.stat().st_mode & 0o044  # readable like any file, not private like a temporary one
    assert "m&lt;s" in text
    assert "only one run was stacked" in text
    assert "whose store is not known" in text


def test_imported_runs_are_reproduced_by_importing_them():
    plan = Plan(problem().description(), 0, "pyvbmc", {"imported": ["a b.pkl"]})
    text = render(stack(runs(2)), origin=Origin("x y", plan, ()))
    assert "vbstack import &#39;a b.pkl&#39; --out &#39;x y&#39; --trust-pickles" in text


def test_reproducing_repeats_the_whole_plan_and_all_settings_of_the_stack(tmp_path):
    store = RunStore(tmp_path)
    store.open(problem(), seed=42, engine="native", starts=((0.0, 0.5),), on_error="floor")
    store.save(0, runs()[0])
    settings: Any = {"weights": "runs", "tolerance": 0.05, "solver": "adam", "seed": 9}
    saved = stack(list(store.runs().values()), **settings, screen=Screen(False, 7.0, 1))
    saved.save(tmp_path / "posterior.npz")
    page = "".join(Tags(store_report(tmp_path).read_text()).texts)
    for part in (
        "--runs 1 --seed 42 --engine native --on-error floor --starts STARTS.txt",
        "--weights runs --evaluations auto --tolerance 0.05 --max-draws 512 --final-draws 128",
        "--solver adam --caution auto --seed 9 --max-variance 7.0 --min-runs 1 --refine auto",
        "--all-runs",
        "STARTS.txt holds the starting points",
    ):
        assert part in page


@pytest.mark.parametrize(
    ("value", "places", "shown"),
    [(1.23456, 2, "1.23"), (-0.0001, 2, "0.00"), (-2.5, 1, "−2.5"), (None, 2, ""),
     (3e12, 2, "3e+12"), (float("inf"), 3, "∞"), (1e-12, 14, "1e−12")],
)  # fmt: skip
def test_numbers(value, places, shown):
    assert fixed(value, places) == shown


def test_infinite_bounds():
    assert number(-np.inf) == "−∞"
