"""The location prior: probability of each structure at each point of a mean brain, from label maps alone.

The maps are aligned to their mean in rounds (`alignment`): by centroids, affinely, then by smooth deformations
whose mean is zero, so that the template has the mean shape; left and right are averaged.
"""

import json
import zlib
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
    deform,
    measure_shape,
    place_by_centroids,
    refine_affine,
    soft_map,
)
from hardmax.applications.segmentation.atlas.transforms import (
    Affine,
    centred_grid,
    displacement,
    grid_points,
    sample_at,
    to_channels_last,
    warp,
)
from hardmax.applications.segmentation.model_folder import ATLAS
from hardmax.applications.segmentation.volumes.geometry import Grid
from hardmax.applications.segmentation.volumes.labels import STRUCTURES, LabelTable
from hardmax.applications.segmentation.volumes.reading import read_labels
from hardmax.errors import DataError
from hardmax.models.pretrained import check_kind, read_tensors, write_tensors
from hardmax.random import stream

Progress = Callable[[float, str], None]

TEMPLATE = centred_grid((80, 96, 80), 2.0)
VELOCITIES = centred_grid((22, 26, 22), 8.0)  # extends beyond the template, as brains do
FINE_VELOCITIES = centred_grid((43, 51, 43), 4.0)
_LEVELS = 255
_PER_MM, _MIDDLE = 10, 128  # levels of velocities: from -12.8 to 12.7 mm
_FEWEST = 2  # least number of maps: one has no mean


@dataclass(frozen=True, eq=False)
class Atlas:
    """Probabilities of labels on the template's grid.

    It is saved like an `AbstractModel`, but is not one: it has no weights, and is stored as compressed bytes, with a
    twentieth of the size of its tensors.

    Args:
        probabilities: `[M, X, Y, Z]`, float32; they sum to one.
        grid: grid of the voxels.
        table: all labels.
        kept: the M indices in the table that the atlas distinguishes. Fluid around the brain (`csf`) is background.
        maps: `[N, X, Y, Z]`, the aligned maps whose mean it is, 0..M-1; for `fusion`.
        velocities: `[N, 3, U, V, W]` on `VELOCITIES`, mm: the deformation of each map to agree with the others, which
            is the variation of shape between people; for `vae.pca`.

    Example:
        >>> import tempfile
        >>> grid = centred_grid((4, 4, 4), 2.0)
        >>> atlas = Atlas(
        ...     torch.full((2, 4, 4, 4), 0.5),
        ...     grid,
        ...     STRUCTURES,
        ...     (0, 1),
        ...     torch.zeros(3, 4, 4, 4, dtype=torch.uint8),
        ...     torch.zeros(3, 3, *VELOCITIES.shape),
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
        """Write `model.safetensors` and `config.json`: compressed bytes, probabilities in 255ths, mm in tenths.

        Raises:
            DataError: the folder cannot be written.
        """
        tensors = {
            "probabilities": _compress((self.probabilities * _LEVELS).round().to(torch.uint8)),
            "maps": _compress(self.maps),
            "velocities": _compress(((self.velocities * _PER_MM).round() + _MIDDLE).clamp(0, 255).to(torch.uint8)),
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
        """Build the atlas that was saved as these tensors; the folder is for error messages.

        Raises:
            DataError: they are not those of an atlas.
        """
        try:
            shape = tuple(config["shape"])
            levels = _decompress(tensors["probabilities"], shape).float()
            maps = _decompress(tensors["maps"], (config["maps"], *shape[1:]))
            steps = _decompress(tensors["velocities"], (config["maps"], 3, *VELOCITIES.shape)).float()
            grid = Grid(shape[1:], np.array(config["affine"]))
            table = LabelTable.from_json(json.dumps(config["table"]))
            probabilities = levels / levels.sum(0).clamp_min(1)
            return cls(probabilities, grid, table, tuple(config["kept"]), maps, (steps - _MIDDLE) / _PER_MM)
        except (KeyError, TypeError, ValueError, IndexError, RuntimeError, zlib.error) as error:
            raise DataError(f"{folder} does not hold an atlas: {error}") from error


def _compress(values: UInt8[Tensor, "..."]) -> UInt8[Tensor, " P"]:
    """Return compressed bytes: most of an atlas is one repeated value."""
    return torch.frombuffer(bytearray(zlib.compress(values.numpy().tobytes(), 9)), dtype=torch.uint8)


def _decompress(stored: UInt8[Tensor, " P"], shape: tuple[int, ...]) -> UInt8[Tensor, "..."]:
    return torch.frombuffer(bytearray(zlib.decompress(stored.numpy().tobytes())), dtype=torch.uint8).view(shape)


@dataclass(frozen=True, eq=False)
class AlignedMaps:
    """Maps with their alignment to the template, and the template.

    Attributes:
        maps: the original maps.
        places: affine maps from the template's space to that of each map.
        velocities: `[N, 3, X, Y, Z]` on `velocity_grid`; the deformation comes before the affine map.
        velocity_grid: grid of the velocities.
        template: mean of the aligned maps, left and right averaged.
    """

    maps: list[SoftMap]
    places: list[Affine]
    velocities: Float[Tensor, "N 3 X Y Z"]
    velocity_grid: Grid
    template: SoftMap

    def resample(self, index: int, grid: Grid) -> Float[Tensor, "M X Y Z"]:
        """Return one deformed map on a grid in the template's space."""
        moved = displacement(self.velocities[index], self.velocity_grid)
        return resample_map(self.maps[index], self.places[index], grid, moved, self.velocity_grid)


def resample_map(
    one: SoftMap, place: Affine, grid: Grid, moved: Tensor | None = None, moved_grid: Grid | None = None
) -> Float[Tensor, "M X Y Z"]:
    """Return a map on a grid in the template's space."""
    points = grid_points(grid)
    if moved is not None and moved_grid is not None:
        points = warp(points, moved, moved_grid)
    return sample_at(to_channels_last(one.probabilities), one.grid, place(points)).view(-1, *grid.shape)


def build_prior(maps: Sequence[Path], out: Path, progress: Progress | None = None) -> None:
    """Build the atlas of label map files and write it into a folder.

    Args:
        maps: files of label maps, at least two, in the numbers of hardmax or of FreeSurfer.
        out: folder to write to.
        progress: called with the fraction that is done, 0 to 1, and a description of the current step.

    Raises:
        DataError: fewer than two maps, a map that cannot be read, or a folder that cannot be written.
    """
    progress = progress or (lambda part, doing: None)
    kept = select_labels(STRUCTURES)
    soft = []
    for number, path in enumerate(maps):
        progress(0.1 * number / len(maps), f"reading {path.name}")
        label_map = read_labels(path)
        soft.append(soft_map(label_map.labels, label_map.grid, kept))
    aligned = align_maps(soft, lambda part, doing: progress(0.1 + 0.9 * part, doing))
    build_atlas(aligned, STRUCTURES, kept).save_pretrained(out / ATLAS)


@torch.no_grad()
def build_atlas(aligned: AlignedMaps, table: LabelTable, kept: tuple[int, ...]) -> Atlas:
    """Return the atlas of aligned maps."""
    template = aligned.template
    labels = [aligned.resample(index, template.grid).argmax(0).to(torch.uint8) for index in range(len(aligned.maps))]
    return Atlas(template.probabilities, template.grid, table, kept, torch.stack(labels), aligned.velocities)


def select_labels(table: LabelTable) -> tuple[int, ...]:
    """Return the labels of an atlas: all but csf, which some maps have around the brain and others do not."""
    return tuple(index for index, name in enumerate(table.names) if name != "csf")


@torch.no_grad()
def align_maps(maps: Sequence[SoftMap], progress: Progress | None = None, *, seed: int = 0) -> AlignedMaps:
    """Align maps to their mean, in rounds: centroids, three affine ones, then deformations of increasing detail.

    Raises:
        DataError: fewer than two maps, or a map without a brain.
    """
    if len(maps) < _FEWEST:
        raise DataError(f"a prior needs at least {_FEWEST} label maps, got {len(maps)}; twenty make a good one")
    progress = progress or (lambda part, doing: None)
    generator = stream(seed, "align maps")
    done, rounds = 0, _AFFINE_ROUNDS + len(_DEFORMATIONS)

    def step(number: int, doing: str) -> None:
        progress((done + number / len(maps)) / rounds, f"{doing}, map {number + 1} of {len(maps)}")

    coarse = [one.coarsen() for one in maps]
    places = place_by_centroids([measure_shape(one) for one in coarse])
    coarse_grid = centred_grid((40, 48, 40), 4.0)
    for turn in range(_AFFINE_ROUNDS):
        template = _template(coarse, places, coarse_grid, blur=2 if turn == 0 else 1)
        for number, one in enumerate(coarse):
            step(number, "affine alignment")
            with torch.enable_grad():
                places[number] = refine_affine(one, template, places[number], generator=generator)
        done += 1
    template = _template(maps, places, TEMPLATE, blur=1)
    velocities, grid = torch.zeros(len(maps), 3, *VELOCITIES.shape), VELOCITIES
    for turn, (wanted, steps, smoothness) in enumerate(_DEFORMATIONS):
        velocities, grid = resample_velocities(velocities, grid, wanted), wanted
        for number, one in enumerate(maps):
            step(number, "deformation")
            with torch.enable_grad():
                velocities[number] = deform(
                    one, template, places[number], velocities[number], grid,
                    smoothness=smoothness, steps=steps, generator=generator,
                )  # fmt: skip
        velocities -= velocities.mean(0)  # the template keeps the mean shape
        last = turn + 1 == len(_DEFORMATIONS)
        template = _template(maps, places, TEMPLATE, velocities, grid, blur=0 if last else 1)
        done += 1
    return AlignedMaps(list(maps), places, velocities, grid, template)


_AFFINE_ROUNDS = 3
# Grid of the velocities, steps, smoothness.
_DEFORMATIONS = ((VELOCITIES, 40, 0.05), (VELOCITIES, 60, 0.05))


def resample_velocities(velocities: Float[Tensor, "N 3 X Y Z"], grid: Grid, wanted: Grid) -> Float[Tensor, "N 3 U V W"]:
    """Return velocity fields on another grid."""
    if grid is wanted:
        return velocities
    points = grid_points(wanted)
    return torch.stack([sample_at(one, grid, points).view(3, *wanted.shape) for one in velocities])


def _template(
    maps: Sequence[SoftMap],
    places: Sequence[Affine],
    grid: Grid,
    velocities: Tensor | None = None,
    velocity_grid: Grid | None = None,
    *,
    blur: int,
) -> SoftMap:
    """Return the mean of maps, left and right averaged, smoothed `blur` times by [1 2 1] / 4."""
    total = torch.zeros(len(maps[0].probabilities), *grid.shape)
    for number, (one, place) in enumerate(zip(maps, places, strict=True)):
        moved = None
        if velocities is not None and velocity_grid is not None:
            moved = displacement(velocities[number], velocity_grid)
        total += resample_map(one, place, grid, moved, velocity_grid)
    mean = total / len(maps)
    mean = (mean + mean.flip(1)) / 2  # the grid's middle is between left and right
    for _ in range(blur):
        mean = smooth_volumes(mean)
    return SoftMap(mean, grid)


def soften_probabilities(probabilities: Float[Tensor, "M X Y Z"]) -> Float[Tensor, "M X Y Z"]:
    """Return an atlas that rules nothing out: a tenth of it blurred by 3 mm, and each label a little everywhere.

    Few maps give poor estimates of small probabilities, and the alignment of a scan has an error of some mm.
    """
    blurred = np.stack([ndimage.gaussian_filter(one, 1.5) for one in probabilities.numpy()])
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
