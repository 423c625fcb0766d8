"""The measured tables of the pages are those of the stored results."""

import pytest

from benchmarks.doc_tables import MARK, PAGES, TABLES, filled
from benchmarks.folders import ROOT


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_what_the_results_say(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert MARK.search(text)
    assert filled(text) == text, "run python -m benchmarks doc-tables"


def test_every_table_stands_somewhere():
    pages = "".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
    assert {match[1] for match in MARK.findall(pages)} == set(TABLES)


def test_a_stale_number_is_noticed():
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    stale = page.replace("certified within 0.", "certified within 1.", 1)
    assert filled(stale) == filled(page) != stale
