"""The location prior: the probability of each structure at each point of a mean brain, from label maps only.

The maps are aligned to their mean in several rounds (`alignment`): by centroids, by affine maps, then by smooth
deformations. The mean of the deformations is zero, so that the template has the mean shape. Left and right are
averaged.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, UInt8
from scipy import ndimage
from torch import Tensor
from torch.nn import functional

from hardmax.applications.segmentation.atlas.alignment import (
    SoftMap,
    align_by_centroids,
    fit_velocity,
    make_soft_map,
    measure_shape,
    refine_affine,
)
from hardmax.applications.segmentation.atlas.compression import compress_bytes, decompress_bytes, describe_broken
from hardmax.applications.segmentation.atlas.head import build_head_atlas, read_head_map
from hardmax.applications.segmentation.atlas.transforms import (
    Affine,
    grid_points,
    integrate_velocity,
    make_centred_grid,
    sample_at,
    to_channels_last,
    warp_points,
)
from hardmax.applications.segmentation.model_folder import ATLAS, HEAD
from hardmax.applications.segmentation.volumes.geometry import Grid
from hardmax.applications.segmentation.volumes.labels import STRUCTURES, LabelTable
from hardmax.applications.segmentation.volumes.reading import read_labels
from hardmax.errors import DataError
from hardmax.models.pretrained import check_kind, read_tensors, write_tensors
from hardmax.random import make_generator

Progress = Callable[[float, str], None]

TEMPLATE_GRID = make_centred_grid((80, 96, 80), 2.0)
VELOCITY_GRID = make_centred_grid((22, 26, 22), 8.0)  # extends beyond the template, as brains do
_LEVELS = 255
_PER_MM, _MIDDLE = 10, 128  # a byte of a velocity is its value in tenths of mm plus 128: -12.8 to 12.7 mm
_AS_BYTES = 2  # bytes of memory for each value that is read, with all copies
_FEWEST = 2  # least number of maps: with one map there is nothing to average


@dataclass(frozen=True, eq=False)
class Atlas:
    """Probabilities of labels at each voxel of a mean brain, the template.

    An atlas is saved like an `AbstractModel`, but is not one: it has no weights, and it is stored as compressed bytes,
    a twentieth of the size of its tensors.

    Args:
        probabilities: `[M, X, Y, Z]`, float32; they sum to one at each voxel.
        grid: grid of the voxels.
        table: all labels.
        kept: the M indices in the table that the atlas distinguishes. Fluid around the brain (`csf`) is background.
        maps: `[N, X, Y, Z]`, labels 0..M-1 of the aligned maps, whose mean the atlas is; used by `fusion`.
        velocities: `[N, 3, U, V, W]` on `VELOCITY_GRID`, mm: the deformation that makes each map agree with the others,
            that is, how the shapes of people vary; used by `vae.pca`.

    Example:
        >>> import tempfile
        >>> grid = make_centred_grid((4, 4, 4), 2.0)
        >>> atlas = Atlas(
        ...     torch.full((2, 4, 4, 4), 0.5),
        ...     grid,
        ...     STRUCTURES,
        ...     (0, 1),
        ...     torch.zeros(3, 4, 4, 4, dtype=torch.uint8),
        ...     torch.zeros(3, 3, *VELOCITY_GRID.shape),
        ... )
        >>> folder = Path(tempfile.mkdtemp())
        >>> atlas.save_pretrained(folder)
        >>> Atlas.from_pretrained(folder).probabilities.sum(0).unique()
        tensor([1.])
    """

    kind: ClassVar[str] = "atlas"

    probabilities: Float[Tensor, "M X Y Z"]
    grid: Grid
    table: LabelTable
    kept: tuple[int, ...]
    maps: UInt8[Tensor, "N X Y Z"]
    velocities: Float[Tensor, "N 3 U V W"]

    def save_pretrained(self, folder: Path) -> None:
        """Write `model.safetensors` and `config.json`: compressed bytes, probabilities in 255ths, velocities in 0.1 mm.

        Raises:
            DataError: the folder cannot be written.
        """
        tensors = {
            "probabilities": compress_bytes((self.probabilities * _LEVELS).round().to(torch.uint8)),
            "maps": compress_bytes(self.maps),
            "velocities": compress_bytes(((self.velocities * _PER_MM).round() + _MIDDLE).clamp(0, 255).to(torch.uint8)),
        }
        config = {
            "model": self.kind,
            "shape": list(self.probabilities.shape),
            "affine": self.grid.affine.tolist(),
            "table": json.loads(self.table.to_json()),
            "kept": list(self.kept),
            "maps": len(self.maps),
        }
        write_tensors(folder, tensors, config)

    @classmethod
    def from_pretrained(cls, folder: Path) -> "Atlas":
        """Load the atlas that `save_pretrained` wrote.

        Raises:
            DataError: a file is missing or broken, or of another kind of model.
        """
        tensors, config = read_tensors(folder, "atlas")
        check_kind(config, cls.kind, folder)
        return cls.from_tensors(tensors, config, folder)

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], config: dict[str, Any], folder: Path) -> "Atlas":
        """Build an atlas from saved tensors and their configuration; the folder is for error messages.

        Raises:
            DataError: the tensors are not those of an atlas.
        """
        with describe_broken(folder, "an atlas"):
            shape, count = tuple(config["shape"]), config["maps"]
            if len(shape) != 4 or not all(type(side) is int and side > 0 for side in (*shape, count)):
                raise ValueError(f"its shape is {config['shape']!r:.80}, with {count!r:.20} maps")
            table, kept = LabelTable.from_json(json.dumps(config["table"])), tuple(config["kept"])
            if len(kept) != shape[0] or not all(type(index) is int and 0 <= index < len(table) for index in kept):
                raise ValueError(f"its {shape[0]} labels are {kept!r:.80}, expected places in a table of {len(table)}")
            stored = decompress_bytes(tensors["probabilities"], shape).float()
            maps = decompress_bytes(tensors["maps"], (count, *shape[1:]), _AS_BYTES)
            if maps.max() >= len(kept):
                raise ValueError(f"a map has the label {int(maps.max())}, and there are {len(kept)}")
            stored_velocities = decompress_bytes(tensors["velocities"], (count, 3, *VELOCITY_GRID.shape))
            velocities = (stored_velocities.float() - _MIDDLE) / _PER_MM
            grid = Grid(shape[1:], np.array(config["affine"], dtype=np.float64))
            probabilities = stored / stored.sum(0).clamp_min(1)
            return cls(probabilities, grid, table, kept, maps, velocities)


@dataclass(frozen=True, eq=False)
class AlignedMaps:
    """Label maps, their alignment to a template, and the template.

    Attributes:
        maps: the original maps.
        affines: affine maps from the template's space to that of each map.
        velocities: `[N, 3, X, Y, Z]` on `velocity_grid`; the deformation is applied before the affine map.
        velocity_grid: grid of the velocities.
        template: mean of the aligned maps, left and right averaged.
    """

    maps: list[SoftMap]
    affines: list[Affine]
    velocities: Float[Tensor, "N 3 X Y Z"]
    velocity_grid: Grid
    template: SoftMap

    def resample(self, index: int, grid: Grid) -> Float[Tensor, "M X Y Z"]:
        """Return an aligned map on a grid in the template's space."""
        displacement = integrate_velocity(self.velocities[index], self.velocity_grid)
        return resample_map(self.maps[index], self.affines[index], grid, displacement, self.velocity_grid)


def resample_map(
    soft_map: SoftMap,
    affine: Affine,
    grid: Grid,
    displacement: Tensor | None = None,
    displacement_grid: Grid | None = None,
) -> Float[Tensor, "M X Y Z"]:
    """Return a map on a grid in the template's space."""
    points = grid_points(grid)
    if displacement is not None and displacement_grid is not None:
        points = warp_points(points, displacement, displacement_grid)
    return sample_at(to_channels_last(soft_map.probabilities), soft_map.grid, affine(points)).view(-1, *grid.shape)


def build_prior(maps: Sequence[Path], out: Path, progress: Progress | None = None) -> None:
    """Build an atlas from files of label maps and write it into a folder; from maps of whole heads also theirs.

    Args:
        maps: files of label maps, at least two, in the numbers of hardmax or of FreeSurfer.
        out: folder to write to.
        progress: called with the fraction that is done, 0 to 1, and a description of the current step.

    Raises:
        DataError: fewer than two maps, a map that cannot be read, or a folder that cannot be written.
    """
    progress = progress or (lambda part, doing: None)
    kept = select_labels(STRUCTURES)
    soft_maps, heads = [], []
    for number, path in enumerate(maps):
        progress(0.1 * number / len(maps), f"reading {path.name}")
        label_map = read_labels(path)
        soft_maps.append(make_soft_map(label_map.labels, label_map.grid, kept))
        if len(heads) == number and (parts := read_head_map(path)) is not None:
            heads.append(parts)
    aligned = align_maps(soft_maps, lambda part, doing: progress(0.1 + 0.8 * part, doing))
    build_atlas(aligned, STRUCTURES, kept).save_pretrained(out / ATLAS)
    if len(heads) == len(maps):
        progress(0.9, "the atlas of the head")
        build_head_atlas(heads, aligned.affines, aligned.velocities, aligned.velocity_grid).save_pretrained(out / HEAD)


@torch.no_grad()
def build_atlas(aligned: AlignedMaps, table: LabelTable, kept: tuple[int, ...]) -> Atlas:
    """Return the atlas of aligned maps."""
    template = aligned.template
    labels = [aligned.resample(index, template.grid).argmax(0).to(torch.uint8) for index in range(len(aligned.maps))]
    return Atlas(template.probabilities, template.grid, table, kept, torch.stack(labels), aligned.velocities)


def select_labels(table: LabelTable) -> tuple[int, ...]:
    """Return the labels that an atlas distinguishes: all but csf, which only some maps have around the brain."""
    return tuple(index for index, name in enumerate(table.names) if name != "csf")


@torch.no_grad()
def align_maps(maps: Sequence[SoftMap], progress: Progress | None = None, *, seed: int = 0) -> AlignedMaps:
    """Align maps to their mean: by centroids, then three rounds of affine maps, then two rounds of deformations.

    Raises:
        DataError: fewer than two maps, or a map without a brain.
    """
    if len(maps) < _FEWEST:
        raise DataError(f"a prior needs at least {_FEWEST} label maps, got {len(maps)}; twenty make a good one")
    progress = progress or (lambda part, doing: None)
    generator = make_generator(seed, "align maps")
    done, rounds = 0, _AFFINE_ROUNDS + len(_DEFORMATIONS)

    def report(number: int, doing: str) -> None:
        progress((done + number / len(maps)) / rounds, f"{doing}, map {number + 1} of {len(maps)}")

    coarse_maps = [soft_map.coarsen() for soft_map in maps]
    affines = align_by_centroids([measure_shape(soft_map) for soft_map in coarse_maps])
    coarse_grid = make_centred_grid((40, 48, 40), 4.0)
    for round_ in range(_AFFINE_ROUNDS):
        template = _average_maps(coarse_maps, affines, coarse_grid, blur=2 if round_ == 0 else 1)
        for number, soft_map in enumerate(coarse_maps):
            report(number, "affine alignment")
            with torch.enable_grad():
                affines[number] = refine_affine(soft_map, template, affines[number], generator=generator)
        done += 1
    template = _average_maps(maps, affines, TEMPLATE_GRID, blur=1)
    velocities, grid = torch.zeros(len(maps), 3, *VELOCITY_GRID.shape), VELOCITY_GRID
    for round_, (target, steps, smoothness) in enumerate(_DEFORMATIONS):
        velocities, grid = resample_velocities(velocities, grid, target), target
        for number, soft_map in enumerate(maps):
            report(number, "deformation")
            with torch.enable_grad():
                velocities[number] = fit_velocity(
                    soft_map, template, affines[number], velocities[number], grid,
                    smoothness=smoothness, steps=steps, generator=generator,
                )  # fmt: skip
        velocities -= velocities.mean(0)  # the template keeps the mean shape
        is_last = round_ + 1 == len(_DEFORMATIONS)
        template = _average_maps(maps, affines, TEMPLATE_GRID, velocities, grid, blur=0 if is_last else 1)
        done += 1
    return AlignedMaps(list(maps), affines, velocities, grid, template)


_AFFINE_ROUNDS = 3
# For each round: grid of the velocities, number of steps, smoothness.
_DEFORMATIONS = ((VELOCITY_GRID, 40, 0.05), (VELOCITY_GRID, 60, 0.05))


def resample_velocities(velocities: Float[Tensor, "N 3 X Y Z"], grid: Grid, target: Grid) -> Float[Tensor, "N 3 U V W"]:
    """Return velocity fields on another grid."""
    if grid is target:
        return velocities
    points = grid_points(target)
    return torch.stack([sample_at(velocity, grid, points).view(3, *target.shape) for velocity in velocities])


def _average_maps(
    maps: Sequence[SoftMap],
    affines: Sequence[Affine],
    grid: Grid,
    velocities: Tensor | None = None,
    velocity_grid: Grid | None = None,
    *,
    blur: int,
) -> SoftMap:
    """Return the mean of maps, left and right averaged, smoothed `blur` times by [1 2 1] / 4."""
    total = torch.zeros(len(maps[0].probabilities), *grid.shape)
    for number, (soft_map, affine) in enumerate(zip(maps, affines, strict=True)):
        displacement = None
        if velocities is not None and velocity_grid is not None:
            displacement = integrate_velocity(velocities[number], velocity_grid)
        total += resample_map(soft_map, affine, grid, displacement, velocity_grid)
    mean = total / len(maps)
    mean = (mean + mean.flip(1)) / 2  # the grid's middle is between left and right
    for _ in range(blur):
        mean = smooth_volumes(mean)
    return SoftMap(mean, grid)


def soften_probabilities(probabilities: Float[Tensor, "M X Y Z"]) -> Float[Tensor, "M X Y Z"]:
    """Return probabilities that are nowhere zero: a tenth is blurred by 3 mm, and each label gets a little everywhere.

    Few maps give poor estimates of small probabilities, and the alignment of a scan has an error of some mm.
    """
    blurred = np.stack([ndimage.gaussian_filter(label, 1.5) for label in probabilities.numpy()])
    mixed = 0.9 * probabilities + 0.1 * torch.from_numpy(blurred)
    share = mixed.flatten(1).mean(1)
    mixed = mixed + 2e-3 * share.view(-1, 1, 1, 1)
    return mixed / mixed.sum(0)


def smooth_volumes(volumes: Float[Tensor, "M X Y Z"]) -> Float[Tensor, "M X Y Z"]:
    """Return volumes smoothed by [1 2 1] / 4 along every axis, the border repeated."""
    kernel = torch.tensor([0.25, 0.5, 0.25])
    smoothed = volumes[:, None]
    for axis in range(3):
        shape = [3 if other == axis else 1 for other in range(3)]
        pad = [side for other in reversed(range(3)) for side in ((1, 1) if other == axis else (0, 0))]
        smoothed = functional.conv3d(functional.pad(smoothed, pad, mode="replicate"), kernel.view(1, 1, *shape))
    return smoothed[:, 0]
