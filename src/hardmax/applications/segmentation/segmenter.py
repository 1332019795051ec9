"""Segment a scan: fit the atlas to it, then take the arg max of the posterior in each of its voxels."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float32, Integer
from torch import Tensor

from hardmax.applications.segmentation.atlas.atlas import VELOCITY_GRID, Atlas, soften_probabilities
from hardmax.applications.segmentation.atlas.head import HeadAtlas
from hardmax.applications.segmentation.atlas.transforms import Affine, grid_points, sample_at, to_channels_last
from hardmax.applications.segmentation.fit.extraction import extract_brain, find_skull
from hardmax.applications.segmentation.fit.fitting import Fitter, ScanFit, fit_affine, fit_deformation
from hardmax.applications.segmentation.fit.fusion import fit_personal_atlas, resample_scan
from hardmax.applications.segmentation.fit.labelling import label_voxels
from hardmax.applications.segmentation.fit.observation import Observation, prepare_scan
from hardmax.applications.segmentation.model_folder import ATLAS, ENCODER, HEAD, VAE, has_part, load_part
from hardmax.applications.segmentation.tissues.classes import sum_appearances
from hardmax.applications.segmentation.tissues.gaussians import tissue_mixing, tissue_names
from hardmax.applications.segmentation.vae.image_encoder import ImageEncoder
from hardmax.applications.segmentation.vae.label_vae import LabelVAE
from hardmax.applications.segmentation.vae.pca import make_coarse_grid
from hardmax.applications.segmentation.volumes.geometry import Reorientation
from hardmax.applications.segmentation.volumes.labels import STRUCTURES, LabelTable
from hardmax.applications.segmentation.volumes.reading import Volume, read_volume
from hardmax.errors import DataError, ShapeError
from hardmax.random import make_generator
from hardmax.threads import use_one_thread

Progress = Callable[[float, str], None]
Skull = Literal["auto", "on", "off"]


@dataclass(frozen=True, eq=False)
class Segmentation:
    """Segmentation of a scan.

    Attributes:
        labels: `[X, Y, Z]`, indices in the table of labels, in the scan's voxels.
        posterior: `[M, X, Y, Z]`, probabilities of all labels of the table; None unless requested.
        log_likelihood: log-likelihood of the scan with its tissues where the atlas has them, minus that with the same
            tissues anywhere, per voxel of the brain, in nats. A value near 0 means that the scan is not of a brain.
        seconds: duration of the segmentation.
        means: mean of the Gaussian of each tissue, in the scan's units.
        deviations: standard deviation of the Gaussian of each tissue, in the scan's units.
        doubts: sentences on why the scan is doubtful.
        mask: `[X, Y, Z]`, the brain in the scan's voxels: only in it are there structures.
        right: `[X, Y, Z]`, whether a voxel of the mask is on the right side of the person; for `sides.split_sides`.
        has_skull: whether the brain was extracted from a scan with its skull.
    """

    labels: Integer[np.ndarray, "X Y Z"]
    posterior: Float32[np.ndarray, "M X Y Z"] | None
    log_likelihood: float
    seconds: float
    means: dict[str, float]
    deviations: dict[str, float]
    doubts: tuple[str, ...]
    mask: Bool[np.ndarray, "X Y Z"]
    right: Bool[np.ndarray, "X Y Z"]
    has_skull: bool


@dataclass(frozen=True, eq=False)
class _Brain:
    """The brain in a scan: the data that is fitted, and the affine map to the atlas where the head gives it."""

    observation: Observation
    start: Affine | None
    has_skull: bool
    doubts: tuple[str, ...]


class Segmenter:
    """Segments scans of brains with an atlas, without labels of scans.

    Args:
        atlas: the location prior.
        trained: label VAE and encoder of `hardmax segment train`. They find the scan's anatomy in one pass, without a
            deformation, which is faster and less accurate. None fits a deformation to each scan.
        head: the atlas of the head, for scans with their skull. Without it, scans must be skull-stripped.

    Attributes:
        table: the labels of the segmentations; left and right are merged.
        has_sides: whether `sides.split_sides` can split its labels: they are those of `STRUCTURES`.
        mixing: `[M, K]`, the Gaussians of each label of the atlas.
        least_log_likelihood: lowest log-likelihood of scans of brains; below it, a result is marked as doubtful.
    """

    least_log_likelihood = 0.2

    def __init__(
        self,
        atlas: Atlas,
        trained: tuple[LabelVAE, ImageEncoder] | None = None,
        head: HeadAtlas | None = None,
    ) -> None:
        self.atlas, self.trained, self.head = atlas, trained, head
        self.table: LabelTable = atlas.table
        self.has_sides = atlas.table.names == STRUCTURES.names
        tissues = [atlas.table.labels[index].tissues for index in atlas.kept]
        self._tissues = tissue_names(tissues)
        self.mixing = tissue_mixing(tissues)
        self.prior = to_channels_last(soften_probabilities(atlas.probabilities))
        self.appearances = sum_appearances(self.prior, atlas.grid, self.mixing)

    @classmethod
    def load(cls, folder: Path) -> "Segmenter":
        """Load a folder created by `hardmax segment prior` or `hardmax segment train`.

        Raises:
            DataError: a file is missing or broken.
        """
        trained = None
        if has_part(folder, ENCODER):
            trained = (load_part(LabelVAE, folder, VAE), load_part(ImageEncoder, folder, ENCODER))
        head = load_part(HeadAtlas, folder, HEAD) if has_part(folder, HEAD) else None
        return cls(load_part(Atlas, folder, ATLAS), trained, head)

    @use_one_thread()
    def segment(
        self,
        volume: Volume,
        *,
        posterior: bool = False,
        progress: Progress | None = None,
        mask: Bool[np.ndarray, "X Y Z"] | None = None,
        skull: Skull = "auto",
    ) -> Segmentation:
        """Segment a scan of any contrast, orientation and voxel size, with its skull or without it.

        Args:
            volume: the scan.
            posterior: whether to return the probabilities of all labels.
            progress: called with the fraction that is done, 0 to 1, and a description of the current step.
            mask: `[X, Y, Z]`, the brain in the scan's voxels; None finds it.
            skull: whether the scan has its skull; "auto" compares the likelihoods of both.

        Raises:
            DataError: there is no brain in the scan, or it has its skull, and the model has no atlas of the head.
            ShapeError: the mask is not of the scan's shape.
        """
        began = time.monotonic()
        progress = progress or (lambda part, doing: None)
        # The same voxels stored in another order give the same result, bit for bit.
        reorientation = Reorientation(volume.grid)
        canonical = Volume(np.ascontiguousarray(reorientation.forward(volume.values)), reorientation.canonical)
        progress(0.0, "looking for the brain")
        if mask is None:
            brain = self._find_brain(canonical, skull, progress)
        else:
            if mask.shape != volume.grid.shape:
                raise ShapeError(f"the mask must be of the scan's shape, {volume.grid.shape}, got {mask.shape}")
            observation = prepare_scan(canonical, np.ascontiguousarray(reorientation.forward(mask)))
            brain = _Brain(observation, None, False, observation.doubts)
        observation = brain.observation
        fitter = Fitter(observation, self.appearances, VELOCITY_GRID, make_generator(0, "fit"))
        progress(0.4, "aligning")
        fit = fit_affine(fitter, brain.start)
        if self.trained is None:
            progress(0.5, "deforming")
            fit = fit_deformation(fitter, fit)
            progress(0.65, "comparing with the maps")
            fit, prior = fit_personal_atlas(canonical, observation, fit, self.atlas, self.prior, self.appearances)
        else:
            progress(0.7, "recognising")
            prior = self.predict_prior(canonical, observation, fit, *self.trained)
        progress(0.85, "labelling")
        labelling = label_voxels(canonical, observation, fit, self.atlas, prior, self.appearances, posterior=posterior)
        scale, centre = observation.scale, observation.centre
        means = (fit.gaussians.means * scale + centre).tolist()
        return Segmentation(
            reorientation.restore(labelling.labels),
            None if labelling.posterior is None else reorientation.restore(labelling.posterior),
            labelling.evidence,
            time.monotonic() - began,
            dict(zip(self._tissues, means, strict=True)),
            dict(zip(self._tissues, (fit.gaussians.deviations * scale).tolist(), strict=True)),
            brain.doubts,
            reorientation.restore(observation.mask),
            reorientation.restore(labelling.right),
            brain.has_skull,
        )

    def _find_brain(self, volume: Volume, skull: Skull, progress: Progress) -> _Brain:
        """Return the brain of a scan: what is not of the surroundings' value, or what the model of the head finds."""
        if skull == "on" and self.head is None:
            raise DataError(
                "the model has no atlas of the head, and cannot remove the skull: make it again from label maps of "
                "whole heads with hardmax segment prior, or give a mask"
            )
        if skull != "off" and self.head is not None:
            is_whole, head, start = find_skull(volume, self.head)
            if is_whole or skull == "on":
                progress(0.15, "removing the skull")
                extraction = extract_brain(volume, self.head, head, start)
                observation = prepare_scan(volume, extraction.mask)
                doubts = (*observation.doubts, *extraction.doubts)
                return _Brain(observation, extraction.fit.affine, True, doubts)
        observation = prepare_scan(volume)
        return _Brain(observation, None, False, observation.doubts)

    def align(self, path: Path) -> tuple[Tensor, Tensor]:
        """Read and align a scan; return it with its mask on the grid of the label VAE, to train an encoder."""
        volume = read_volume(path)
        observation = prepare_scan(volume)
        fit = fit_affine(Fitter(observation, self.appearances, VELOCITY_GRID, make_generator(0, "fit")))
        return self._resample_scan(volume, observation, fit)

    @torch.no_grad()
    def predict_prior(
        self, volume: Volume, observation: Observation, fit: ScanFit, vae: LabelVAE, encoder: ImageEncoder
    ) -> Tensor:
        r"""Return the probabilities $f(z)$ at the mean of $q(z \mid x)$, on the atlas' grid.

        The VAE is coarser than the atlas: the atlas is changed as z changes the VAE's location prior.
        """
        x, mask = self._resample_scan(volume, observation, fit)
        change = vae.log_prior(encoder(x[None], mask[None])[0])[0] - vae.log_location
        fine = sample_at(change, make_coarse_grid(self.atlas), grid_points(self.atlas.grid))
        return to_channels_last((self.prior.log() + fine.view_as(self.prior)).softmax(0))

    def _resample_scan(self, volume: Volume, observation: Observation, fit: ScanFit) -> tuple[Tensor, Tensor]:
        grid = make_coarse_grid(self.atlas)
        x, mask = resample_scan(volume, observation, fit, grid)
        return x.view(grid.shape), mask.view(grid.shape)
