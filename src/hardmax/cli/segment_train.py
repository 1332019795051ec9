"""`hardmax segment train`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hardmax.cli.options import parse
from hardmax.errors import ArgumentError


@dataclass(frozen=True)
class Options:
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


def run(arguments: list[str]) -> int:
    """Train, and say where the model is."""
    options = parse(Options, "segment train", arguments)
    from hardmax.segmentation.model_folder import find_model
    from hardmax.segmentation.volumes.scans import find_scans

    if not options.scans:
        raise ArgumentError("name the scans to learn from: files, or folders of them")
    scans = [scan.path for scan in find_scans([Path(path).expanduser() for path in options.scans])]
    prior, out = find_model(options.prior), Path(options.out).expanduser()
    from rich.console import Console

    from hardmax.cli.segment_progress import show_progress
    from hardmax.writing import making_folder

    with making_folder(out) as folder, show_progress(Console(stderr=True)) as step:
        step(0, 0.0, f"aligning {len(scans)} scans")
        from hardmax.segmentation.segmenter import Segmenter
        from hardmax.segmentation.vae.atlas_vae import with_vae
        from hardmax.segmentation.vae.encoder_training import train_encoder

        done, total = 0, options.pretraining + options.steps

        def progress(number: int, steps: int, loss: float) -> None:
            nonlocal done
            done += 1
            made = "made scans" if done <= options.pretraining else "scans"
            step(0, done / total, f"{made}, step {number} of {steps}, loss {loss:.3f}")

        segmenter = Segmenter.load(prior)
        train_encoder(
            scans,
            with_vae(prior, folder),
            folder,
            align=segmenter.align,
            mixing=segmenter.mixing,
            pretraining=options.pretraining,
            steps=options.steps,
            seed=options.seed,
            progress=progress,
        )
    print(f"the model is in {out}; segment with: hardmax segment run SCAN --out result --model {out}")
    return 0
