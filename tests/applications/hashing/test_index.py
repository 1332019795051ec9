"""The index file: it is written completely, read back, and everything in it is checked."""

import numpy as np
import pytest

from hardmax.applications.hashing.search import Index, pack
from hardmax.data.npz import read_npz
from hardmax.errors import DataError


def make_index(count=5, bits=70):
    random = np.random.default_rng(0)
    return Index(
        codes=pack(random.random((count, bits)) < 0.5),
        bits=bits,
        names=tuple(f"Bild {i} ä" for i in range(count)),
        images=random.integers(0, 256, (count, 1, 4, 4)).astype(np.uint8),
        run="/runs/codes",
        checkpoint="checkpoint-7",
        weights="ab" * 32,
    )


def test_written_and_read(tmp_path):
    index, path = make_index(), tmp_path / "new" / "index.npz"
    index.save(path)
    loaded = Index.from_arrays(read_npz(path), path)
    assert (loaded.codes == index.codes).all()
    assert (loaded.images == index.images).all()
    assert (loaded.bits, loaded.names, loaded.run, loaded.checkpoint, loaded.weights) == (
        index.bits,
        index.names,
        index.run,
        index.checkpoint,
        index.weights,
    )
    assert [path.name for path in path.parent.iterdir()] == ["index.npz"]


def test_no_images_at_all(tmp_path):
    path = tmp_path / "index.npz"
    make_index(count=0).save(path)
    assert len(Index.from_arrays(read_npz(path), path)) == 0


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("codes", None, "codes is missing"),
        ("version", np.array(2), "version 2"),
        ("codes", np.zeros((5, 1), dtype=np.uint64), "codes has shape"),
        ("codes", np.zeros((5, 2)), "float64"),
        ("bits", np.array(-3), "codes has shape"),
        ("bits", np.array(65_536), "65536 bits, more than 65535"),  # distances would overflow
        ("names", np.array(["one"]), "names has shape"),
        ("pictures", np.zeros((4, 1, 2, 2), dtype=np.uint8), "pictures has shape"),
        ("made_by", np.array(["x"]), "made_by has shape"),
    ],
)
def test_files_that_are_not_an_index(name, value, message, tmp_path):
    path = tmp_path / "index.npz"
    make_index().save(path)
    arrays = read_npz(path)
    arrays = {key: array for key, array in arrays.items() if key != name} | ({} if value is None else {name: value})
    with pytest.raises(DataError, match=message):
        Index.from_arrays(arrays, path)


def test_the_former_name_of_from_arrays_warns(tmp_path):
    path = tmp_path / "index.npz"
    make_index().save(path)
    with pytest.deprecated_call(match="use Index.from_arrays"):
        assert len(Index.of_arrays(read_npz(path), path)) == 5


def test_pickles_are_never_loaded(tmp_path):
    path = tmp_path / "index.npz"
    np.savez(path, codes=np.array([{}], dtype=object))
    with pytest.raises(DataError, match="pickled"):
        read_npz(path)


def test_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot write"):
        make_index().save(tmp_path / "file" / "index.npz")
