"""Tensors as pictures: grids of them, files, and PNG for a page."""

import base64
import io
import math
from pathlib import Path

import torch
from jaxtyping import Float, Shaped
from PIL import Image
from torch import Tensor
from torch.nn.functional import interpolate

from hardmax.errors import ArgumentError, DtypeError, ShapeError
from hardmax.writing import replacing

_GREY = 128  # between the pictures of a grid: seen beside black, white and colours
_LARGEST = 128  # pixels of a side on a page: a report of large pictures stays small


def grid(pictures: Shaped[Tensor, "..."], columns: int | None = None, padding: int = 2) -> Image.Image:
    """Lay pictures out in a grid, row by row, with grey lines between and around them.

    Args:
        pictures: `[N, channels, H, W]`. One channel is grey, three are RGB; values in [0, 1], others are cut off.
        columns: pictures in a row; None makes about as many columns as rows.
        padding: width of the lines, in pixels.

    Returns:
        A picture in mode "L" or "RGB".

    Raises:
        ShapeError: these are no pictures.
        DtypeError: their values are no floats.
        ArgumentError: columns < 1 or padding < 0.

    Example:
        >>> import torch
        >>> grid(torch.rand(10, 1, 28, 28), columns=5).size
        (152, 62)
    """
    if pictures.dim() != 4 or pictures.shape[1] not in (1, 3) or 0 in pictures.shape:
        raise ShapeError(
            f"expected pictures [N, channels, H, W] with 1 or 3 channels, got {tuple(pictures.shape)}; a single "
            "picture x is x[None]"
        )
    if not pictures.is_floating_point():
        raise DtypeError(f"expected pictures of floats in [0, 1], got {pictures.dtype}; divide bytes by 255")
    if (columns is not None and columns < 1) or padding < 0:
        raise ArgumentError(f"columns must be at least 1 and padding at least 0, got {columns} and {padding}")
    count, channels, height, width = pictures.shape
    columns = min(columns or math.ceil(math.sqrt(count)), count)
    rows = -(-count // columns)
    size = (channels, rows * (height + padding) + padding, columns * (width + padding) + padding)
    canvas = torch.full(size, _GREY, dtype=torch.uint8)
    pixels = (pictures.detach().float().nan_to_num(0.0).clamp(0, 1) * 255).round().to(torch.uint8).cpu()
    for index, picture in enumerate(pixels):
        top = index // columns * (height + padding) + padding
        left = index % columns * (width + padding) + padding
        canvas[:, top : top + height, left : left + width] = picture
    return Image.fromarray(canvas[0].numpy() if channels == 1 else canvas.permute(1, 2, 0).contiguous().numpy())


def shrink(pictures: Float[Tensor, "N channels H W"]) -> Float[Tensor, "N channels h w"]:
    """Return pictures no larger than a page needs."""
    height, width = pictures.shape[2:]
    if (longest := max(height, width)) <= _LARGEST:
        return pictures
    size = [max(1, round(side * _LARGEST / longest)) for side in (height, width)]
    return interpolate(pictures, size=size, mode="area")


def difference(
    before: Float[Tensor, "N channels H W"], after: Float[Tensor, "N channels H W"]
) -> Float[Tensor, "N 3 H W"]:
    """Return what changes as colours: orange where it gets brighter, blue where darker, black where it stays.

    The scale is one for all pictures, so that a change that is weak among them looks weak.
    """
    change = (after - before).mean(1)
    change = change / change.abs().amax().clamp_min(1e-6)
    up, down = change.clamp_min(0), (-change).clamp_min(0)
    return torch.stack([up + 0.2 * down, 0.6 * up + 0.55 * down, 0.1 * up + down], 1)


def data_uri(picture: Image.Image) -> str:
    """Return a picture as PNG inside an address, which a page needs no file for."""
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def save(picture: Image.Image, path: Path) -> None:
    """Write a picture under a temporary name, then rename it; its format is what the name ends with, else PNG.

    Raises:
        DataError: the file cannot be written.
    """
    kind = Image.registered_extensions().get(path.suffix.lower(), "PNG")
    with replacing(path) as temporary:
        try:
            picture.save(temporary, format=kind)
        except ValueError as error:  # a format that Pillow only reads
            raise OSError(str(error)) from error
