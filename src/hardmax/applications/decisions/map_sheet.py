"""A sheet of maps: for each one the terrain, the predicted costs, the path of the model, and the best path."""

from collections.abc import Sequence

import matplotlib
import numpy as np
import torch
from jaxtyping import Float, Shaped
from PIL import Image, ImageDraw
from torch import Tensor

from hardmax.applications.decisions.model import DecisionModel
from hardmax.drawing.images import make_sheet

_PANEL = 192  # height of a panel in pixels
_FINE = 4  # paths are drawn this much larger, then shrunk: smooth lines
_CASING, _CHOSEN, _BEST = (20, 20, 20), (255, 159, 28), (255, 255, 255)
_WIDTHS = 0.44, 0.26  # of the dark border of a path and of the path itself, in cells
HEADS = ("terrain", "predicted costs", "path of the model", "best path")


def order_cells(z: Shaped[Tensor, "h w"]) -> list[tuple[int, int]]:
    """Return the cells of a path from the top left one to the bottom right one, as rows and columns.

    Args:
        z: ones for the cells of a path. No two of its cells are neighbours unless one follows the other: a path with
            positive costs would take the step between them.
    """
    left = {(int(row), int(column)) for row, column in z.nonzero()}
    cells = [(0, 0)]
    left.discard((0, 0))
    while True:
        row, column = cells[-1]
        near = [cell for cell in left if abs(cell[0] - row) <= 1 and abs(cell[1] - column) <= 1]
        if not near:
            return cells
        # Of a path with ties, which may touch itself, the straight step comes first.
        cells.append(min(near, key=lambda cell: abs(cell[0] - row) + abs(cell[1] - column)))
        left.remove(cells[-1])


def draw_map_sheet(
    model: DecisionModel,
    features: Shaped[Tensor, "N 3 H W"],
    costs: Float[Tensor, "N h w"],
    best: Float[Tensor, "N h w"],
    numbers: Sequence[int],
) -> Image.Image:
    """Draw a few maps, one in each row: terrain, predicted costs, the path of the model and the best path.

    Args:
        model: a model of maps.
        features: images, with values from 0 to 255.
        costs: true costs.
        best: best paths.
        numbers: the numbers of the examples, for the captions.
    """
    with torch.no_grad():
        predicted = -model(features)
    chosen = model.space.argmax(-predicted)
    rows, captions = [], []
    for i, number in enumerate(numbers):
        terrain = Image.fromarray(features[i].byte().movedim(0, -1).contiguous().numpy())
        panels = [_enlarge(terrain), _colour_costs(predicted[i])]
        panels += [_draw_path(terrain, z[i], colour) for z, colour in ((chosen, _CHOSEN), (best, _BEST))]
        rows.append(torch.stack([torch.from_numpy(np.array(panel)).movedim(-1, 0) for panel in panels]).float() / 255)
        cost, optimum = (float((costs[i].double() * z[i]).sum()) for z in (chosen, best))
        captions.append(f"map {number}\ncost {cost:.1f}\nbest {optimum:.1f}")
    return make_sheet(torch.stack(rows), names=("",), heads=[(head,) for head in HEADS], rows=captions)


def _enlarge(image: Image.Image, factor: int = 1) -> Image.Image:
    width = round(_PANEL * image.width / image.height)
    return image.resize((factor * width, factor * _PANEL), Image.Resampling.NEAREST)


def _colour_costs(costs: Tensor) -> Image.Image:
    """Return costs as colours, from the smallest of the map (dark) to the largest (bright)."""
    low, high = costs.min(), costs.max()
    colours = matplotlib.colormaps["viridis"](((costs - low) / (high - low).clamp_min(1e-12)).numpy(), bytes=True)
    return _enlarge(Image.fromarray(np.ascontiguousarray(colours[..., :3])))


def _draw_path(terrain: Image.Image, z: Tensor, colour: tuple[int, int, int]) -> Image.Image:
    """Return the terrain with a path."""
    canvas = _enlarge(terrain, _FINE)
    side = canvas.height / z.shape[0]
    points = [(side * (column + 0.5), side * (row + 0.5)) for row, column in order_cells(z)]
    pen = ImageDraw.Draw(canvas)
    for width, ink in zip(_WIDTHS, (_CASING, colour), strict=True):
        radius = width * side / 2
        pen.line(points, ink, round(2 * radius))
        for x, y in points:  # round joints and ends
            pen.ellipse((x - radius, y - radius, x + radius, y + radius), ink)
    return canvas.resize((canvas.width // _FINE, canvas.height // _FINE), Image.Resampling.BOX)
