"""Rows in the files of a run folder."""

import pytest

import hardmax as hm
from hardmax.training.run_folder import append_rows, check_rows_until, read_facts, read_rows, remove_rows_after

ROWS = [{"epoch": epoch, "elbo": -0.1 * epoch} for epoch in (1, 2, 3)]


def test_append_and_read(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert read_rows(path) == []
    append_rows(path, ROWS[:2])
    append_rows(path, ROWS[2:])
    assert read_rows(path) == ROWS


def test_an_incomplete_last_row_is_ignored(tmp_path):
    path = tmp_path / "metrics.jsonl"
    append_rows(path, ROWS)
    text = path.read_text()
    path.write_text(text[:-8])
    assert read_rows(path) == ROWS[:2]


def test_a_broken_line_in_the_middle_is_an_error(tmp_path):
    path = tmp_path / "metrics.jsonl"
    append_rows(path, ROWS)
    path.write_text(path.read_text().replace('"epoch": 2', '"epoch": '))
    with pytest.raises(hm.DataError, match=r"line 2 .* is broken"):
        read_rows(path)


def test_cut_back(tmp_path):
    path = tmp_path / "metrics.jsonl"
    append_rows(path, ROWS)
    text = path.read_text()
    remove_rows_after(path, 3)
    assert path.read_text() == text
    remove_rows_after(path, 2)
    assert read_rows(path) == ROWS[:2]
    assert list(tmp_path.iterdir()) == [path]


def test_lost_rows_are_noticed(tmp_path):
    path = tmp_path / "metrics.jsonl"
    append_rows(path, ROWS)
    check_rows_until(path, 3)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[::2]))
    check_rows_until(path, 1)
    with pytest.raises(hm.DataError, match=r"no rows of epoch 2, but the checkpoint was written after epoch 3"):
        check_rows_until(path, 3)
    path.unlink()
    with pytest.raises(hm.DataError, match="no rows of epoch 1"):
        check_rows_until(path, 1)


DEEP = "[" * 100_000
LONG = '{"epoch": ' + "1" * 5000 + "}"  # more digits than Python converts


@pytest.mark.parametrize("line", ["[]", "3", '"text"', "null", DEEP, LONG], ids=lambda line: line[:12])
def test_a_line_that_is_not_a_row(tmp_path, line):
    path = tmp_path / "metrics.jsonl"
    path.write_text(line + "\n" + '{"epoch": 1}\n')
    with pytest.raises(hm.DataError, match=r"line 1 .* is broken"):
        read_rows(path)


@pytest.mark.parametrize("line", ["{}", '{"epoch": "one"}', '{"epoch": null}', '{"epoch": [1]}'])
def test_a_row_without_an_epoch_cannot_be_cut_back(tmp_path, line):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"epoch": 1}\n' + line + "\n")
    with pytest.raises(hm.DataError, match=r"line 2 .* is broken"):
        remove_rows_after(path, 1)


@pytest.mark.parametrize(("tail", "kept"), [('{"epoch": 4, "el', 3), ('{"epoch": 4}', 4)])
def test_rows_are_appended_after_an_incomplete_one(tmp_path, tail, kept):
    """A process was killed while it wrote the last row; the next one begins a line of its own."""
    path = tmp_path / "starts.jsonl"
    append_rows(path, ROWS)
    with path.open("a") as file:
        file.write(tail)
    assert len(read_rows(path)) == kept
    append_rows(path, [{"epoch": 5}])
    assert [row["epoch"] for row in read_rows(path)] == [*range(1, kept + 1), 5]


def test_a_disk_without_space(tmp_path):
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    with pytest.raises(hm.DataError, match=r"cannot write .*metrics.jsonl: No space left on device"):
        append_rows(tmp_path / "metrics.jsonl", ROWS)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"config": 3}', DEEP, LONG, '{"config": {}, "data": 3}'])
def test_a_configuration_that_is_none(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(hm.DataError, match=r"config.json is not the configuration of a run"):
        read_facts(tmp_path)
