"""Shortest paths on images of terrain: generated maps, and the published maps of the Warcraft benchmark.

`generate_maps` draws maps from a seed. `read_warcraft` reads the published files from a folder of the user.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import pi
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from hardmax.data.decisions import PARTS, Decisions
from hardmax.data.npz import read_npy
from hardmax.errors import ArgumentError, DataError
from hardmax.files import expand_path
from hardmax.random import make_generator

PIXELS = 8
"""Height and width of a cell of a map, in pixels."""


@dataclass(frozen=True)
class Terrain:
    """A kind of terrain.

    Attributes:
        cost: cost of a step onto a cell. A binary fraction: sums are exact, and equally cheap paths are recognised.
        colour: mean colour, from 0 to 1.
        contrast: standard deviation of the brightness of its texture.
    """

    cost: float
    colour: tuple[float, float, float]
    contrast: float


TERRAINS = {
    "grass": Terrain(1.0, (0.47, 0.60, 0.33), 0.05),
    "forest": Terrain(2.5, (0.33, 0.48, 0.28), 0.13),
    "sand": Terrain(1.5, (0.74, 0.67, 0.47), 0.06),
    "rock": Terrain(5.0, (0.53, 0.50, 0.46), 0.12),
    "water": Terrain(9.0, (0.33, 0.46, 0.58), 0.06),
}
"""The kinds of terrain of generated maps, in the order of their numbers."""
_SMOOTHNESS = 1.1  # cells: standard deviation of the filter that makes regions of one kind
_SHADE, _TINT, _NOISE = 0.2, 0.04, 0.06  # of an image: change of brightness to its border, of its colours, of pixels
_CHUNK = 100  # maps that are drawn at a time
_FILES = {"train": "train", "validation": "val", "test": "test"}  # prefixes of the published files


def generate_maps(sizes: Mapping[str, int], *, cells: int = 12, seed: int = 0) -> Decisions:
    """Generate images of terrain, and the cost of every cell for a path from the top left to the bottom right one.

    Each cell is of one of the five kinds of `TERRAINS`, in smooth regions: that of the largest of five smoothed fields
    of noise. An image has 8 x 8 pixels for each cell, with a texture of each kind, a gradient of the brightness, a
    tint and noise: one pixel does not tell the kind of a cell, all of them do.

    Args:
        sizes: number of examples of the parts "train", "validation" and "test".
        cells: number of rows and of columns of a map, at least 2.
        seed: seed of the maps. Parts do not depend on the sizes of other parts.

    Returns:
        Features `[N, 3, 8 cells, 8 cells]`, uint8, and costs `[N, cells, cells]`.

    Raises:
        ArgumentError: fewer than 2 rows.

    Example:
        >>> from hardmax.data import generate_maps
        >>> data = generate_maps({"train": 4, "validation": 1, "test": 2})
        >>> data
        Decisions(maps: 4 train, 1 validation, 2 test, 3x96x96 features, 12x12 costs)
        >>> data.train.dtype, data.costs["train"].unique()
        (torch.uint8, tensor([1.0000, 1.5000, 2.5000, 5.0000, 9.0000]))

    References:
        Vlastelica, Paulus, Musil, Martius & Rolinek, "Differentiation of blackbox combinatorial solvers", 2020, whose
        maps of a game have the same form.
    """
    if cells < 2:
        raise ArgumentError(f"a map needs at least 2 rows and columns of cells, got {cells}")
    prices = torch.tensor([kind.cost for kind in TERRAINS.values()])
    features, costs = {}, {}
    for part in PARTS:
        generator = make_generator(seed, "decisions", "maps", part)
        counts = [min(_CHUNK, sizes[part] - begin) for begin in range(0, sizes[part], _CHUNK)]
        drawn = [_draw_maps(count, cells, generator) for count in counts]
        features[part] = torch.cat([images for _, images in drawn])
        costs[part] = prices[torch.cat([kinds for kinds, _ in drawn])]
    source = f"images of terrain of {len(TERRAINS)} kinds, {cells} x {cells} cells"
    return Decisions("maps", source, {"grid": [cells, cells]}, **features, costs=costs)


def _draw_maps(
    count: int, cells: int, generator: torch.Generator
) -> tuple[Int64[Tensor, "N h w"], UInt8[Tensor, "N 3 H W"]]:
    """Return the kinds of the cells of some maps, and their images."""
    kinds = _smooth_noise((count, len(TERRAINS)), cells, _SMOOTHNESS, generator).argmax(1)
    images = _paint_terrain(kinds, generator) * _draw_light(count, cells * PIXELS, generator)
    images = images + _NOISE * torch.randn(images.shape, generator=generator)
    return kinds, (images.clamp(0, 1) * 255).round().to(torch.uint8)


def _smooth_noise(
    lead: tuple[int, ...], size: int, deviation: float, generator: torch.Generator
) -> Float[Tensor, "... H W"]:
    """Return normal noise of variance 1, smoothed by a filter of this standard deviation."""
    places = torch.arange(size)
    weights = torch.exp(-(places - places[:, None]).square() / (2 * deviation**2))
    weights = weights / weights.norm(dim=1, keepdim=True)
    return weights @ torch.randn(*lead, size, size, generator=generator) @ weights.mT


def _paint_terrain(kinds: Tensor, generator: torch.Generator) -> Float[Tensor, "N 3 H W"]:
    """Return the images in even light: the colour of each kind, times the brightness of its texture."""
    count, size = len(kinds), kinds.shape[-1] * PIXELS
    terrains = list(TERRAINS.values())
    wide = _enlarge(kinds, PIXELS)
    colours = torch.tensor([kind.colour for kind in terrains])[wide].movedim(-1, 1)
    contrast = torch.tensor([kind.contrast for kind in terrains])[wide]
    textures = torch.stack(
        [
            torch.randn(count, size, size, generator=generator),  # grass: fine grain
            _smooth_noise((count,), size, 1.0, generator),  # forest: tops of trees
            _draw_waves(count, size, 5.5, (0.6, 0.8), generator),  # sand: ripples across
            _enlarge(torch.randn(count, size // 2, size // 2, generator=generator), 2),  # rock: stones
            _draw_waves(count, size, 4.0, (1.0, 0.15), generator),  # water: waves
        ],
        1,
    )
    texture = textures.gather(1, wide[:, None])[:, 0]
    return colours * (1 + contrast * texture)[:, None]


def _enlarge(values: Tensor, factor: int) -> Tensor:
    """Return images in which each pixel has become a square of pixels."""
    return values.repeat_interleave(factor, -1).repeat_interleave(factor, -2)


def _draw_waves(
    count: int, size: int, length: float, direction: tuple[float, float], generator: torch.Generator
) -> Float[Tensor, "N H W"]:
    """Return waves of variance 1 along a direction (down, right), of this length in pixels and of random phases."""
    places = torch.arange(size)
    along = direction[0] * places[:, None] + direction[1] * places
    bend = 0.25 * _smooth_noise((count,), size, 3.0, generator)
    phase = torch.rand(count, 1, 1, generator=generator)
    return 2**0.5 * torch.sin(2 * pi * (along / length + phase + bend))


def _draw_light(count: int, size: int, generator: torch.Generator) -> Float[Tensor, "N 3 H W"]:
    """Return the light of images: brightness that changes in a random direction, and a tint."""
    angle = 2 * pi * torch.rand(count, 1, 1, generator=generator)
    places = torch.linspace(-1, 1, size)
    shade = _SHADE * (angle.cos() * places + angle.sin() * places[:, None])
    tint = _TINT * torch.randn(count, 3, 1, 1, generator=generator)
    return 1 + shade[:, None] + tint


def read_warcraft(folder: str | Path, sizes: Mapping[str, int] | None = None) -> Decisions:
    """Read the published maps of the Warcraft benchmark: shortest paths on images of a game.

    Files of the folder, for each PART of train, val and test, such as those of `warcraft_shortest_path/12x12`:
    `PART_maps.npy` `[N, H, W, 3]`, uint8, and `PART_vertex_weights.npy` `[N, h, w]`, the costs of the cells. The
    shortest paths, `PART_shortest_paths.npy`, are not read: they are solved for.

    Args:
        folder: the folder.
        sizes: largest number of examples of the parts "train", "validation" and "test", from the beginning; None: all.

    Returns:
        Features `[N, 3, H, W]`, uint8, and costs `[N, h, w]`.

    Raises:
        DataError: a file is missing or broken, or has another form.

    References:
        Vlastelica, Paulus, Musil, Martius & Rolinek, 2020.
    """
    folder = expand_path(folder)
    features, costs = {}, {}
    for part, prefix in _FILES.items():
        images, weights = (_find_file(folder, f"{prefix}_{name}.npy") for name in ("maps", "vertex_weights"))
        features[part], costs[part] = _read_part(images, weights, None if sizes is None else sizes[part])
        if (shapes := (features[part].shape[1:], costs[part].shape[1:])) != (
            first := (features["train"].shape[1:], costs["train"].shape[1:])
        ):
            raise DataError(
                f"{images} has maps and cells of shapes {_list_shapes(shapes)}, but the training maps have "
                f"{_list_shapes(first)}; use files of one size"
            )
    height, width = costs["train"].shape[1:]
    source = f"published images of a game, {height} x {width} cells"
    return Decisions("warcraft", source, {"grid": [height, width]}, **features, costs=costs)


def _list_shapes(shapes: tuple[torch.Size, ...]) -> str:
    return " and ".join(str(list(shape)) for shape in shapes)


def _find_file(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.is_file():
        raise DataError(
            f"{folder} has no file {name}; give the folder of the published Warcraft maps of one size, with train, val "
            "and test (--data-dir warcraft_shortest_path/12x12)"
        )
    return path


def _read_part(images: Path, weights: Path, most: int | None) -> tuple[Tensor, Tensor]:
    """Return features `[N, 3, H, W]`, uint8, and costs `[N, h, w]`, float32, of at most this number of examples."""
    maps, costs = read_npy(images), read_npy(weights)
    if maps.dtype != np.uint8 or maps.ndim != 4 or maps.shape[-1] != 3 or 0 in maps.shape:
        raise DataError(f"{images} must be uint8 of shape [N, H, W, 3], got {maps.dtype} {list(maps.shape)}")
    _, height, width, _ = maps.shape
    expected = [len(maps), height // PIXELS, width // PIXELS]
    if costs.dtype.kind not in "fiu" or list(costs.shape) != expected or height % PIXELS or width % PIXELS:
        raise DataError(
            f"{weights} must be numbers of shape {expected}, one for each {PIXELS} x {PIXELS} pixels of {images.name} "
            f"{list(maps.shape)}, got {costs.dtype} {list(costs.shape)}"
        )
    maps, costs = maps[:most], costs[:most].astype(np.float32)
    if not (np.isfinite(costs) & (costs > 0)).all():
        raise DataError(f"{weights} must be finite costs above zero, got {costs.min()} to {costs.max()}")
    return torch.from_numpy(np.ascontiguousarray(maps.transpose(0, 3, 1, 2))), torch.from_numpy(costs)
