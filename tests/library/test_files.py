"""Files and folders are complete or do not exist."""

import os
import stat

import pytest

from hardmax.errors import DataError
from hardmax.files import make_folder, replace_atomically, replace_folder, write_folder, write_output, write_text


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
    path, texts = tmp_path / "a.txt", []
    path.write_text("before")
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (fsync(file), texts.append(path.read_text())))
    write_text(path, "after")
    with write_output(path) as temporary:
        temporary.write_text("last")
    assert texts == ["before", "after"]
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
        (folder / "complete").touch()
    assert [path.name for path in out.iterdir()] == ["complete"]
    assert list(tmp_path.iterdir()) == [out]
    with pytest.raises(DataError, match="exists and is not overwritten"), write_folder(out):
        pass
    assert [path.name for path in out.iterdir()] == ["complete"]


def test_what_others_keep_under_a_temporary_name_stays(tmp_path):
    """Neither a file nor a folder that someone else made is removed, whatever its name."""
    (tmp_path / "prior.tmp").mkdir()
    (tmp_path / "prior.tmp" / "thesis.txt").write_text("years of work")
    (tmp_path / "a.txt.tmp").write_text("mine")
    with write_folder(tmp_path / "prior") as folder:
        (folder / "atlas").touch()
    with replace_folder(tmp_path / "prior") as folder:
        (folder / "atlas").touch()
    write_text(tmp_path / "a.txt", "text")
    assert (tmp_path / "prior.tmp" / "thesis.txt").read_text() == "years of work"
    assert (tmp_path / "a.txt.tmp").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "a.txt.tmp", "prior", "prior.tmp"]


def test_symbolic_links_are_not_followed(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret").write_text("kept")
    out = tmp_path / "out"
    out.mkdir()
    for name in ("a.txt", "a.txt.tmp", "prior.tmp", "link"):
        (out / name).symlink_to(elsewhere / "secret" if name.startswith("a") else elsewhere)
    write_text(out / "a.txt", "text")
    with write_folder(out / "prior") as folder:
        (folder / "atlas").touch()
    with replace_folder(out / "link") as folder:
        (folder / "model").touch()
    assert [path.name for path in elsewhere.iterdir()] == ["secret"]
    assert (elsewhere / "secret").read_text() == "kept"
    assert (out / "a.txt").read_text() == "text"
    assert not (out / "a.txt").is_symlink()
    assert not (out / "link").is_symlink()
    assert [path.name for path in (out / "link").iterdir()] == ["model"]


def test_temporary_names_cannot_be_guessed(tmp_path):
    names = set()
    for _ in range(10):
        with replace_atomically(tmp_path / "a.txt") as temporary:
            temporary.write_text("text")
            names.add(temporary.relative_to(tmp_path).parts[0])
            assert stat.S_IMODE(temporary.parent.stat().st_mode) == 0o700
    assert len(names) == 10


def test_two_writers_of_one_file(tmp_path):
    path = tmp_path / "a.txt"
    with replace_atomically(path) as first, replace_atomically(path) as second:
        first.write_text("first")
        second.write_text("second")
    assert path.read_text() == "first"  # complete, and renamed last
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_are_those_of_ordinary_files(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    write_text(tmp_path / "a.txt", "text")
    with write_folder(tmp_path / "prior") as folder:
        (folder / "atlas").touch()
    for written, ordinary in (("a.txt", "file"), ("prior", "folder"), ("prior/atlas", "file")):
        assert (tmp_path / written).stat().st_mode == (tmp_path / ordinary).stat().st_mode


def test_the_longest_names(tmp_path):
    name = "ä" * 125 + ".txt"
    write_text(tmp_path / name, "text")
    assert (tmp_path / name).read_text() == "text"


def test_a_folder_that_appears_in_the_meantime_is_not_replaced(tmp_path):
    def collide():
        with write_folder(tmp_path / "prior") as folder:
            (folder / "atlas").touch()
            (tmp_path / "prior").mkdir()
            (tmp_path / "prior" / "other").touch()

    with pytest.raises(DataError, match="cannot write"):
        collide()
    assert [path.name for path in (tmp_path / "prior").iterdir()] == ["other"]
    assert [path.name for path in tmp_path.iterdir()] == ["prior"]


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_that_is_read_only(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(DataError, match=r"cannot write .*a.txt: Permission denied"), write_output(tmp_path / "a.txt"):
        pass
    with pytest.raises(DataError, match=r"cannot write .*prior: Permission denied"), write_folder(tmp_path / "prior"):
        pass


def test_a_replaced_folder_stays_if_the_new_one_fails(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_text("before")

    def fail():
        with replace_folder(tmp_path / "model") as folder:
            (folder / "weights").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert (tmp_path / "model" / "weights").read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
