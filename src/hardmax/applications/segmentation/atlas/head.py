"""The atlas of the whole head: the probability of brain, fluid, skull, skin, ... at each point around a mean brain.

It is made from the same label maps as the atlas of the brain, and is in the same space, so that one affine map aligns
both. Heads vary more than brains do, and several of their parts have the same brightness in many scans: such parts
share Gaussians, and parts of several tissues are mixtures of theirs. Left and right are averaged.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Shaped, UInt8
from torch import Tensor

from hardmax.applications.segmentation.atlas.compression import compress_bytes, decompress_bytes, describe_broken
from hardmax.applications.segmentation.atlas.transforms import (
    Affine,
    grid_points,
    integrate_velocity,
    warp_points,
)
from hardmax.applications.segmentation.volumes.geometry import Grid, Reorientation
from hardmax.applications.segmentation.volumes.reading import read_numbers
from hardmax.models.pretrained import check_kind, read_tensors, write_tensors

_LEVELS = 255
_SPACING = 3.0  # mm
# The box in mm around the middle of the brain: from below the chin to above the crown, symmetric in x.
_LOW, _HIGH = (-91.5, -108.0, -150.0), (91.5, 138.0, 96.0)


@dataclass(frozen=True)
class HeadPart:
    """A part of the head.

    Args:
        name: its name.
        numbers: its numbers in label maps of whole heads: those of FreeSurfer, and the clusters of SynthSeg's maps.
        tissues: names of its Gaussians.
        in_brain: whether it belongs to the brain.
    """

    name: str
    numbers: tuple[int, ...]
    tissues: tuple[str, ...]
    in_brain: bool = False


# Where a part has one tissue, that tissue is estimated from it. Numbers from 502 are clusters of similar brightness.
HEAD_PARTS = (
    HeadPart("air", (0,), ("air",)),
    HeadPart("white_matter", (2, 7, 25, 41, 46, 57, 77, 78, 79), ("white",), in_brain=True),
    HeadPart("grey_matter", (3, 8, 17, 18, 26, 42, 47, 53, 54, 58, 163, 164), ("grey",), in_brain=True),
    HeadPart("ventricle", (4, 5, 14, 15, 31, 43, 44, 63, 72, 136, 137), ("fluid",), in_brain=True),
    HeadPart("deep_grey_matter", (9, 10, 11, 12, 13, 48, 49, 50, 51, 52), ("white", "grey"), in_brain=True),
    HeadPart("brain_stem", (16, 28, 60, 85), ("white", "grey"), in_brain=True),
    HeadPart("fluid", (24,), ("fluid",)),
    HeadPart("skull", (515, 508), ("bone",)),
    HeadPart("marrow", (516,), ("marrow",)),
    HeadPart("skin", (511,), ("skin",)),
    HeadPart("soft_tissue", (507,), ("muscle", "fat")),
    HeadPart("dura", (514,), ("bone", "fluid", "muscle", "marrow")),
    HeadPart("cavity", (502, 509, 530), ("muscle", "air", "fat")),
    HeadPart("eye", (506,), ("fluid", "muscle")),
    HeadPart("spinal_cord", (512,), ("white", "grey", "muscle")),
)
_REST = 10  # soft tissue: what numbers that are not listed mean in a map of a whole head


@dataclass(frozen=True, eq=False)
class HeadAtlas:
    """Probabilities of the parts of a head around a mean brain, in the space of the brain's atlas.

    Args:
        probabilities: `[P, X, Y, Z]`, float32, in the order of `HEAD_PARTS`; they sum to one at each voxel.
        grid: grid of the voxels.
    """

    kind: ClassVar[str] = "head atlas"

    probabilities: Float[Tensor, "P X Y Z"]
    grid: Grid

    def save_pretrained(self, folder: Path) -> None:
        """Write `model.safetensors` and `config.json`: compressed bytes, probabilities in 255ths.

        Raises:
            DataError: the folder cannot be written.
        """
        stored = compress_bytes((self.probabilities * _LEVELS).round().to(torch.uint8))
        config = {
            "model": self.kind,
            "shape": list(self.probabilities.shape),
            "affine": self.grid.affine.tolist(),
            "parts": [part.name for part in HEAD_PARTS],
        }
        write_tensors(folder, {"probabilities": stored}, config)

    @classmethod
    def from_pretrained(cls, folder: Path) -> "HeadAtlas":
        """Load the atlas that `save_pretrained` wrote.

        Raises:
            DataError: a file is missing or broken, or of another kind of model.
        """
        tensors, config = read_tensors(folder, "head atlas")
        check_kind(config, cls.kind, folder)
        return cls.from_tensors(tensors, config, folder)

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], config: dict[str, Any], folder: Path) -> "HeadAtlas":
        """Build an atlas from saved tensors and their configuration; the folder is for error messages.

        Raises:
            DataError: the tensors are not those of an atlas of heads.
        """
        with describe_broken(folder, "an atlas of heads"):
            shape = tuple(config["shape"])
            if len(shape) != 4 or not all(type(side) is int and side > 0 for side in shape):
                raise ValueError(f"its shape is {config['shape']!r:.80}")
            names = [part.name for part in HEAD_PARTS]
            if config["parts"] != names or shape[0] != len(names):
                raise ValueError(f"its parts are {config['parts']!r:.200}, expected {', '.join(names)}")
            stored = decompress_bytes(tensors["probabilities"], shape).float()
            grid = Grid(shape[1:], np.array(config["affine"], dtype=np.float64))
            return cls(_normalise(stored), grid)


@dataclass(frozen=True, eq=False)
class HeadMap:
    """A label map of a whole head.

    Attributes:
        parts: `[X, Y, Z]`, index in `HEAD_PARTS` of each voxel.
        grid: grid of the voxels, with axes nearest to R, A and S.
    """

    parts: UInt8[np.ndarray, "X Y Z"]
    grid: Grid


def read_head_map(path: Path) -> HeadMap | None:
    """Read a label map of a whole head; return None if it has no skin, no skull or no fluid around the brain.

    Raises:
        DataError: the file cannot be read.
    """
    numbers, grid, _ = read_numbers(path)
    reorientation = Reorientation(grid)
    parts = np.ascontiguousarray(reorientation.forward(find_head_parts(numbers)))
    present = {HEAD_PARTS[index].name for index in np.unique(parts)}
    return HeadMap(parts, reorientation.canonical) if {"skin", "skull", "fluid"} <= present else None


def find_head_parts(numbers: Shaped[np.ndarray, "..."]) -> UInt8[np.ndarray, "..."]:
    """Return the index of the part of the head, in `HEAD_PARTS`, of each voxel of a map of a whole head.

    Example:
        >>> find_head_parts(np.array([0, 41, 511, 17])).tolist()
        [0, 1, 9, 2]
    """
    part_of = {number: index for index, part in enumerate(HEAD_PARTS) for number in part.numbers}
    values, places = np.unique(numbers, return_inverse=True)
    parts = np.array([part_of.get(int(number), _REST) for number in values], dtype=np.uint8)
    return parts[places].reshape(numbers.shape)


@torch.no_grad()
def build_head_atlas(
    maps: Sequence[HeadMap],
    affines: Sequence[Affine],
    velocities: Float[Tensor, "N 3 U V W"],
    velocity_grid: Grid,
) -> HeadAtlas:
    """Return the mean of maps of heads that are aligned by their brains, left and right averaged.

    A map ends at the neck: what lies below is unknown, and does not count in the mean. Elsewhere a voxel outside of a
    map is air.

    Args:
        maps: the maps.
        affines: affine map from the atlas to each map's world, as `align_maps` returns them.
        velocities: deformation of each map, which is applied before its affine map.
        velocity_grid: grid of the deformations.
    """
    grid = _make_head_grid()
    points = grid_points(grid)
    total, weight = torch.zeros(len(HEAD_PARTS), len(points)), torch.zeros(len(points))
    for head_map, affine, velocity in zip(maps, affines, velocities, strict=True):
        map_points = affine(warp_points(points, integrate_velocity(velocity, velocity_grid), velocity_grid))
        indices = np.rint(head_map.grid.to_voxels(map_points.double().numpy())).astype(np.int64)
        ends = np.array(head_map.grid.shape)
        known = torch.from_numpy(indices[:, 2] >= 0)
        outside = ((indices < 0) | (indices >= ends)).any(1)
        parts = head_map.parts[tuple(np.clip(indices, 0, ends - 1).T)]
        parts[outside] = 0
        total.scatter_add_(0, torch.from_numpy(parts)[None].long(), known[None].float())
        weight += known
    mean = (total / weight.clamp_min(1)).view(-1, *grid.shape)
    counted = weight.view(grid.shape)
    mean, counted = (mean + mean.flip(1)) / 2, torch.minimum(counted, counted.flip(0))
    for z in range(grid.shape[2] - 2, -1, -1):  # below all maps: the neck goes on
        unknown = counted[..., z] == 0
        mean[..., z] = torch.where(unknown, mean[..., z + 1], mean[..., z])
    return HeadAtlas(_normalise(mean), grid)


def _make_head_grid() -> Grid:
    low, high = np.array(_LOW), np.array(_HIGH)
    affine = np.diag([_SPACING, _SPACING, _SPACING, 1.0])
    affine[:3, 3] = low
    x, y, z = (math.floor(side) + 1 for side in (high - low) / _SPACING)
    return Grid((x, y, z), affine)


def _normalise(values: Float[Tensor, "P X Y Z"]) -> Float[Tensor, "P X Y Z"]:
    return values / values.sum(0).clamp_min(1e-6)
