"""The measured tables of the pages are those of the stored results."""

import pytest

from benchmarks.doc_tables import MARK, PAGES, ROOT, TABLES, filled
from benchmarks.engine_verdict import worse


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_what_the_results_say(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert MARK.search(text)
    assert filled(text) == text, "run python -m benchmarks.doc_tables"


def test_every_table_stands_somewhere():
    pages = "".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
    assert {match[1] for match in MARK.findall(pages)} == set(TABLES)


def test_a_stale_number_is_noticed():
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    stale = page.replace("certified within 0.", "certified within 1.", 1)
    assert filled(stale) == filled(page) != stale


def test_worse_is_below_for_the_elbo_and_above_for_errors():
    equal = {"mmtv": [0.2, 0.1, 0.3], "gskl": [0.2, 0.1, 0.3], "delta_lml": [0.2, 0.1, 0.3]}
    theirs = {"stacks": {"own": equal | {"true_elbo": [-0.2, -0.3, -0.1]}}}
    ours = {"stacks": {"pooled": equal | {"true_elbo": [-0.5, -0.6, -0.4], "mmtv": [0.25, 0, 1]}}}
    assert worse(ours, theirs, "pooled") == {"true_elbo": True, "mmtv": False}
    better = {"stacks": {"pooled": equal | {"true_elbo": [-0.1, -0.2, 0.0]}}}
    assert worse(better, theirs, "pooled") == {}
