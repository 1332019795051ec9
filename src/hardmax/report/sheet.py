"""A sheet of pictures with words above its columns and beside its rows, to be understood by itself."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from jaxtyping import Float
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.report.pictures import grid

_LEAST = 64  # pixels of a picture's shorter side; smaller ones are enlarged by a whole number
_GAP, _MARGIN, _LINE, _LETTERS = 4, 8, 17, 13  # pixels
_PAPER, _INK = (255, 255, 255), (40, 40, 40)


def sheet(
    pictures: Float[Tensor, "R C channels H W"],
    *,
    names: Sequence[str],
    heads: Sequence[Sequence[str]],
    rows: Sequence[str] = (),
) -> Image.Image:
    """Lay pictures out with words.

    Args:
        pictures: by row and column.
        names: of the lines above the pictures, at the left.
        heads: what stands above each column, one word for each of those lines.
        rows: what stands beside each row, in lines of its own; none if empty.

    Returns:
        A picture in mode "RGB", black on white.

    Raises:
        ArgumentError: not one word for each line and column, or not one text for each row.
    """
    count, columns = pictures.shape[:2]
    if len(heads) != columns or any(len(head) != len(names) for head in heads) or len(rows) not in (0, count):
        raise ArgumentError(
            f"a sheet of {count} rows and {columns} columns needs so many texts, with {len(names)} words above each "
            f"column; got {len(rows)} and {[len(head) for head in heads]}"
        )
    rows = rows or [""] * count
    scale = -(-_LEAST // min(pictures.shape[-2:]))
    height, width = (scale * side for side in pictures.shape[-2:])
    # DejaVu comes with matplotlib and has the letters of many languages.
    font = ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf", _LETTERS)
    wide = max([width, *(_length(font, word) for head in heads for word in head)])
    left = max([0, *(_length(font, line) for text in (*names, *rows) for line in text.splitlines())])
    left, top = _MARGIN + (left + _MARGIN if left else 0), _MARGIN + _LINE * len(names)
    high = max([height, *(_LINE * len(text.splitlines()) for text in rows)])
    size = (left + columns * (wide + _GAP) - _GAP + _MARGIN, top + count * (high + _GAP) - _GAP + _MARGIN)
    drawn = Image.new("RGB", size, _PAPER)
    pen = ImageDraw.Draw(drawn)
    for line, name in enumerate(names):
        pen.text((left - _MARGIN, _MARGIN + _LINE * line), name, _INK, font, anchor="ra")
        for column, head in enumerate(heads):
            at = left + column * (wide + _GAP) + wide // 2
            pen.text((at, _MARGIN + _LINE * line), head[line], _INK, font, anchor="ma")
    for row, text in enumerate(rows):
        lines = text.splitlines()
        begin = top + row * (high + _GAP) + (high - _LINE * len(lines)) // 2
        for line, words in enumerate(lines):
            pen.text((left - _MARGIN, begin + _LINE * line), words, _INK, font, anchor="ra")
        for column in range(columns):
            one = grid(pictures[row, column, None], padding=0).resize((width, height), Image.Resampling.NEAREST)
            place = left + column * (wide + _GAP) + (wide - width) // 2
            drawn.paste(one, (place, top + row * (high + _GAP) + (high - height) // 2))
    return drawn


def _length(font: ImageFont.FreeTypeFont, text: str) -> int:
    return round(font.getlength(text)) + 1
