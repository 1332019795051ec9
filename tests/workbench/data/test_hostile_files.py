"""Hostile files: each gives one line of error, and takes little memory and time."""

import gzip
import io
import json
import struct
import subprocess
import sys
import tracemalloc
import zipfile
import zlib
from contextlib import suppress

import numpy as np
import pytest
from PIL import Image

from hardmax.applications.completion.photo import read_canvas
from hardmax.data import load_images
from hardmax.data.image_reading import read_image, read_image_size
from hardmax.data.npz import read_npz
from hardmax.errors import DataError

MB = 2**20
MEASURE = """
import json, resource, sys, time
from pathlib import Path
from hardmax.errors import HardmaxError
{imports}
begin = time.process_time()
try:
    {call}
    error = None
except HardmaxError as caught:
    error = str(caught)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(json.dumps([error, peak, time.process_time() - begin]))
"""


def measure(call, path, imports="from hardmax.data import load_images"):
    """Call a function in a process of its own; return its error, the peak of its memory in MB, and its seconds."""
    code = MEASURE.format(imports=imports, call=call.format(path=str(path)))
    # In a process of a process: the peak of a new process includes that of the one that it was started from.
    start = "import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', sys.argv[1]]).returncode)"
    output = subprocess.run([sys.executable, "-c", start, code], capture_output=True, text=True)
    assert output.returncode == 0, output.stderr
    error, peak, seconds = json.loads(output.stdout)
    return error, peak / MB, seconds


def check_bounds(call, path, imports="from hardmax.data import load_images", *, message):
    error, peak, seconds = measure(call, path, imports)
    assert peak < 1024, f"{peak:.0f} MB"
    assert seconds < 10, f"{seconds:.1f} s"
    assert error is not None
    assert "\n" not in error
    assert message in error, error


def compress_zeros(head, count, packer):
    """Return compressed bytes: a head, then this number of zeros."""
    pieces, zeros = [packer.compress(head)], bytes(MB)
    for begin in range(0, count, MB):
        pieces.append(packer.compress(zeros[: min(MB, count - begin)]))
    return b"".join([*pieces, packer.flush()])


def test_idx_bomb(tmp_path):
    shape = (1_300_000, 28, 28)  # 1 GB, in 1 MB
    head = struct.pack(">4B3I", 0, 0, 8, 3, *shape)
    data = compress_zeros(head, int(np.prod(shape)), zlib.compressobj(6, wbits=31))
    assert len(data) < 2 * MB
    (tmp_path / "bomb.gz").write_bytes(data)
    check_bounds("load_images({path!r})", tmp_path / "bomb.gz", message="memory")


def test_idx_with_more_than_its_header_says(tmp_path):
    head = struct.pack(">4B3I", 0, 0, 8, 3, 10, 28, 28)
    (tmp_path / "bomb.gz").write_bytes(compress_zeros(head, 800 * MB, zlib.compressobj(1, wbits=31)))
    check_bounds("load_images({path!r})", tmp_path / "bomb.gz", message="is too long")


def make_npy(shape, dtype="|u1"):
    head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode()


@pytest.mark.parametrize(
    ("method", "size"), [(zipfile.ZIP_DEFLATED, 1200 * MB), (zipfile.ZIP_BZIP2, 300 * MB)], ids=["deflate", "bzip2"]
)
def test_npz_bomb(tmp_path, method, size):
    with (
        zipfile.ZipFile(tmp_path / "bomb.npz", "w", method) as archive,
        archive.open("images.npy", "w", force_zip64=True) as member,
    ):
        member.write(make_npy((size // 784, 28, 28)))
        for _ in range(size // MB):
            member.write(bytes(MB))
    check_bounds("load_images({path!r})", tmp_path / "bomb.npz", message="memory")


def test_npy_whose_header_promises_too_much(tmp_path):
    (tmp_path / "bomb.npy").write_bytes(make_npy((10**9, 28, 28)) + bytes(1000))
    check_bounds("load_images({path!r})", tmp_path / "bomb.npy", message="cut off")
    (tmp_path / "texts.npz").unlink(missing_ok=True)
    with zipfile.ZipFile(tmp_path / "texts.npz", "w") as archive:
        archive.writestr("images.npy", make_npy((30, 2, 2)) + bytes(120))
        archive.writestr("attribute_names.npy", make_npy((10**9,), "<U0"))
    check_bounds("load_images({path!r})", tmp_path / "texts.npz", message="attribute_names")


def test_many_tiny_images(tmp_path):
    """A few bytes for each image, so that the cost of each image counts, not that of its pixels."""
    shape = (40_000_000, 1, 1)
    head = struct.pack(">4B3I", 0, 0, 8, 3, *shape)
    (tmp_path / "bomb.gz").write_bytes(compress_zeros(head, shape[0], zlib.compressobj(1, wbits=31)))
    check_bounds("load_images({path!r})", tmp_path / "bomb.gz", message="memory")


def save_blank(path, mode, side, **options):
    Image.new(mode, (side, side)).save(path, **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mode", "side", "options"),
    [
        ("a.png", "RGBA", 9_000, {}),
        ("a.png", "L", 9_000, {}),
        ("a.png", "I;16", 9_000, {}),
        ("a.gif", "P", 9_000, {}),
        ("a.webp", "RGB", 5_700, {"lossless": True, "method": 0}),
        ("a.tif", "F", 9_000, {"compression": "tiff_deflate"}),
        ("a.tif", "CMYK", 9_000, {"compression": "tiff_lzw"}),
        ("a.jpg", "RGB", 9_000, {"progressive": True}),
        ("a.bmp", "1", 9_000, {}),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
def test_large_images_are_read_within_bounds(tmp_path, name, mode, side, options):
    """The largest images that are read, of one colour: files of some kB that take the most memory."""
    for i in range(2):
        save_blank(tmp_path / f"{i}{name}", mode, side, **options)
    error, peak, seconds = measure("load_images({path!r}, size=8)", tmp_path)
    assert "2 images are too few" in str(error)  # they were read
    assert peak < 1024, f"{peak:.0f} MB"
    assert seconds < 20, f"{seconds:.1f} s"  # two images


def test_image_bomb(tmp_path):
    """Pillow itself refuses twice as many pixels only."""
    packer = zlib.compressobj(1)
    side = 13_000
    rows = compress_zeros(b"", side * (1 + 4 * side), packer)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">2I5B", side, side, 8, 6, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    for i in range(4):
        (tmp_path / f"{i}.png").write_bytes(png)
    check_bounds("load_images({path!r}, size=8)", tmp_path, message="169 million pixels")
    check_bounds("load_images({path!r})", tmp_path, message="169 million pixels")


@pytest.mark.parametrize("read", [read_canvas, read_image_size, lambda path: read_image(path, (8, 8))])
def test_png_with_a_chunk_of_two_gigabytes(read, tmp_path):
    """Its pixels end before the chunk does, and Pillow reads the rest of the chunk at once."""
    path = tmp_path / "a.png"
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(path)
    content = path.read_bytes()
    begin = content.index(b"IDAT") - 4
    path.write_bytes(content[:begin] + struct.pack(">I", 2**31 - 1) + content[begin + 4 :])
    tracemalloc.start()
    try:
        with suppress(DataError):
            read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * MB


def test_attributes_of_a_million_columns(tmp_path):
    for i in range(200):
        Image.new("L", (4, 4), i).save(tmp_path / f"{i}.png")
    names = ",".join(f"a{i}" for i in range(1_000_000))
    (tmp_path / "attributes.csv").write_text(f"image,{names}\n0.png{',1' * 1_000_000}\n")
    check_bounds("load_images({path!r})", tmp_path, message="memory")


@pytest.mark.parametrize(
    "rules",
    [
        f"s -> {' '.join('t' * 8)}\nt -> {' | '.join(f'w{i}' for i in range(10))}",
        "s -> n0 n0\n" + "".join(f"n{i} -> n{i + 1} | n{i + 1} n{i + 1} | a | b\n" for i in range(2000)) + "n2000 -> c",
        "".join(f"n{i} -> n{i + 1} | a{i}\n" for i in range(20_000)),
        f"s -> {' '.join('s' * 300)}\n" + "".join(f"s -> a{i} | b{i} s\n" for i in range(40)),
    ],
    ids=["many", "doubling", "chain", "long"],
)
def test_grammar_bomb(tmp_path, rules):
    (tmp_path / "bomb.grammar").write_text(rules)
    imports = "from hardmax.data import load_sequences"
    check_bounds("load_sequences({path!r}, length=400)", tmp_path / "bomb.grammar", imports, message="grammar")


@pytest.mark.parametrize("kind", ["encrypted", "lzma", "header", "nested", "fortran", "dimensions", "zip"])
def test_odd_npz_members(tmp_path, kind):
    """Each is one line of error: zipfile, lzma, numpy and the parser of its headers raise errors of many classes."""
    path = tmp_path / "mine.npz"
    good = io.BytesIO()
    np.save(good, np.zeros((9, 4, 4), np.uint8))
    content = {
        "header": b"\x93NUMPY\x01\x00\x14\x00{'descr': [[]], 1: (",
        "nested": make_npy("(" * 3000),
        "fortran": make_npy((9, 4, 4)).replace(b"False", b"[]   ") + bytes(144),
        "dimensions": make_npy("(" + "1, " * 70 + ")") + b"0",
        "zip": good.getvalue(),
    }.get(kind, good.getvalue())
    if kind == "zip":
        inner = io.BytesIO()
        with zipfile.ZipFile(inner, "w") as archive:
            archive.writestr("images.npy", content)
        content = inner.getvalue()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA if kind == "lzma" else zipfile.ZIP_STORED) as archive:
        archive.writestr("images.npy", content)
    data = bytearray(path.read_bytes())
    if kind == "encrypted":  # the flag, in both headers
        data[6] |= 1
        data[data.index(b"PK\x01\x02") + 8] |= 1
    if kind == "lzma":
        start = data.index(b"images.npy") + 10
        data[start + 9 : start + 40] = bytes(31)
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"mine\.npz") as caught:
        load_images(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match=r"mine\.npz"):
        read_npz(path)


def test_mutated_arrays(tmp_path):
    """Every byte of small files is changed: only our error may be raised."""
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 256, (12, 3, 3), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", images=pixels, labels=np.arange(12) % 3, class_names=["a", "b", "c"])
    np.save(tmp_path / "a.npy", pixels)
    (tmp_path / "a.gz").write_bytes(
        gzip.compress(struct.pack(">4B3I", 0, 0, 8, 3, *pixels.shape) + pixels.tobytes(), mtime=0)
    )
    for path in sorted(tmp_path.iterdir()):
        data = path.read_bytes()
        broken = path.with_stem("broken")
        messages = []
        for place in range(0, len(data), 3):
            mutant = bytearray(data)
            mutant[place] ^= int(generator.integers(1, 256))
            broken.write_bytes(mutant)
            try:
                load_images(broken)
            except DataError as error:
                messages.append(str(error))
        assert messages
        assert not any("\n" in message for message in messages)
        broken.unlink()


@pytest.mark.parametrize("order", "<>")
def test_texts_of_characters_that_do_not_exist(order, tmp_path):
    path = tmp_path / "a.npz"
    texts = np.frombuffer(struct.pack(f"{order}2I", 0x110000, 65), f"{order}U2")
    np.savez(path, images=np.zeros((4, 3, 3), np.uint8), labels=np.arange(4) % 1, class_names=texts)
    with pytest.raises(DataError, match=r"'class_names', is broken.*characters that do not exist"):
        load_images(path)
    np.savez(path, names=np.array(["\U0010ffff", "a"], f"{order}U2"))
    assert read_npz(path)["names"].tolist() == ["\U0010ffff", "a"]
