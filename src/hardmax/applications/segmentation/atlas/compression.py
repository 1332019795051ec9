"""Compressed bytes in the files of an atlas: most of an atlas is one repeated value."""

import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor

from hardmax.data.memory import check_memory
from hardmax.errors import DataError

AS_FLOATS = 10  # bytes of memory for each value that is read and converted to float32, with all copies


def compress_bytes(values: UInt8[Tensor, "..."]) -> UInt8[Tensor, " P"]:
    """Return compressed bytes, which `decompress_bytes` reads."""
    return torch.frombuffer(bytearray(zlib.compress(values.numpy().tobytes(), 9)), dtype=torch.uint8)


def decompress_bytes(
    stored: UInt8[Tensor, " P"], shape: tuple[int, ...], copies: int = AS_FLOATS
) -> UInt8[Tensor, "..."]:
    """Return bytes that were compressed, of a given shape; never more than that are decompressed.

    Args:
        stored: the compressed bytes.
        shape: shape of the result.
        copies: bytes of memory for each value, at the peak.

    Raises:
        ValueError: the bytes are not of this shape.
        DataError: there is not enough memory for them.
    """
    size = math.prod(shape)
    check_memory(copies * size, stored.numel(), "an array of the atlas")
    decompressor = zlib.decompressobj()
    content = decompressor.decompress(stored.numpy().tobytes(), size)
    if len(content) != size or not decompressor.eof:
        raise ValueError(f"expected {size:,} bytes for the shape {list(shape)}")
    return torch.frombuffer(bytearray(content), dtype=torch.uint8).view(shape)


@contextmanager
def describe_broken(folder: Path, what: str) -> Iterator[None]:
    """Raise a DataError in place of the errors that broken tensors or a broken configuration cause.

    Args:
        folder: the folder that was read, for the message.
        what: what it should hold, such as "an atlas".
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, RuntimeError, OverflowError, zlib.error) as error:
        raise DataError(f"{folder} does not hold {what}: {' '.join(str(error).split())}") from error
