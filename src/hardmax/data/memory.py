"""Bounds on the memory that a file may take, so that a small hostile file cannot exhaust it. Imports no torch."""

import os
from io import BufferedIOBase

from hardmax.errors import DataError

# A file may take this number of bytes, whatever its size, or this multiple of its size. An array that is copied once
# may have 256 MB, or 200 times the size of its file: images of one colour compress by a factor of 1,000, photos
# by 2 to 10, drawings by up to 100.
_ALWAYS = 512 * 2**20
_GROWTH = 400
_CHUNK = 2**20
IMAGE_OVERHEAD = 100
"""Bytes that each image takes in addition to its pixels, while images are assigned to parts."""


def check_memory(needed: int, stored: int, name: str) -> None:
    """Check that a file does not take far more memory than its size explains, nor more than this machine has.

    Args:
        needed: number of bytes in memory, with all copies, as computed from the header of the file.
        stored: size of the file, or of its part, in bytes.
        name: name of the file, or of its part, in the error message.

    Raises:
        DataError: it does.

    Example:
        >>> check_memory(needed=2 * 60_000 * 28 * 28, stored=9_912_422, name="train-images-idx3-ubyte.gz")
    """
    if needed > max(_ALWAYS, _GROWTH * stored):
        raise DataError(
            f"{name} would take {format_size(needed)} of memory, but has {format_size(stored)} in its file: that may "
            f"grow to {format_size(_ALWAYS)}, or to {_GROWTH} times its size; if this is no mistake, save it without "
            "compression"
        )
    if (memory := get_physical_memory()) is not None and needed > memory:
        raise DataError(
            f"{name} would take {format_size(needed)} of memory, and this machine has {format_size(memory)}"
        )


def get_physical_memory() -> int | None:
    """Return the size of this machine's memory in bytes; None if it is unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # unknown on this system
        return None


def format_size(count: int) -> str:
    """Return a number of bytes as text.

    Example:
        >>> format_size(900), format_size(1_500_000), format_size(2**31)
        ('900 bytes', '1.4 MB', '2.0 GB')
    """
    if count < 2**20:
        return f"{count:,} bytes"
    return f"{count / 2**30:,.1f} GB" if count >= 2**30 else f"{count / 2**20:,.1f} MB"


def read_at_most(stream: BufferedIOBase, size: int) -> bytearray:
    """Read this number of bytes, or fewer if the stream ends before; a compressed stream may be cut off.

    Args:
        stream: an open file, or the decompressed contents of one. Decompressed data beyond the last byte that is
            asked for are not kept.
        size: the number of bytes.
    """
    data = bytearray(size)  # takes memory only where it is written to
    view, count = memoryview(data), 0
    try:
        while count < size:
            # read1: if a compressed stream breaks off, read would lose the bytes before the break.
            piece = stream.read1(min(_CHUNK, size - count))
            if not piece:
                break
            view[count : count + len(piece)] = piece
            count += len(piece)
    except EOFError:  # the end of a compressed stream is missing
        pass
    view.release()
    del data[count:]
    return data
