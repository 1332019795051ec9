"""The studio reads only below the folders that it was given."""

import os
from pathlib import Path

import pytest

from hardmax.errors import ArgumentError, DataError
from hardmax.studio.folders import Folders, open_folders


@pytest.fixture
def tree(tmp_path):
    """A folder that is given, and a secret next to it."""
    given, other = tmp_path / "runs", tmp_path / "runs-of-others"
    (given / "first").mkdir(parents=True)
    other.mkdir()
    (given / "first" / "config.json").write_text("{}")
    (other / "secret.txt").write_text("secret")
    (tmp_path / "secret.txt").write_text("secret")
    return given


def test_files_below_a_folder_are_readable(tree):
    folders = open_folders((str(tree),))
    assert folders.resolve_path(tree / "first" / "config.json").read_text() == "{}"
    assert folders.resolve_path(tree) == tree.resolve()
    assert folders.resolve_path(f"{tree}/first/../first/config.json").name == "config.json"


@pytest.mark.parametrize(
    "path",
    [
        "{}/../secret.txt",
        "{}/first/../../secret.txt",
        "{}-of-others/secret.txt",  # the name begins as that of the folder
        "/etc/passwd",
        "~/.ssh/id_rsa",
        "{}/first/../../../../../../../../etc/passwd",
        "",
        "\0",
        "{}/\0/../../secret.txt",
        "first/config.json",  # relative to the current folder
    ],
)
def test_paths_out_of_the_folders_are_refused(tree, path):
    with pytest.raises(DataError, match="is not"):
        open_folders((str(tree),)).resolve_path(path.format(tree))


def test_symbolic_links_out_of_the_folders_are_refused(tree):
    (tree / "link").symlink_to(tree.parent / "secret.txt")
    (tree / "folder").symlink_to("/etc")
    (tree / "loop").symlink_to(tree / "loop")
    (tree / "inside").symlink_to(tree / "first")
    folders = open_folders((str(tree),))
    for name in ("link", "folder", "folder/passwd"):
        with pytest.raises(DataError, match="is not in the folders"):
            folders.resolve_path(tree / name)
    with pytest.raises(DataError):
        folders.resolve_path(tree / "loop")
    assert folders.resolve_path(tree / "inside" / "config.json") == (tree / "first" / "config.json").resolve()


def test_a_link_that_was_given_is_followed(tree, tmp_path):
    link = tmp_path / "link-to-runs"
    link.symlink_to(tree)
    folders = open_folders((str(link),))
    assert folders.resolve_path(link / "first").is_dir()


def test_what_is_outside_is_refused_in_the_same_words_whether_it_exists_or_not(tree):
    folders = open_folders((str(tree),))
    messages = set()
    for name in ("secret.txt", "absent.txt"):
        with pytest.raises(DataError) as caught:
            folders.resolve_path(tree.parent / name)
        messages.add(str(caught.value).replace(name, ""))
    assert len(messages) == 1


def test_a_deleted_run_is_named(tree):
    with pytest.raises(DataError, match="does not exist"):
        open_folders((str(tree),)).resolve_path(tree / "second")


def test_a_name_that_is_no_folder_is_refused(tree):
    with pytest.raises(ArgumentError, match="is not a folder"):
        open_folders((str(tree / "first" / "config.json"),))
    with pytest.raises(ArgumentError, match="is not a folder"):
        open_folders((os.devnull,))


def test_without_folders_nothing_is_readable():
    with pytest.raises(DataError):
        Folders().resolve_path(Path.cwd())
