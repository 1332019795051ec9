"""Turn tensors into images: grids, sheets with captions, files, and PNG inside a page."""

import base64
import io
import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import torch
from jaxtyping import Float, Shaped
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor
from torch.nn.functional import interpolate

from hardmax.errors import ArgumentError, DtypeError, ShapeError
from hardmax.files import write_output
from hardmax.names import escape_control_characters

_GREY = 128  # between the images of a grid: visible next to black, white and colours
_LARGEST = 128  # maximum of height and width of an image on a page, so that the page stays small


def make_grid(images: Shaped[Tensor, "..."], columns: int | None = None, padding: int = 2) -> Image.Image:
    """Lay images out in a grid, row by row, with grey lines between and around them.

    Args:
        images: `[N, channels, H, W]`. One channel is grey, three are RGB; values are clipped to [0, 1].
        columns: number of images in a row; None makes the grid about square.
        padding: width of the lines, in pixels.

    Returns:
        An image in mode "L" or "RGB".

    Raises:
        ShapeError: the tensor has another shape.
        DtypeError: the values are not floats.
        ArgumentError: columns < 1 or padding < 0.

    Example:
        >>> import torch
        >>> make_grid(torch.rand(10, 1, 28, 28), columns=5).size
        (152, 62)
    """
    if images.dim() != 4 or images.shape[1] not in (1, 3) or 0 in images.shape:
        raise ShapeError(
            f"expected images [N, channels, H, W] with 1 or 3 channels, got {tuple(images.shape)}; a single "
            "image x is x[None]"
        )
    if not images.is_floating_point():
        raise DtypeError(f"expected images of floats in [0, 1], got {images.dtype}; divide bytes by 255")
    if (columns is not None and columns < 1) or padding < 0:
        raise ArgumentError(f"columns must be at least 1 and padding at least 0, got {columns} and {padding}")
    count, channels, height, width = images.shape
    columns = min(columns or math.ceil(math.sqrt(count)), count)
    rows = -(-count // columns)
    size = (channels, rows * (height + padding) + padding, columns * (width + padding) + padding)
    canvas = torch.full(size, _GREY, dtype=torch.uint8)
    pixels = (images.detach().float().nan_to_num(0.0).clamp(0, 1) * 255).round().to(torch.uint8).cpu()
    for index, image in enumerate(pixels):
        top = index // columns * (height + padding) + padding
        left = index % columns * (width + padding) + padding
        canvas[:, top : top + height, left : left + width] = image
    return Image.fromarray(canvas[0].numpy() if channels == 1 else canvas.permute(1, 2, 0).contiguous().numpy())


def shrink_image(images: Float[Tensor, "N channels H W"]) -> Float[Tensor, "N channels h w"]:
    """Return images, downsampled to the maximum size on a page."""
    height, width = images.shape[2:]
    if (longest := max(height, width)) <= _LARGEST:
        return images
    size = [max(1, round(side * _LARGEST / longest)) for side in (height, width)]
    return interpolate(images, size=size, mode="area")


def colour_difference(
    before: Float[Tensor, "N channels H W"], after: Float[Tensor, "N channels H W"]
) -> Float[Tensor, "N 3 H W"]:
    """Return differences as colours: orange where pixels get brighter, blue where darker, black where unchanged.

    All images share one scale, so that a relatively weak change looks weak.
    """
    change = (after - before).mean(1)
    change = change / change.abs().amax().clamp_min(1e-6)
    up, down = change.clamp_min(0), (-change).clamp_min(0)
    return torch.stack([up + 0.2 * down, 0.6 * up + 0.55 * down, 0.1 * up + down], 1)


def encode_data_uri(image: Image.Image, *, optimize: bool = True) -> str:
    """Return an image as a PNG data URI, to embed in a page.

    Args:
        image: the image.
        optimize: make the file small; for an image that is shown once, a larger file is faster to make.
    """
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=optimize, compress_level=9 if optimize else 1)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def read_data_uri(uri: str) -> Image.Image:
    """Return the image in a data URI that `encode_data_uri` returned."""
    return Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))


def save_image(image: Image.Image, path: Path) -> None:
    """Write an image to a file atomically; the suffix determines the format, PNG by default.

    Raises:
        DataError: the file cannot be written.
    """
    kind = Image.registered_extensions().get(path.suffix.lower(), "PNG")
    with write_output(path) as temporary:
        try:
            image.save(temporary, format=kind)
        except ValueError as error:  # a format that Pillow reads but does not write
            raise OSError(str(error)) from error


_LEAST = 64  # minimum of height and width; smaller images are enlarged by an integer factor
_GAP, _MARGIN, _LINE, _LETTERS = 4, 8, 17, 13  # pixels
_PAPER, _INK = (255, 255, 255), (40, 40, 40)


def make_sheet(
    images: Float[Tensor, "R C channels H W"],
    *,
    names: Sequence[str],
    heads: Sequence[Sequence[str]],
    rows: Sequence[str] = (),
) -> Image.Image:
    """Lay images out in a grid with captions.

    Args:
        images: images by row and column.
        names: names of the lines of captions above the images, at the left.
        heads: the captions above each column, one for each of these lines.
        rows: the caption next to each row, which may have several lines; none if empty.

    Returns:
        An image in mode "RGB", black on white.

    Raises:
        ArgumentError: there is not one caption for each line and column, or not one for each row.
    """
    count, columns = images.shape[:2]
    if len(heads) != columns or any(len(head) != len(names) for head in heads) or len(rows) not in (0, count):
        raise ArgumentError(
            f"a sheet of {count} rows and {columns} columns needs a caption for each, with {len(names)} lines above a "
            f"column; got {len(rows)} and {[len(head) for head in heads]}"
        )
    names, heads = _make_visible(names), [_make_visible(head) for head in heads]
    rows = ["\n".join(_make_visible(row.splitlines())) for row in rows] or [""] * count
    scale = -(-_LEAST // min(images.shape[-2:]))
    height, width = (scale * side for side in images.shape[-2:])
    # DejaVu comes with matplotlib and has the letters of many languages.
    font = ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf", _LETTERS)
    wide = max([width, *(_measure_width(font, word) for head in heads for word in head)])
    left = max([0, *(_measure_width(font, line) for text in (*names, *rows) for line in text.splitlines())])
    left, top = _MARGIN + (left + _MARGIN if left else 0), _MARGIN + _LINE * len(names)
    high = max([height, *(_LINE * len(text.splitlines()) for text in rows)])
    size = (left + columns * (wide + _GAP) - _GAP + _MARGIN, top + count * (high + _GAP) - _GAP + _MARGIN)
    sheet = Image.new("RGB", size, _PAPER)
    pen = ImageDraw.Draw(sheet)
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
            image = make_grid(images[row, column, None], padding=0).resize((width, height), Image.Resampling.NEAREST)
            place = left + column * (wide + _GAP) + (wide - width) // 2
            sheet.paste(image, (place, top + row * (high + _GAP) + (high - height) // 2))
    return sheet


def _make_visible(texts: Sequence[str]) -> list[str]:
    return [escape_control_characters(text) for text in texts]


def _measure_width(font: ImageFont.FreeTypeFont, text: str) -> int:
    return round(font.getlength(text)) + 1
