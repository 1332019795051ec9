"""From a scan to its labels: fit, posterior, arg max, all in the scan's own voxels."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Integer

from hardmax.random import stream
from hardmax.segmentation.appearance import appearances
from hardmax.segmentation.atlas import VELOCITIES, Atlas, softened
from hardmax.segmentation.fitting import Fitter, fit_affine, fit_deformation
from hardmax.segmentation.fusion import personal_prior
from hardmax.segmentation.intensity import tissue_mixing
from hardmax.segmentation.labelling import label_voxels
from hardmax.segmentation.labels import LabelTable
from hardmax.segmentation.observing import observe
from hardmax.segmentation.transforms import packed
from hardmax.segmentation.volume import Volume

Progress = Callable[[float, str], None]


@dataclass(frozen=True, eq=False)
class Segmentation:
    """What was found in a scan.

    Attributes:
        labels: `[X, Y, Z]`, indices in the table of labels, in the scan's own voxels.
        posterior: `[M, X, Y, Z]`, probabilities of all labels of the table; None unless asked for.
        log_likelihood: per voxel of the brain, how much likelier the scan is with its tissues where the atlas has them
            than with the same tissues anywhere, in nats. Near 0 it is no scan of a brain.
        seconds: that it took.
        means: of the Gaussian of each tissue, in the scan's own units.
        deviations: theirs.
        notes: sentences for the user.
    """

    labels: Integer[np.ndarray, "X Y Z"]
    posterior: Float32[np.ndarray, "M X Y Z"] | None
    log_likelihood: float
    seconds: float
    means: dict[str, float]
    deviations: dict[str, float]
    notes: tuple[str, ...]


class Segmenter:
    """Segments scans by an atlas; nothing is learned from labels of scans.

    Args:
        atlas: the location prior.

    Attributes:
        table: the labels of the segmentations.
        mixing: `[M, K]`, which label of the atlas has which Gaussian.
        least_log_likelihood: what scans of brains have at least.
    """

    least_log_likelihood = 0.15

    def __init__(self, atlas: Atlas) -> None:
        self.atlas = atlas
        self.table: LabelTable = atlas.table
        tissues = [atlas.table.labels[index].tissue for index in atlas.kept]
        self._tissues = list(dict.fromkeys("fluid" if name == "background" else name for name in tissues))
        self.mixing = tissue_mixing(tissues)
        self.prior = packed(softened(atlas.probabilities))
        self.looks = appearances(self.prior, atlas.grid, self.mixing)

    @classmethod
    def load(cls, folder: Path) -> "Segmenter":
        """Read a folder that `hardmax segment prior` made.

        Raises:
            DataError: a file is missing or broken.
        """
        return cls(Atlas.load(folder))

    def segment(self, volume: Volume, *, posterior: bool = False, progress: Progress | None = None) -> Segmentation:
        """Segment a scan whose skull was taken off, of any contrast, orientation and voxel size.

        Args:
            volume: the scan.
            posterior: whether the probabilities of all labels are wanted.
            progress: called with the part that is done, 0 to 1, and with what is being done.

        Raises:
            DataError: there is no brain in the scan.
        """
        began = time.monotonic()
        progress = progress or (lambda part, doing: None)
        progress(0.0, "looking for the brain")
        observed = observe(volume)
        fitter = Fitter(observed, self.looks, VELOCITIES, stream(0, "fit"))
        progress(0.05, "aligning")
        fit = fit_affine(fitter)
        progress(0.4, "deforming")
        fit = fit_deformation(fitter, fit)
        progress(0.7, "comparing with the maps")
        prior = personal_prior(volume, observed, fit, self.prior, self.looks, self.atlas.maps, self.atlas.grid)
        progress(0.85, "labels")
        found = label_voxels(volume, observed, fit, self.atlas, prior, self.looks, posterior=posterior)
        scale, centre = observed.scale, observed.centre
        means = (fit.gaussians.means * scale + centre).tolist()
        return Segmentation(
            found.labels,
            found.posterior,
            found.evidence,
            time.monotonic() - began,
            dict(zip(self._tissues, means, strict=True)),
            dict(zip(self._tissues, (fit.gaussians.deviations * scale).tolist(), strict=True)),
            observed.notes,
        )
