"""Scans and label maps, and the names of their files. No torch here."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Integer

from hardmax.errors import DataError, MissingExtraError
from hardmax.segmentation.volumes.geometry import Grid

SUFFIXES = (".nii.gz", ".nii", ".mgz", ".mgh")


@dataclass(frozen=True, eq=False)
class Volume:
    """A scan.

    Attributes:
        values: `[X, Y, Z]`, finite.
        grid: where the voxels are.
        header: of the file, for what is written in its geometry; None gives a plain one.
        path: of the file.
        notes: sentences about what was wrong with it.
    """

    values: Float32[np.ndarray, "X Y Z"]
    grid: Grid
    header: Any = None
    path: Path | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class LabelMap:
    """A label map.

    Attributes:
        labels: `[X, Y, Z]`, indices in a table of labels.
        grid: where the voxels are.
        path: of the file.
        notes: sentences about how it was read.
    """

    labels: Integer[np.ndarray, "X Y Z"]
    grid: Grid
    path: Path | None = None
    notes: tuple[str, ...] = ()


def stem(path: Path) -> str:
    """Return the name of a scan's file without its suffix, of which .nii.gz is one.

    Raises:
        DataError: it has none of the suffixes of scans.
    """
    for suffix in SUFFIXES:
        if path.name.lower().endswith(suffix) and len(path.name) > len(suffix):
            return path.name[: -len(suffix)]
    raise DataError(f"{path} has not the name of a scan: expected a file that ends in {', '.join(SUFFIXES)}")


def need_nibabel() -> Any:
    """Return the module nibabel, which reads and writes the files.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import nibabel
    except ImportError as error:
        raise MissingExtraError(
            "scans are read by nibabel, which is missing: pip install 'hardmax[imaging]'"
        ) from error
    return nibabel
