"""Options of the commands `hardmax segment run`, `segment prior` and `segment train`. No torch here."""

from dataclasses import dataclass
from typing import Annotated, Literal

from hardmax.applications.argument_parser import Argument, Metavar
from hardmax.errors import ArgumentError


@dataclass(frozen=True)
class SegmentOptions:
    """Segment scans of heads or brains of any contrast, orientation and voxel size.

    A scan may have its skull or be skull-stripped: everything but the brain set to one value, usually 0. Writes into
    the folder OUT: for each scan NAME_labels.nii.gz, with the scan's voxels and header, NAME_mask.nii.gz, the brain
    mask, and the quality image qc/NAME.png, which shows the outlines; for all scans of the folder volumes.csv (mm^3,
    and percent of asymmetry), the page index.html, and colours.txt, a colour table for viewers of label maps. The
    results of a BIDS data set are a BIDS derivative: label maps sub-01/anat/sub-01_space-orig_dseg.nii.gz, masks,
    dseg.tsv, volumes.tsv and descriptions. For research; not for clinical use.

    Example: hardmax segment run scan.nii.gz --out result

    Example: hardmax segment run study/ --out study/derivatives/hardmax --participant-label 01 02 --workers 4
    """

    scans: Annotated[tuple[str, ...], Argument("SCANS")]
    """Scans (.nii, .nii.gz, .mgh, .mgz), or folders of them; or one BIDS data set, also as other BIDS apps are called:
    DATASET OUT participant."""
    out: str = "segmented"
    """Folder of the results; scans are added to those of earlier calls, and the same scan is replaced."""
    model: Annotated[str | None, Metavar("FOLDER")] = None
    """Folder of a model or prior; default: the prior that comes with hardmax, or that hardmax segment prior made."""
    labels: Literal["freesurfer", "merged"] = "freesurfer"
    """freesurfer: left and right apart, with the numbers and names of FreeSurfer; merged: 16 structures, numbered from
    1, for comparison."""
    skull: Literal["auto", "on", "off"] = "auto"
    """Whether the scans have their skull; auto: find out for each scan."""
    mask: Annotated[str | None, Metavar("MASK")] = None
    """Brain mask to use instead of finding one, or a folder of them (17_mask.nii.gz belongs to 17_t1.nii.gz)."""
    posteriors: bool = False
    """Also write the probability of each label: NAME_posteriors.nii.gz, 4-D, one byte each (255ths)."""
    compare: Annotated[str | None, Metavar("TRUTH")] = None
    """True label map, or a folder of them (17_labels.nii.gz belongs to 17_t1.nii.gz): print Dice and 95 % surface
    distance, and write dice.csv."""
    smooth: float = 0.0
    """Smooth the labels: penalty, in nats, for neighbours with different labels (Potts, by min-cuts); 0 is off."""
    workers: int = 1
    """Number of processes that segment scans at the same time, with one thread each. Each needs about 1.2 GB of memory,
    more for voxels below 1 mm."""
    participant_label: Annotated[tuple[str, ...], Metavar("LABEL")] = ()
    """Participants of a BIDS data set to segment, with or without sub-; default: all."""
    session_label: Annotated[tuple[str, ...], Metavar("LABEL")] = ()
    """Sessions of a BIDS data set to segment, with or without ses-; default: all."""
    suffix: Annotated[tuple[str, ...], Metavar("SUFFIX")] = ()
    """Kinds of scans of a BIDS data set to segment, such as T2w or FLAIR; all scans of a kind are segmented, also
    several of one session; default: T1w."""

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ArgumentError(f"workers must be at least 1, got {self.workers}")
        if not self.smooth >= 0:
            raise ArgumentError(f"smooth must be at least 0, got {self.smooth}")


@dataclass(frozen=True)
class PriorOptions:
    """Learn an anatomical prior from label maps, without any scans.

    The maps are aligned and averaged. They may have the label numbers of FreeSurfer and SynthSeg, or of hardmax. The
    prior segments scans: hardmax segment run --model PRIOR.

    Example: hardmax segment prior maps/ --out prior
    """

    maps: Annotated[tuple[str, ...], Argument("MAPS")]
    """Label maps (.nii, .nii.gz, .mgh, .mgz), or folders of them."""
    out: str | None = None
    """Folder to create; default: the one where hardmax segment run looks for a prior."""


@dataclass(frozen=True)
class EncoderOptions:
    """Train an encoder, on unlabelled scans of any one contrast, to find the anatomy in such scans quickly.

    The encoder learns to map a scan to the latents of the prior. No labels of the scans are used or needed. The model
    is faster than hardmax segment run without a model, which fits a deformation to each scan, and less accurate.

    Example: hardmax segment train scans/ --prior prior --out model
    """

    scans: Annotated[tuple[str, ...], Argument("SCANS")]
    """Scans (.nii, .nii.gz, .mgh, .mgz), or folders of them."""
    prior: Annotated[str | None, Metavar("FOLDER")] = None
    """Folder of the prior; default: the one that hardmax segment run uses."""
    out: str = "segment-model"
    """Folder to create."""
    pretraining: int = 1000
    """Number of steps on synthetic scans of random contrast, drawn from the prior; below 1000 it learns too little."""
    steps: int = 200
    """Number of training steps on the scans."""
    seed: int = 0
    """Seed of all random numbers."""

    def __post_init__(self) -> None:
        for name in ("pretraining", "steps"):
            if getattr(self, name) < 1:
                raise ArgumentError(f"{name} must be at least 1, got {getattr(self, name)}")
