"""Rows of a file that grows, is cut back, or is replaced."""

import json
import random

import pytest

from hardmax.errors import DataError
from hardmax.training.live_rows import RowReader
from hardmax.training.run_folder import append_rows, read_rows, remove_rows_after


def test_every_call_reads_what_was_appended(tmp_path):
    reader = RowReader(tmp_path / "metrics.jsonl")
    assert not reader.read()
    append_rows(reader.path, [{"epoch": 1}, {"epoch": 2}])
    assert reader.read()
    assert not reader.read()
    append_rows(reader.path, [{"epoch": 3}])
    assert reader.read()
    assert reader.rows == [{"epoch": 1}, {"epoch": 2}, {"epoch": 3}]


def test_it_always_agrees_with_reading_the_whole_file(tmp_path):
    """Random histories of a run: rows in pieces, cut back when it is resumed, deleted, begun again."""
    path, stream = tmp_path / "metrics.jsonl", random.Random(0)
    reader, epoch = RowReader(path), 0
    for _ in range(400):
        choice = stream.randrange(10)
        if choice < 6:
            epoch += 1
            append_rows(path, [{"epoch": epoch, "elbo": stream.random()} for _ in range(3)])
        elif choice == 6 and path.exists():
            with path.open("ab") as file:  # a row of which only the first bytes are on the disk
                file.write(json.dumps({"epoch": epoch + 1}).encode()[: stream.randrange(1, 9)])
        elif choice == 7 and path.exists():
            epoch = stream.randint(max(0, epoch - 3), epoch)
            remove_rows_after(path, epoch)
        elif choice == 8 and stream.random() < 0.3:
            path.unlink(missing_ok=True)
            epoch = 0
        before = reader.rows
        assert reader.read() == (reader.rows != before)
        assert reader.rows == read_rows(path)


def test_a_run_that_was_replaced_is_read_from_its_beginning(tmp_path):
    """The new file is longer than what was read of the old one."""
    reader = RowReader(tmp_path / "metrics.jsonl")
    append_rows(reader.path, [{"epoch": 1, "elbo": -1.0}])
    reader.read()
    reader.path.unlink()
    append_rows(reader.path, [{"epoch": 1, "elbo": -2.0}, {"epoch": 2, "elbo": -1.5}])
    assert reader.read()
    assert [row["elbo"] for row in reader.rows] == [-2.0, -1.5]


def test_a_broken_row_is_an_error_that_names_its_line(tmp_path):
    reader = RowReader(tmp_path / "metrics.jsonl")
    append_rows(reader.path, [{"epoch": 1}])
    reader.read()
    for content in (b"\x00\xff\n", b"[1]\n", b'{"epoch": 2, "epoch": 3}\n'):
        reader.path.write_bytes(b'{"epoch": 1}\n' + content)
        with pytest.raises(DataError, match=r"line 2 of .* is broken"):
            reader.read()
        assert reader.rows == [{"epoch": 1}]
    reader.path.unlink()
    reader.path.mkdir()
    with pytest.raises(DataError, match="cannot read"):
        reader.read()
