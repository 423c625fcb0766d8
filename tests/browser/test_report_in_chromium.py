"""The report as a reader meets it: in a real browser, without a network."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.synthetic import random_run
from vbstack import stack

HOSTILE = "<script>alert(1)</script>"
NAMES = (HOSTILE, "rate")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    rng = np.random.default_rng(5)
    runs = [random_run(rng, 2, names=NAMES, seed=m) for m in range(9)]
    runs.append(random_run(rng, 2, names=NAMES, converged=False))
    target = tmp_path_factory.mktemp("report") / "report.html"
    return stack(runs, tolerance=0.1).report(target, title=f"Report {HOSTILE}")


@pytest.fixture
def opened(browser, path):
    """The page, and everything that it said, asked for or popped up."""
    seen = SimpleNamespace(console=[], requests=[], dialogs=[], page=None)

    def opening(width=1200, scheme="light"):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
        )
        contexts.append(context)
        page = seen.page = context.new_page()
        page.on("console", lambda message: seen.console.append(message.text))
        page.on("pageerror", lambda error: seen.console.append(str(error)))
        page.on("request", lambda request: seen.requests.append(request.url))
        page.on("dialog", lambda dialog: (seen.dialogs.append(dialog.message), dialog.dismiss()))
        page.goto(path.as_uri())
        page.wait_for_load_state("load")
        return seen

    contexts: list[Any] = []
    yield opening
    for context in contexts:
        context.close()


def column(page, table, index):
    return page.eval_on_selector_all(
        f"#{table} tbody tr", f"rows => rows.map(row => row.cells[{index}].textContent.trim())"
    )


def test_it_loads_without_an_error_or_a_request(opened, path):
    seen = opened()
    assert seen.console == []
    assert [url for url in seen.requests if not url.startswith("data:")] == [path.as_uri()]
    assert path.stat().st_size < 5e6


def test_every_figure_is_visible(opened):
    page = opened().page
    sizes = page.eval_on_selector_all(
        "figure img", "all => all.map(i => [i.complete, i.naturalWidth, i.clientWidth])"
    )
    assert len(sizes) >= 6
    assert all(complete and natural > 50 and shown > 50 for complete, natural, shown in sizes)
    assert all(image.is_visible() for image in page.query_selector_all("figure img"))


def test_hostile_names_are_text(opened):
    seen = opened()
    assert seen.dialogs == []
    assert seen.page.title() == f"Report {HOSTILE}"
    assert HOSTILE in column(seen.page, "parameter-table", 0)
    assert seen.page.locator("script").count() == 1


def test_the_policy_stops_foreign_scripts(opened):
    seen = opened()
    seen.page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.bad = 1';"
        " document.body.append(s); }"
    )
    assert seen.page.evaluate("() => window.bad") is None
    assert any("Content Security Policy" in text for text in seen.console)


def test_tables_sort_by_mouse_and_by_keyboard(opened):
    page = opened().page
    weights = page.locator("#run-table th", has_text="weight")
    weights.locator("button").click()
    assert weights.get_attribute("aria-sort") == "ascending"
    shown = [float(w.strip("%")) for w in column(page, "run-table", 2) if w]
    assert shown == sorted(shown)
    assert len(shown) == 9
    weights.locator("button").focus()
    page.keyboard.press("Enter")
    assert weights.get_attribute("aria-sort") == "descending"
    cells = column(page, "run-table", 2)
    assert cells[-1] == ""  # the dropped run has no weight and stays last
    shown = [float(w.strip("%")) for w in cells if w]
    assert shown == sorted(shown, reverse=True)
    page.locator("#run-table th", has_text="run").first.locator("button").click()
    assert column(page, "run-table", 0) == [str(m) for m in range(10)]


def test_a_phone_does_not_scroll_sideways_and_tables_do(opened):
    page = opened(width=390).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    table = page.locator("[aria-label='Table of runs']")
    assert table.evaluate("e => e.scrollWidth > e.clientWidth")
    table.focus()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Table of runs"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_the_page_in_both_schemes(opened, scheme):
    """WCAG's contrast ratio, at least 4.5, for text and for softer text."""
    page = opened(scheme=scheme).page
    for selector in ("h1", ".soft", "a", ".note"):
        colours = page.eval_on_selector(
            selector,
            "e => { let b = e; while (getComputedStyle(b).backgroundColor === 'rgba(0, 0, 0, 0)')"
            " b = b.parentElement;"
            " return [getComputedStyle(e).color, getComputedStyle(b).backgroundColor]; }",
        )
        first, second = sorted((luminance(colour) for colour in colours), reverse=True)
        assert (first + 0.05) / (second + 0.05) >= 4.5, (selector, colours)


def luminance(colour):
    channels = np.array([float(part) for part in colour[4:-1].split(",")]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])
