"""Segment one scan file, and write its results."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Integer

from hardmax.applications.segmentation.results.layouts import AbstractLayout
from hardmax.applications.segmentation.results.quality_images import write_quality_image
from hardmax.applications.segmentation.results.records import quality_image_path
from hardmax.applications.segmentation.results.tables import Result, list_doubts
from hardmax.applications.segmentation.volumes.agreement import Agreement, compare_maps, measure_volumes
from hardmax.applications.segmentation.volumes.geometry import Grid, resample_labels
from hardmax.applications.segmentation.volumes.labels import LabelTable
from hardmax.applications.segmentation.volumes.reading import Volume, check_is_scan, read_volume
from hardmax.applications.segmentation.volumes.scans import Scan
from hardmax.applications.segmentation.volumes.sides import (
    FREESURFER,
    merge_sides,
    read_truth,
    split_posterior,
    split_sides,
)
from hardmax.applications.segmentation.volumes.writing import write_labels, write_mask, write_posterior
from hardmax.errors import DataError

Progress = Callable[[float, str], None]


@runtime_checkable
class AbstractSegmenter(Protocol):
    """Interface of segmenters: `hardmax.applications.segmentation.segmenter.Segmenter`, or a class of the user."""

    def segment(self, volume: Volume, *, posterior: bool = False, progress: Progress | None = None) -> Any:
        """Return a `Segmentation`.

        Only if the user asks for it, `skull` and `mask` are passed, too; see `Segmenter.segment`.
        """
        ...


@dataclass(frozen=True)
class OutputOptions:
    """Results to write in addition to the label map and the quality image.

    Attributes:
        posteriors: whether to write the probabilities.
        smooth: strength of Potts smoothing; 0 means no smoothing.
        skull: whether the scans have their skull; "auto" finds it out.
    """

    posteriors: bool = False
    smooth: float = 0.0
    skull: str = "auto"


def segment_scan(
    segmenter: AbstractSegmenter,
    scan: Scan,
    layout: AbstractLayout,
    table: LabelTable,
    *,
    options: OutputOptions,
    model: str = "",
    truth: Path | None = None,
    mask: Path | None = None,
    progress: Progress | None = None,
) -> Result:
    """Segment a scan, write its files into a folder, and compare it with the truth if there is one.

    Labels are written in the given table: that of the segmenter, or FREESURFER, with left and right apart. Nothing is
    written before the scan is segmented; the label map is written last. Files of an earlier result of the scan that
    this one does not have are removed.

    Raises:
        HardmaxError: a file cannot be read or written, or the scan cannot be segmented.
    """
    volume = read_volume(scan.path)
    check_is_scan(volume)
    true, true_table = (None, table) if truth is None else read_truth(truth, table)
    more: dict[str, Any] = {} if options.skull == "auto" else {"skull": options.skull}
    if mask is not None:
        more["mask"] = _read_mask(mask, volume)
    wants_posterior = options.posteriors or options.smooth > 0
    segmentation = segmenter.segment(volume, posterior=wants_posterior, progress=progress, **more)
    labels, posterior = np.asarray(segmentation.labels), segmentation.posterior
    posterior = np.asarray(posterior() if callable(posterior) else posterior) if posterior is not None else None
    if options.smooth > 0:
        assert posterior is not None  # it was requested
        labels = _smooth_labels(posterior, options.smooth, volume)
    if has_sides := table.names == FREESURFER.names:
        labels = split_sides(labels, segmentation.right)
    sizes = measure_volumes(labels, volume.grid, len(table))
    likelihood = float(np.mean(segmentation.log_likelihood))
    doubts = list_doubts(sizes, table, likelihood, getattr(segmenter, "least_log_likelihood", None))
    flags = (*doubts, *segmentation.doubts)
    notes = [*volume.notes]
    agreement = None
    if true is not None:
        compared = merge_sides(labels) if has_sides and true_table.names != table.names else labels
        agreement, messages = _compare_with_truth(compared, volume, true.labels, true.grid, true_table)
        notes += [f"true map: {note}" for note in true.notes]
        notes += messages
    image, files = quality_image_path(layout.out, scan.name), [layout.label_map_path(scan)]
    if options.posteriors and posterior is not None:
        files.append(layout.posterior_path(scan))
        written = split_posterior(posterior, segmentation.right) if has_sides else posterior
        write_posterior(files[-1], written, volume)
    if (brain := getattr(segmentation, "mask", None)) is not None:
        files.append(layout.mask_path(scan))
        write_mask(files[-1], brain, volume)
    write_quality_image(image, volume, labels, table, title=scan.name, flag=" ".join(flags))
    for path in files:
        layout.write_sidecar(path, scan, table)
    write_labels(files[0], labels, volume, table)
    layout.remove_files(scan, keep=files)
    return Result(
        scan,
        model=model,
        volumes=sizes,
        log_likelihood=likelihood,
        seconds=float(segmentation.seconds),
        flags=flags,
        notes=tuple(notes),
        agreement=agreement,
        files=tuple(files),
        image=image,
    )


def _read_mask(path: Path, scan: Volume) -> Bool[np.ndarray, "X Y Z"]:
    """Return the brain mask of a file, in the scan's voxels: all voxels that are not 0.

    Raises:
        DataError: the file cannot be read, or the mask is empty or elsewhere.
    """
    mask = read_volume(path)
    inside = (mask.values > 0).astype(np.uint8)
    if not mask.grid.same_as(scan.grid):
        inside = resample_labels(inside, mask.grid, scan.grid)
    if not inside.any():
        raise DataError(
            f"the mask {path} has no voxel above 0 in the scan: it is empty, or its header puts it elsewhere; give a "
            "mask in the space of the scan"
        )
    return inside > 0


def _smooth_labels(
    posterior: Float[np.ndarray, "M X Y Z"], strength: float, scan: Volume
) -> Integer[np.ndarray, "X Y Z"]:
    """Return labels of low Potts energy; voxels that are background with near certainty are left out."""
    import torch

    from hardmax.applications.segmentation.fit.smoothing import smooth_labels

    cost = -torch.from_numpy(np.ascontiguousarray(posterior, dtype=np.float32)).clamp_min(1e-6).log()
    x, y, z = (float(side) for side in scan.grid.spacing)
    return smooth_labels(cost, strength, mask=torch.from_numpy(posterior[0] < 0.999), spacing=(x, y, z)).numpy()


def _compare_with_truth(
    labels: np.ndarray, scan: Volume, true: np.ndarray, grid: Grid, table: LabelTable
) -> tuple[Agreement, list[str]]:
    """Compare a label map with the true map, in the scan's voxels."""
    notes = []
    if not grid.same_as(scan.grid):
        true = resample_labels(true, grid, scan.grid)
        notes.append(
            "the true map has other voxels than the scan: it was resampled to the scan's, by the nearest voxel"
            if true.any()
            else "the true map does not overlap the scan: none of its labels falls on the scan; are the headers right?"
        )
    agreement = compare_maps(labels, true, scan.grid, table)
    return agreement, notes + list(agreement.notes)
