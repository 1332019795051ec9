"""Options of `hardmax segment run`, `segment prior` and `segment train`. No torch here."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from hardmax.errors import ArgumentError


@dataclass(frozen=True)
class SegmentOptions:
    """Segment scans of brains, of any contrast, orientation and voxel size, with the skull taken off.

    Writes, into the folder OUT, for each scan NAME_labels.nii.gz in the scan's own voxels and header and a picture to
    judge it by, qc/NAME.png; and volumes.csv (mm^3), index.html, and colours.txt for viewers of label maps. For
    research; not for clinical use.

    Example: hardmax segment run scan.nii.gz --out result
    """

    scans: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="SCANS...")]
    """Scans (.nii, .nii.gz, .mgh, .mgz), or folders of them."""
    out: str = "segmented"
    """Folder to write to."""
    model: str | None = None
    """Folder of a model or prior; default: the one that comes with hardmax, or was made by hardmax segment prior."""
    posteriors: bool = False
    """Write the probability of each label too: NAME_posteriors.nii.gz, 4-D, in bytes (255ths)."""
    compare: Annotated[str | None, tyro.conf.arg(metavar="TRUTH")] = None
    """True label map, or a folder of them (17_labels.nii.gz belongs to 17_t1.nii.gz): prints Dice and 95 % surface
    distance, and writes dice.csv."""
    smooth: float = 0.0
    """Strength, in nats, of a bond between neighbours that smooths the labels (Potts, by min-cuts); 0 is none."""

    def __post_init__(self) -> None:
        if not self.smooth >= 0:
            raise ArgumentError(f"smooth must be at least 0, got {self.smooth}")


@dataclass(frozen=True)
class PriorOptions:
    """Learn from label maps, without any scans, what anatomy looks like.

    The maps are aligned and averaged. They may be in the numbers of FreeSurfer and SynthSeg, or of hardmax. What is
    made segments scans: hardmax segment run --model PRIOR.

    Example: hardmax segment prior maps/ --out prior
    """

    maps: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="MAPS...")]
    """Label maps (.nii, .nii.gz, .mgh, .mgz), or folders of them."""
    out: str | None = None
    """Folder to make; default: the one where hardmax segment run looks."""


@dataclass(frozen=True)
class EncoderOptions:
    """Learn from unlabelled scans, of any one contrast, to find the anatomy in such scans quickly.

    An encoder learns to say where in the prior a scan is. No labels of the scans are used, and none are needed. What it
    makes is quicker than hardmax segment run without a model, which fits a deformation to each scan, and less exact.

    Example: hardmax segment train scans/ --prior prior --out model
    """

    scans: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="SCANS...")]
    """Scans (.nii, .nii.gz, .mgh, .mgz), or folders of them."""
    prior: str | None = None
    """Folder of the prior; default: the one that hardmax segment run takes."""
    out: str = "segment-model"
    """Folder to make."""
    pretraining: int = 1000
    """Steps on scans that are made from the prior, of random contrast; fewer than a thousand teach too little."""
    steps: int = 200
    """Steps on the scans."""
    seed: int = 0
    """Seed of all randomness."""

    def __post_init__(self) -> None:
        for name in ("pretraining", "steps"):
            if getattr(self, name) < 1:
                raise ArgumentError(f"{name} must be at least 1, got {getattr(self, name)}")
