"""IDX files: complete files are read, broken ones raise errors that name the fault."""

import gzip
import re
import struct

import numpy as np
import pytest

from hardmax.data.idx import read_idx
from hardmax.errors import DataError

IMAGES = np.random.default_rng(0).integers(0, 256, (7, 5, 4), dtype=np.uint8)


def idx(values, code=0x08):
    return struct.pack(f">4B{values.ndim}I", 0, 0, code, values.ndim, *values.shape) + values.tobytes()


@pytest.mark.parametrize("values", [IMAGES, IMAGES[:, 0, 0], IMAGES[:0]], ids=["images", "labels", "none"])
@pytest.mark.parametrize("pack", [gzip.compress, bytes], ids=["gzip", "plain"])
def test_read(tmp_path, values, pack):
    (tmp_path / "file").write_bytes(pack(idx(values)))
    read = read_idx(tmp_path / "file", values.ndim)
    assert np.array_equal(read, values)
    assert read.flags.writeable


def test_gzip_of_two_members(tmp_path):
    data = idx(IMAGES)
    (tmp_path / "file.gz").write_bytes(gzip.compress(data[:50]) + gzip.compress(data[50:]))
    assert np.array_equal(read_idx(tmp_path / "file.gz"), IMAGES)


WHOLE = idx(np.zeros((60, 28, 28), np.uint8))
CORRUPT = bytearray(gzip.compress(idx(IMAGES)))
CORRUPT[-6] ^= 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (WHOLE[:1016], r"cut off: it has 1,000 bytes of image data, its header says 47,040 \(60 x 28 x 28\)"),
        (WHOLE[:10], "cut off inside its header: it has 10 of 16"),
        (WHOLE + b"!", "too long: it has 47,041 bytes of image data, its header says 47,040"),
        (gzip.compress(WHOLE, mtime=0)[:60], r"cut off.*bytes of image data, its header says 47,040"),
        (gzip.compress(WHOLE, mtime=0)[:5], "not an IDX file"),
        (bytes(CORRUPT), "gzip data cannot be decompressed"),
        (b"<!DOCTYPE html><p>Not found", "not an IDX file: it starts with b'<!DO'.*web page"),
        (b"", "not an IDX file: it starts with b''"),
        (b"\0\0\x07\x03" + WHOLE[4:], "not an IDX file"),
        (b"\x01\0\x08\x03" + WHOLE[4:], "not an IDX file"),
        (idx(IMAGES, code=0x0D), "holds float32 values, expected uint8"),
        (idx(IMAGES[:, 0, 0]), r"1 dimensions \(labels\), expected 3 \(images\)"),
    ],
    ids=range(12),
)
def test_broken(tmp_path, content, message):
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=re.escape(str(path)) + ".*" + message) as caught:
        read_idx(path, dimensions=3)
    assert "\n" not in str(caught.value)


def test_missing(tmp_path):
    with pytest.raises(DataError, match=r"nothing\.gz cannot be read: No such file"):
        read_idx(tmp_path / "nothing.gz")
