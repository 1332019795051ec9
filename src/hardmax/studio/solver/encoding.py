"""Write painted grids and strokes as short words for the address of a page, and read them back."""

import base64
import binascii
import zlib
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from hardmax.errors import ArgumentError
from hardmax.studio.solver.image_cut import Stroke

UNIT = 16  # painted numbers are multiples of 1 / 16
_MOST_BYTES = 2**16  # of a decoded word


def round_values(values: Float[np.ndarray, "H W"]) -> Float[np.ndarray, "H W"]:
    """Return values rounded to those that a word can hold."""
    return np.round(values * UNIT) / UNIT


def encode_grid(values: Float[np.ndarray, "H W"]) -> str:
    """Return a grid of numbers, multiples of 1/16 from -8 to 15, as a word.

    Example:
        >>> import numpy as np
        >>> values = np.array([[1.0, -0.5], [9.0, 0.0]])
        >>> decode_grid(encode_grid(values), 2, 2).tolist()
        [[1.0, -0.5], [9.0, 0.0]]
    """
    return _encode(np.round(values * UNIT).astype("<i2").tobytes())


def decode_grid(word: str, height: int, width: int) -> Float[np.ndarray, "H W"]:
    """Return the grid that `encode_grid` wrote.

    Raises:
        ArgumentError: the word is broken, or a grid of another size.
    """
    content = _decode(word)
    if len(content) != 2 * height * width:
        raise ArgumentError(f"the link holds a grid of another size than {height} x {width}; copy it again")
    return np.frombuffer(content, "<i2").reshape(height, width).astype(np.float64) / UNIT


def encode_strokes(strokes: Sequence[Stroke]) -> str:
    """Return strokes as a word; radii are rounded to halves of a pixel.

    Example:
        >>> strokes = (Stroke(-1, 2.5, ((3, 4), (200, 4))),)
        >>> decode_strokes(encode_strokes(strokes)) == strokes
        True
    """
    numbers: list[int] = []
    for stroke in strokes:
        numbers += [stroke.kind, round(2 * stroke.radius), len(stroke.points)]
        numbers += [place for point in stroke.points for place in point]
    return _encode(np.array(numbers, dtype="<i2").tobytes())


def decode_strokes(word: str) -> tuple[Stroke, ...]:
    """Return the strokes that `encode_strokes` wrote.

    Raises:
        ArgumentError: the word is broken.
    """
    content = _decode(word)
    numbers = np.frombuffer(content[: len(content) // 2 * 2], "<i2").tolist()
    strokes, place = [], 0
    while place < len(numbers):
        kind, double_radius, count = [*numbers[place : place + 3], 0, 0][:3]
        end = place + 3 + 2 * count
        if kind not in (-1, 0, 1) or not 1 <= double_radius <= 200 or count < 1 or end > len(numbers):
            raise ArgumentError("the link holds broken strokes; copy it again")
        points = tuple(zip(numbers[place + 3 : end : 2], numbers[place + 4 : end : 2], strict=True))
        strokes.append(Stroke(kind, double_radius / 2, points))
        place = end
    return tuple(strokes)


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(zlib.compress(content, 9)).decode().rstrip("=")


def _decode(word: str) -> bytes:
    try:
        packed = base64.b64decode(word + "=" * (-len(word) % 4), altchars=b"-_", validate=True)
        unpacker = zlib.decompressobj()
        content = unpacker.decompress(packed, _MOST_BYTES)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise ArgumentError(f"the link is broken: {error}; copy it again") from error
    if not unpacker.eof:
        raise ArgumentError("the link is broken: it breaks off, or holds too much; copy it again")
    return content
