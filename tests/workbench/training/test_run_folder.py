"""Rows on disk."""

import pytest

import hardmax as hm
from hardmax.training.run_folder import append_rows, read_rows, remove_rows_after

ROWS = [{"epoch": epoch, "elbo": -0.1 * epoch} for epoch in (1, 2, 3)]


def test_append_and_read(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert read_rows(path) == []
    append_rows(path, ROWS[:2])
    append_rows(path, ROWS[2:])
    assert read_rows(path) == ROWS


def test_what_a_kill_left_half_written_is_passed_over(tmp_path):
    path = tmp_path / "metrics.jsonl"
    append_rows(path, ROWS)
    whole = path.read_text()
    path.write_text(whole[:-8])
    assert read_rows(path) == ROWS[:2]


def test_a_broken_line_in_the_middle_is_not(tmp_path):
    path = tmp_path / "metrics.jsonl"
    append_rows(path, ROWS)
    path.write_text(path.read_text().replace('"epoch": 2', '"epoch": '))
    with pytest.raises(hm.DataError, match=r"line 2 .* is broken"):
        read_rows(path)


def test_cut_back(tmp_path):
    path = tmp_path / "metrics.jsonl"
    append_rows(path, ROWS)
    whole = path.read_text()
    remove_rows_after(path, 3)
    assert path.read_text() == whole
    remove_rows_after(path, 2)
    assert read_rows(path) == ROWS[:2]
    assert list(tmp_path.iterdir()) == [path]
