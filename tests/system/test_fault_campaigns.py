"""Small versions of `python -m benchmarks faults`: nothing raw, nothing silent, nothing lost."""

import pytest

from benchmarks.faults.command import main
from benchmarks.faults.kills import campaign
from benchmarks.faults.readers import OUTCOMES, READERS, findings, flipped_bits


def test_mutated_files_give_clear_errors_or_valid_objects():
    found = findings(300, seed=1000, workers=1)
    assert sum(found.counts.values()) == 300
    wrong = {key: n for key, n in found.counts.items() if key[1] in OUTCOMES[2:]}
    assert wrong == {}, found.examples
    assert {reader for reader, _ in found.counts} == set(READERS)
    assert found.megabytes < 200


def test_flipped_bits_change_no_value_silently():
    assert flipped_bits(500, seed=1000) == (500, 0, 0)


@pytest.mark.slow
def test_killed_fits_lose_nothing_and_end_bitwise_the_same():
    tally = campaign(3, seed=1000)
    assert sum(tally.kills.values()) == 3
    assert (tally.unfinished, tally.runs_lost, tally.different) == (0, 0, 0)
    assert (tally.paid_twice, tally.never_removed) == (0, 0)


def test_the_command_writes_its_counts(tmp_path, capsys):
    options = ["--files", "30", "--bits", "20", "--kills", "0", "--workers", "1"]
    main([*options, "--out", str(tmp_path / "faults.md")])
    text = (tmp_path / "faults.md").read_text()
    assert "## 30 mutated files" in text
    assert "values changed silently 0" in text
    assert "written to" in capsys.readouterr().out
