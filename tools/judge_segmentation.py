"""Judge the segmentation of scans with manual labels, step by step, in one table; labels are used for nothing else.

python tools/judge_segmentation.py SCANS_FOLDER --out rows.jsonl [--only test] [--contrast inverted|gamma0.5|gamma2]

The folder holds NAME_t1.nii.gz, NAME_labels.nii.gz and subjects.csv with the columns scan and challenge_split.
"""

import argparse
import csv
import json
import math
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from hardmax.applications.segmentation.atlas.atlas import VELOCITIES
from hardmax.applications.segmentation.atlas.transforms import displacement, draw_indices, roughness, sample_at, warp
from hardmax.applications.segmentation.fit.fitting import Fitter, ScanFit, fit_affine, fit_deformation
from hardmax.applications.segmentation.fit.fusion import fit_personal_atlas
from hardmax.applications.segmentation.fit.labelling import label_voxels
from hardmax.applications.segmentation.fit.observation import observe
from hardmax.applications.segmentation.model_folder import find_model
from hardmax.applications.segmentation.segmenter import Segmenter
from hardmax.applications.segmentation.volumes.agreement import dice
from hardmax.applications.segmentation.volumes.reading import Volume, read_labels, read_volume
from hardmax.random import stream
from hardmax.threads import one_thread

STEPS = {
    "copy": "the aligned atlas, copied",
    "em": "atlas and Gaussians, affine alignment",
    "deformed": "and a deformation",
    "learned": "instead, of a model that was trained: its VAE and encoder, affine alignment",
    "full": "and an atlas of the maps that are most like the scan, place by place",
    "steered": "no method, a limit: the deformation is fitted to the true labels, then EM and arg max as above",
}


def changed(volume: Volume, contrast: str) -> Volume:
    """Return the scan with another contrast inside of its mask; 0 stays outside."""
    inside = volume.values != 0
    top = float(volume.values.max())
    x = volume.values / top
    if contrast == "inverted":
        x = 1 - x + 1 / 255
    elif contrast.startswith("gamma"):
        x = x ** float(contrast.removeprefix("gamma"))
    return replace(volume, values=np.where(inside, x * top, 0).astype(np.float32))


def steered(fitter: Fitter, begun: ScanFit, volume: Volume, prior: Tensor, truth: Tensor, steps: int = 200) -> ScanFit:
    """Return a fit whose deformation makes the true labels of the mask, `[N]`, likeliest."""
    indices = np.argwhere(fitter.observed.mask).astype(np.float64)
    points = torch.from_numpy(volume.grid.to_world(indices)).float()
    field = torch.zeros(3, *VELOCITIES.shape, requires_grad=True)
    change, shift = torch.zeros(3, 3, requires_grad=True), torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.Adam(
        [{"params": [field], "lr": 0.35}, {"params": [change], "lr": 1e-3}, {"params": [shift], "lr": 0.06}]
    )
    decay = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.98 ** max(0, step - steps // 2))
    for _ in range(steps):
        chosen = draw_indices(len(points), 20000, fitter.generator)
        place = begun.place.adjust(change, shift)
        reached = warp(place(points[chosen]), displacement(field, VELOCITIES), VELOCITIES)
        found = sample_at(prior, fitter.atlas.grid, reached).gather(0, truth[chosen][None])
        optimizer.zero_grad()
        (0.25 * roughness(field, float(VELOCITIES.spacing[0])) - (found + 1e-6).log().mean()).backward()
        optimizer.step()
        decay.step()
    place, velocity = begun.place.adjust(change, shift).detach(), field.detach()
    gaussians = fitter.gaussians(place, displacement(velocity, VELOCITIES), begun.gaussians, points=40000)
    return ScanFit(place, velocity, VELOCITIES, gaussians, math.nan)


@one_thread()
def judge(segmenter: Segmenter, volume: Volume, truth: np.ndarray) -> dict[str, tuple[list[float], float]]:
    """Return Dice of all labels, and seconds of processor time so far, after each step."""
    began = time.process_time()
    observed = observe(volume)
    fitter = Fitter(observed, segmenter.appearances, VELOCITIES, stream(0, "fit"))
    out = {}

    def note(step, fit, prior, **options):
        spent = time.process_time() - began
        found = label_voxels(volume, observed, fit, segmenter.atlas, prior, segmenter.appearances, **options)
        out[step] = (dice(found.labels, truth, len(segmenter.table)).tolist(), spent)

    fit = fit_affine(fitter)
    note("copy", fit, segmenter.prior, kappa=math.inf)
    note("em", fit, segmenter.prior)
    if segmenter.trained is not None:
        note("learned", fit, segmenter.predict_prior(volume, observed, fit, *segmenter.trained))
    begun, fit = fit, fit_deformation(fitter, fit)
    note("deformed", fit, segmenter.prior)
    note("full", *fit_personal_atlas(volume, observed, fit, segmenter.atlas, segmenter.prior, segmenter.appearances))
    kept = torch.zeros(len(segmenter.table), dtype=torch.long)
    kept[list(segmenter.atlas.kept)] = torch.arange(len(segmenter.atlas.kept))
    true = kept[torch.from_numpy(truth[observed.mask].astype(np.int64))]
    note("steered", steered(fitter, begun, volume, segmenter.prior, true), segmenter.prior)
    return out


def table(rows: list[dict], names: list[str], judged: list[int]) -> str:
    """Return Dice per structure and, below, per scan, of each step."""
    steps = list(dict.fromkeys(row["step"] for row in rows))
    scans = list(dict.fromkeys(row["scan"] for row in rows))
    values = {(row["scan"], row["step"]): np.array(row["dice"])[judged] for row in rows}
    lines = [f"{'':<24}" + "".join(f"{step:>10}" for step in steps)]
    for place, index in enumerate(judged):
        means = [np.mean([values[scan, step][place] for scan in scans]) for step in steps]
        lines.append(f"{names[index].replace('_', ' '):<24}" + "".join(f"{mean:10.3f}" for mean in means))
    lines.append("")
    per_scan = {step: [values[scan, step].mean() for scan in scans] for step in steps}
    for place, scan in enumerate(scans):
        lines.append(f"{scan:<24}" + "".join(f"{per_scan[step][place]:10.3f}" for step in steps))
    lines.append(f"{'mean':<24}" + "".join(f"{np.mean(per_scan[step]):10.3f}" for step in steps))
    lines.append(f"{'worst':<24}" + "".join(f"{np.min(per_scan[step]):10.3f}" for step in steps))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("segmentation.jsonl"))
    parser.add_argument("--only", default="test", help="split to judge")
    parser.add_argument("--contrast", default="plain")
    parser.add_argument("--model", default=None)
    parser.add_argument("--scans", nargs="*", help="names, if not the whole split")
    options = parser.parse_args()
    segmenter = Segmenter.load(find_model(options.model))
    with (options.folder / "subjects.csv").open() as file:
        scans = [row["scan"] for row in csv.DictReader(file) if row["challenge_split"] == options.only]
    rows = []
    with options.out.open("w") as file:
        for scan in options.scans or scans:
            volume = changed(read_volume(options.folder / f"{scan}_t1.nii.gz"), options.contrast)
            truth = read_labels(options.folder / f"{scan}_labels.nii.gz").labels
            for step, (values, seconds) in judge(segmenter, volume, truth).items():
                rows.append(
                    {
                        "scan": scan,
                        "contrast": options.contrast,
                        "step": step,
                        "seconds": round(seconds, 1),
                        "dice": [None if math.isnan(value) else round(value, 4) for value in values],
                    }
                )
                file.write(json.dumps(rows[-1]) + "\n")
            file.flush()
            found = next(np.array(row["dice"], dtype=float) for row in reversed(rows) if row["step"] == "full")
            print(f"{scan}: {found[segmenter.table.judged].mean():.3f}", flush=True)
    print(table(rows, segmenter.table.names, segmenter.table.judged))


if __name__ == "__main__":
    main()
