"""Files and folders that are there whole or not at all."""

import os

import pytest

from hardmax.errors import DataError
from hardmax.files import make_folder, write_folder, write_output, write_text


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_what_was_there(failure, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("before")

    def fail():
        with write_output(path) as temporary:
            temporary.write_text("half")
            raise failure

    with pytest.raises(failure):
        fail()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_written_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    path, seen = tmp_path / "a.txt", []
    path.write_text("before")
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (fsync(file), seen.append(path.read_text())))
    write_text(path, "after")
    with write_output(path) as temporary:
        temporary.write_text("last")
    assert seen == ["before", "after"]
    assert path.read_text() == "last"


def test_what_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot write"), write_output(tmp_path / "file" / "a.txt") as temporary:
        temporary.write_text("half")
    with pytest.raises(DataError, match="cannot write to the folder"):
        make_folder(tmp_path / "file" / "inner")
    with pytest.raises(DataError, match="cannot write to the folder"):
        make_folder(tmp_path / "file")
    make_folder(tmp_path / "new" / "inner")
    assert list((tmp_path / "new" / "inner").iterdir()) == []


def test_folders(tmp_path):
    out = tmp_path / "prior"

    def fail():
        with write_folder(out) as folder:
            (folder / "half").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert list(tmp_path.iterdir()) == []
    out.mkdir()
    with write_folder(out) as folder:
        (folder / "whole").touch()
    assert [path.name for path in out.iterdir()] == ["whole"]
    assert list(tmp_path.iterdir()) == [out]
    with pytest.raises(DataError, match="is there already, and is not written over"), write_folder(out):
        pass
    assert [path.name for path in out.iterdir()] == ["whole"]
