"""Synthetic heads for the tests of files and geometry: a pattern that is known at every world point."""

import itertools
from dataclasses import dataclass, field

import nibabel
import numpy as np

from hardmax.applications.segmentation.volumes.geometry import Grid, Reorientation
from hardmax.applications.segmentation.volumes.labels import STRUCTURES
from hardmax.cli.main import main

FLIPS = list(itertools.product((1, -1), repeat=3))
ORIENTATIONS = [(order, flips) for order in itertools.permutations(range(3)) for flips in FLIPS]


def rotation_matrix(*degrees):
    """Return the rotation about x, then y, then z."""
    out = np.eye(3)
    for axis, angle in enumerate(np.radians(degrees)):
        i, j = [k for k in range(3) if k != axis]
        matrix = np.eye(3)
        matrix[i, i] = matrix[j, j] = np.cos(angle)
        matrix[i, j], matrix[j, i] = -np.sin(angle), np.sin(angle)
        out = matrix @ out
    return out


def make_upright_affine(shape=(22, 26, 24), spacing=(2.0, 1.5, 1.8), tilt=(0, 0, 0)):
    """Return the affine of a grid nearest to RAS, with the world's origin near its middle."""
    affine = np.eye(4)
    affine[:3, :3] = rotation_matrix(*tilt) * spacing
    affine[:3, 3] = affine[:3, :3] @ (-(np.array(shape) - 1) / 2) + [1.3, -2.1, 0.7]
    return affine


def reorder_voxels(values, affine, order, flips):
    """Return the same voxels at the same world points, stored in another order: values and their affine."""
    stored = values.transpose(order)[tuple(slice(None, None, flip) for flip in flips)]
    change = np.zeros((4, 4))  # index as stored -> index before
    change[3, 3] = 1
    for new, (old, flip) in enumerate(zip(order, flips, strict=True)):
        change[old, new] = flip
        change[old, 3] = 0 if flip > 0 else values.shape[old] - 1
    return stored, affine @ change


def world_points(shape, affine):
    """Return the world point of each voxel, `[*shape, 3]`, by nibabel."""
    return nibabel.affines.apply_affine(affine, np.moveaxis(np.indices(shape), 0, -1))


def intensity(points):
    """Return the brightness at world points `[..., 3]`: a ball, brighter to the right, with a smooth texture."""
    x, y, z = np.moveaxis(points, -1, 0)
    inside = (x / 19) ** 2 + (y / 17) ** 2 + (z / 18) ** 2 < 1
    return np.where(inside, 100 + 1.5 * x + 40 * np.sin(0.35 * y + 0.1 * z) * np.cos(0.25 * z), 0.0)


def make_anatomy(points, values):
    """Return labels that depend on the world point and the brightness there."""
    x, y, z = np.moveaxis(points, -1, 0)
    label = 1 + (x > 0) + 2 * (y > 1) + 4 * (z > -1.5) + 8 * (values > 105)
    return np.where(values > 1, label, 0)


def make_head(shape=(22, 26, 24), **options):
    """Return values and affine of an upright head."""
    affine = make_upright_affine(shape, **options)
    return intensity(world_points(shape, affine)), affine


@dataclass
class Segmentation:
    labels: np.ndarray
    posterior: object = None
    log_likelihood: float = -2.0
    seconds: float = 0.1
    doubts: list = field(default_factory=list)


class WorldSegmenter:
    """Segments by `anatomy` in canonical orientation, as the real segmenter does, whatever the axes of the file."""

    table = STRUCTURES
    least_log_likelihood = -3.0

    def __init__(self, log_likelihood=-2.0):
        self.log_likelihood = log_likelihood

    @classmethod
    def load(cls, folder):
        return cls()

    def segment(self, volume, *, posterior=False, progress=None):
        reorientation = Reorientation(volume.grid)
        grid, values = reorientation.canonical, reorientation.forward(volume.values)
        labels = make_anatomy(grid.points().reshape(*grid.shape, 3), values)
        if progress is not None:
            progress(0.5, "half of it")
        soft = None
        if posterior:
            soft = reorientation.restore(0.9 * (labels == np.arange(19)[:, None, None, None]) + 0.1 / 19)
        return Segmentation(reorientation.restore(labels), soft, self.log_likelihood)


def save_volume(path, values, affine, *, kind=nibabel.Nifti1Image, dtype=np.float32):
    nibabel.save(kind(np.asarray(values).astype(dtype), affine), path)
    return path


def grid_of(values, affine):
    return Grid(values.shape, affine)


def run_failing(capsys, *arguments):
    """Run a command that should fail, and return its one line of error."""
    assert main(["segment", *map(str, arguments)]) == 2
    errors = capsys.readouterr().err
    line = [line for line in errors.splitlines() if line.startswith("hardmax: error: ")]
    assert len(line) == 1
    assert "Traceback" not in errors
    return line[0]
