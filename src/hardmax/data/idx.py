"""IDX, the file format of MNIST: two zero bytes, a type, the number of dimensions, their sizes, the values."""

import math
import struct
import zlib
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from hardmax.errors import DataError

GZIP = b"\x1f\x8b"
_TYPES = {0x08: "uint8", 0x09: "int8", 0x0B: "int16", 0x0C: "int32", 0x0D: "float32", 0x0E: "float64"}
_KINDS = {1: "labels", 3: "images"}


def read_idx(path: Path, dimensions: int | None = None) -> UInt8[np.ndarray, "..."]:
    """Read an IDX file of bytes, gzipped or plain.

    Args:
        path: the file.
        dimensions: required number of dimensions: 3 for images `[N, H, W]`, 1 for labels `[N]`; None for any.

    Returns:
        The values, in the shape given by the header.

    Raises:
        DataError: the file cannot be read, is not an IDX file, is truncated, or holds other data.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    return parse_idx(data, str(path), dimensions)


def parse_idx(data: bytes, name: str, dimensions: int | None = None) -> UInt8[np.ndarray, "..."]:
    """Parse the bytes of an IDX file; `name` is its name in error messages. Otherwise the same as `read_idx`."""
    if data.startswith(GZIP):
        data = _decompress(data, name)
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _TYPES:
        raise DataError(
            f"{name} is not an IDX file: it starts with {data[:4]!r}, expected gzip or the bytes 00 00 08 and the "
            "number of dimensions; perhaps a web page was saved in its place: get the file again"
        )
    if data[2] != 0x08:
        raise DataError(f"{name} holds {_TYPES[data[2]]} values, expected uint8 (an IDX type of 0x08)")
    if dimensions is not None and data[3] != dimensions:
        raise DataError(
            f"{name} has {data[3]} dimensions ({_KINDS.get(data[3], 'neither images nor labels')}), "
            f"expected {dimensions} ({_KINDS.get(dimensions, 'values')})"
        )
    start = 4 + 4 * data[3]
    if len(data) < start:
        raise DataError(f"{name} is cut off inside its header: it has {len(data)} of {start} bytes; get it again")
    shape = struct.unpack(f">{data[3]}I", data[4:start])
    what, expected = {1: "label", 3: "image"}.get(data[3], "array"), math.prod(shape)
    if len(data) - start != expected:
        fault = "is cut off" if len(data) - start < expected else "is too long"
        raise DataError(
            f"{name} {fault}: it has {len(data) - start:,} bytes of {what} data, its header says {expected:,} "
            f"({' x '.join(f'{size:,}' for size in shape)}); get the file again"
        )
    # A bytearray, since torch needs writable memory.
    return np.frombuffer(bytearray(data[start:]), np.uint8).reshape(shape)


def _decompress(data: bytes, name: str) -> bytes:
    """Decompress gzip; return the available part of a truncated file, whose header shows how much is missing."""
    pieces: list[bytes] = []
    try:
        while data.startswith(GZIP):
            member = zlib.decompressobj(wbits=31)
            pieces.append(member.decompress(data))
            data = member.unused_data
    except zlib.error as error:
        raise DataError(f"{name} is broken: its gzip data cannot be decompressed ({error}); get it again") from error
    return b"".join(pieces)
