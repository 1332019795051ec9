"""Read IDX, the file format of MNIST: two zero bytes, a type, the number of dimensions, their sizes, the values."""

import gzip
import math
import os
import struct
import zlib
from io import BufferedIOBase
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from hardmax.data.memory import IMAGE_OVERHEAD, check_memory, read_at_most
from hardmax.errors import DataError

GZIP = b"\x1f\x8b"
_TYPES = {0x08: "uint8", 0x09: "int8", 0x0B: "int16", 0x0C: "int32", 0x0D: "float32", 0x0E: "float64"}
_KINDS = {1: "labels", 3: "images"}
_COPIES = 2  # the values, and their splits into parts


def read_idx(path: Path, dimensions: int | None = None) -> UInt8[np.ndarray, "..."]:
    """Read an IDX file of bytes, gzipped or plain.

    Args:
        path: the file.
        dimensions: required number of dimensions: 3 for images `[N, H, W]`, 1 for labels `[N]`; None for any.

    Returns:
        The values, in the shape given by the header. No more bytes are read, or decompressed, than the header says.

    Raises:
        DataError: the file cannot be read, is not an IDX file, is truncated, holds other data, or takes too much
            memory.
    """
    try:
        with path.open("rb") as file:
            return parse_idx(file, str(path), dimensions)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def parse_idx(file: BufferedIOBase, name: str, dimensions: int | None = None) -> UInt8[np.ndarray, "..."]:
    """Parse an open IDX file, as `read_idx` does; `name` is its name in error messages."""
    stored = file.seek(0, os.SEEK_END)
    file.seek(0)
    is_compressed = file.read(2) == GZIP
    file.seek(0)
    if not is_compressed:
        return _parse_values(file, name, dimensions, stored, stored)
    try:
        with gzip.GzipFile(fileobj=file) as stream:
            return _parse_values(stream, name, dimensions, stored, None)
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{name} is broken: its gzip data cannot be decompressed ({error}); get it again") from error


def _parse_values(
    stream: BufferedIOBase, name: str, dimensions: int | None, stored: int, length: int | None
) -> UInt8[np.ndarray, "..."]:
    """Parse the header, then read the values.

    Args:
        stream: the contents, decompressed.
        name: name of the file in error messages.
        dimensions: required number of dimensions, or None.
        stored: size of the file.
        length: number of bytes of the contents; None if it is unknown, since they are compressed.
    """
    head = bytes(read_at_most(stream, 4))
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in _TYPES:
        raise DataError(
            f"{name} is not an IDX file: it starts with {head!r}, expected gzip or the bytes 00 00 08 and the "
            "number of dimensions; perhaps a web page was saved in its place: get the file again"
        )
    if head[2] != 0x08:
        raise DataError(f"{name} holds {_TYPES[head[2]]} values, expected uint8 (an IDX type of 0x08)")
    if dimensions is not None and head[3] != dimensions:
        raise DataError(
            f"{name} has {head[3]} dimensions ({_KINDS.get(head[3], 'neither images nor labels')}), "
            f"expected {dimensions} ({_KINDS.get(dimensions, 'values')})"
        )
    start = 4 + 4 * head[3]
    sizes = bytes(read_at_most(stream, start - 4))
    if len(sizes) < start - 4:
        raise DataError(f"{name} is cut off inside its header: it has {4 + len(sizes)} of {start} bytes; get it again")
    shape = struct.unpack(f">{head[3]}I", sizes)
    expected = math.prod(shape)
    values, count = bytearray(), None if length is None else length - start
    if count is None or count == expected:
        overhead = IMAGE_OVERHEAD * shape[0] if head[3] == 3 else 0
        check_memory(_COPIES * expected + overhead, stored, name)
        values = read_at_most(stream, expected)
        count = len(values) + len(read_at_most(stream, 1))  # at the end of compressed data, the checksum is verified
    if count != expected:
        fault = "cut off" if count < expected else "too long"
        size = f"at least {count:,}" if length is None and count > expected else f"{count:,}"
        what = {1: "label", 3: "image"}.get(head[3], "array")
        raise DataError(
            f"{name} is {fault}: it has {size} bytes of {what} data, its header says {expected:,} "
            f"({' x '.join(f'{size:,}' for size in shape)}); get the file again"
        )
    try:
        return np.frombuffer(values, np.uint8).reshape(shape)
    except ValueError as error:  # no values, but sides whose product is beyond all bounds
        raise DataError(f"{name} has an impossible shape, {list(shape)}; get the file again") from error
