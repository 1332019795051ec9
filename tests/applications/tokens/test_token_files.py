"""Token files: written, read, and rejected where they are invalid."""

import numpy as np
import pytest
import torch

from hardmax.applications.tokens.commands import Tokens, read_tokens, write_tokens
from hardmax.errors import DataError


def tokens(codes=300):
    grids = torch.randint(codes, (5, 2, 3), generator=torch.Generator().manual_seed(0))
    return Tokens(grids, ["a/ä.png", "b", "c", "", "train/4"], codes, "0123abcd")


@pytest.mark.parametrize(("codes", "dtype"), [(2, "uint8"), (256, "uint8"), (257, "uint16"), (70_000, "uint32")])
def test_what_is_written_is_read(tmp_path, codes, dtype):
    written = tokens(codes)
    write_tokens(tmp_path / "new" / "tokens.npz", written)
    contents = read_tokens(tmp_path / "new" / "tokens.npz")
    assert torch.equal(contents.tokens, written.tokens)
    assert (contents.names, contents.codes, contents.model) == (written.names, codes, written.model)
    assert np.load(tmp_path / "new" / "tokens.npz")["tokens"].dtype == dtype
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["tokens.npz"]


def test_no_images(tmp_path):
    write_tokens(tmp_path / "tokens.npz", Tokens(torch.zeros(0, 2, 3, dtype=torch.int64), [], 4, "m"))
    assert read_tokens(tmp_path / "tokens.npz").tokens.shape == (0, 2, 3)


def test_files_that_hold_no_tokens(tmp_path):
    path, good = tmp_path / "tokens.npz", tokens()
    arrays = {
        "tokens": good.tokens.numpy(),
        "names": np.array(good.names),
        "codes": np.array(300),
        "model": np.array("m"),
    }
    for wrong, message in (
        ({"tokens": arrays["tokens"].astype(float)}, "float64.*expected whole numbers"),
        ({"tokens": arrays["tokens"][0]}, r"\[2, 3\], expected whole numbers \[N, h, w\]"),
        ({"names": arrays["names"][:3]}, "names are .* for 5 grids"),
        ({"names": np.arange(5)}, "names are int64"),
        ({"codes": np.array("many")}, "codes is not a number or model is not a text"),
        ({"names": np.array(good.names, dtype=object)}, "pickled Python objects"),
    ):
        np.savez(path, **{**arrays, **wrong})
        with pytest.raises(DataError, match=message):
            read_tokens(path)
    np.savez(path, images=arrays["tokens"])
    with pytest.raises(DataError, match="holds no tokens: tokens, names, codes, model missing; make it with"):
        read_tokens(path)
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(DataError, match="broken or not a numpy file"):
        read_tokens(path)
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_tokens(tmp_path / "none.npz")


def test_a_file_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot write"):
        write_tokens(tmp_path / "file" / "tokens.npz", tokens())
