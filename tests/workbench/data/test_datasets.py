"""Data sets by name: similar names, and the folders that are searched."""

from pathlib import Path

import numpy as np
import pytest

from hardmax import data
from hardmax.data import load_images, loading
from hardmax.data.datasets import SETS, find_cache, is_complete, list_folders, locate_files
from hardmax.errors import DataError, HardmaxError


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("minst", "'mnist'"),
        ("MNIST", "'mnist'"),
        ("FashionMNIST", "'fashion-mnist'"),
        ("fashion_mnist", "'fashion-mnist'"),
        ("omnigolt", "'omniglot'"),
        ("samples", "'sample'"),
        ("CelebA", "'celeba'"),
        ("face", "'faces'"),
    ],
)
def test_near_matches(name, near):
    with pytest.raises(DataError, match=rf"no data set '{name}': did you mean {near}") as caught:
        load_images(name)
    assert "sample, mnist, fashion-mnist, omniglot" in str(caught.value)
    assert isinstance(caught.value, HardmaxError | ValueError)


def test_nothing_near():
    with pytest.raises(DataError, match=r"no data set 'xyz': the sets are sample, .*path of a folder") as caught:
        load_images("xyz")
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize("path", ["no/such/folder", "none.npz", Path("nowhere")])
def test_no_such_path(path):
    with pytest.raises(DataError, match=f"no file or folder '{path}'; the sets are"):
        load_images(path)


def test_empty_name():
    with pytest.raises(DataError, match="data is empty"):
        load_images("")


def test_size_and_limit_are_for_images_in_files(tmp_path):
    with pytest.raises(DataError, match=r"are for a folder .* or celeba, got size=8, limit=None with the set 'sample'"):
        load_images("sample", size=8)
    np.save(tmp_path / "mine.npy", np.zeros((30, 8, 8), np.uint8))
    with pytest.raises(DataError, match=r"got size=None, limit=5 with the file .*mine\.npy"):
        load_images(tmp_path / "mine.npy", limit=5)


def test_the_cache(cache, monkeypatch, tmp_path):
    assert find_cache() == cache
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_cache() == tmp_path / ".cache" / "hardmax"


def test_folders_that_are_searched(cache, monkeypatch, tmp_path):
    assert list_folders("mnist") == [cache / "mnist"]
    monkeypatch.setenv("HARDMAX_DATA", str(tmp_path))
    assert list_folders("mnist") == [tmp_path / "mnist", cache / "mnist"]
    (tmp_path / "mine").mkdir()
    assert list_folders("mnist", tmp_path / "mine")[0] == tmp_path / "mine" / "mnist"
    with pytest.raises(DataError, match=r"data_dir is '.*nowhere', which is not a folder"):
        list_folders("mnist", tmp_path / "nowhere")
    monkeypatch.setenv("HARDMAX_DATA", str(tmp_path / "gone"))
    with pytest.raises(DataError, match=r"HARDMAX_DATA is '.*gone', which is not a folder"):
        list_folders("mnist")


def test_files_are_found_one_by_one(cache, tmp_path):
    entry, here = SETS["mnist"], tmp_path / "mnist"
    places = list_folders("mnist", tmp_path)
    assert locate_files(entry, places) == {}
    names = [file.name for file in entry.files]
    for folder, name in ((here, names[0]), (here, names[1].removesuffix(".gz")), (cache / "mnist", names[0])):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    paths = locate_files(entry, places)
    assert paths == {names[0]: here / names[0], names[1]: here / names[1].removesuffix(".gz")}
    assert not is_complete(entry, paths)


def test_published_files_are_described_in_full():
    assert list(SETS) == ["sample", "mnist", "fashion-mnist", "omniglot", "faces", "celeba"]
    for entry in SETS.values():
        assert entry.licence
        assert entry.summary
        for file in entry.files:
            assert len(file.md5) == 32
            assert all(url.startswith("http") and url.endswith(file.name) for url in file.urls)
        assert not (entry.files and entry.instructions)
        assert bool(entry.instructions) == bool(entry.markers)


@pytest.mark.parametrize(("name", "expected"), [("faces", "faces64.npz"), ("celeba", "list_attr_celeba.txt")])
def test_the_error_of_a_set_without_download_lists_the_needed_files(cache, tmp_path, name, expected):
    with pytest.raises(DataError, match=rf"not in .*{name}, and cannot be downloaded; expected .*{expected}") as caught:
        load_images(name, data_dir=tmp_path)
    assert f"{tmp_path / name} nor in {cache / name}" in str(caught.value)
    assert not cache.exists()


def test_the_former_name_of_load_images():
    with pytest.warns(DeprecationWarning, match=r"use hardmax\.data\.load_images"):
        assert data.load is load_images
    with pytest.warns(DeprecationWarning, match=r"use hardmax\.data\.loading\.load_images"):
        assert loading.load is load_images
