"""Score each step of the segmentation against manual labels, in one table; the labels are used for nothing else.

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

from hardmax.applications.segmentation.atlas.atlas import VELOCITY_GRID
from hardmax.applications.segmentation.atlas.transforms import (
    draw_indices,
    integrate_velocity,
    roughness,
    sample_at,
    warp_points,
)
from hardmax.applications.segmentation.fit.fitting import Fitter, ScanFit, fit_affine, fit_deformation
from hardmax.applications.segmentation.fit.fusion import fit_personal_atlas
from hardmax.applications.segmentation.fit.labelling import label_voxels
from hardmax.applications.segmentation.fit.observation import prepare_scan
from hardmax.applications.segmentation.model_folder import find_model
from hardmax.applications.segmentation.segmenter import Segmenter
from hardmax.applications.segmentation.volumes.agreement import dice
from hardmax.applications.segmentation.volumes.reading import Volume, read_labels, read_volume
from hardmax.random import make_generator
from hardmax.threads import use_one_thread

STEPS = {
    "copy": "labels of the atlas after affine alignment",
    "em": "affine alignment, then EM of the Gaussians with the atlas",
    "deformed": "as em, with a deformation",
    "learned": "as em, with the VAE and encoder of a trained model instead of the atlas",
    "full": "as deformed, with a personal atlas of the maps that are locally most similar to the scan",
    "steered": "not a method but a limit: the deformation is fitted to the true labels, then EM and arg max as above",
}


def change_contrast(volume: Volume, contrast: str) -> Volume:
    """Return the scan with another contrast inside its mask; outside it stays 0."""
    inside = volume.values != 0
    top = float(volume.values.max())
    x = volume.values / top
    if contrast == "inverted":
        x = 1 - x + 1 / 255
    elif contrast.startswith("gamma"):
        x = x ** float(contrast.removeprefix("gamma"))
    return replace(volume, values=np.where(inside, x * top, 0).astype(np.float32))


def fit_to_truth(
    fitter: Fitter, start: ScanFit, volume: Volume, prior: Tensor, truth: Tensor, steps: int = 200
) -> ScanFit:
    """Return a fit whose deformation maximises the probability of the true labels of the mask, `[N]`."""
    indices = np.argwhere(fitter.observation.mask).astype(np.float64)
    points = torch.from_numpy(volume.grid.to_world(indices)).float()
    field = torch.zeros(3, *VELOCITY_GRID.shape, requires_grad=True)
    change, shift = torch.zeros(3, 3, requires_grad=True), torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.Adam(
        [{"params": [field], "lr": 0.35}, {"params": [change], "lr": 1e-3}, {"params": [shift], "lr": 0.06}]
    )
    decay = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.98 ** max(0, step - steps // 2))
    for _ in range(steps):
        sample = draw_indices(len(points), 20000, fitter.generator)
        affine = start.affine.adjust(change, shift)
        displacement = integrate_velocity(field, VELOCITY_GRID)
        atlas_points = warp_points(affine(points[sample]), displacement, VELOCITY_GRID)
        likelihood = sample_at(prior, fitter.atlas.grid, atlas_points).gather(0, truth[sample][None])
        optimizer.zero_grad()
        (0.25 * roughness(field, float(VELOCITY_GRID.spacing[0])) - (likelihood + 1e-6).log().mean()).backward()
        optimizer.step()
        decay.step()
    affine, velocity = start.affine.adjust(change, shift).detach(), field.detach()
    displacement = integrate_velocity(velocity, VELOCITY_GRID)
    gaussians = fitter.fit_gaussians(affine, displacement, start.gaussians, points=40000)
    return ScanFit(affine, velocity, VELOCITY_GRID, gaussians, math.nan)


@use_one_thread()
def score_steps(segmenter: Segmenter, volume: Volume, truth: np.ndarray) -> dict[str, tuple[list[float], float]]:
    """Return, for each step, Dice of all labels and the processor time so far in seconds."""
    began = time.process_time()
    observation = prepare_scan(volume)
    fitter = Fitter(observation, segmenter.appearances, VELOCITY_GRID, make_generator(0, "fit"))
    out = {}

    def add_step(step, fit, prior, **options):
        seconds = time.process_time() - began
        labelling = label_voxels(volume, observation, fit, segmenter.atlas, prior, segmenter.appearances, **options)
        out[step] = (dice(labelling.labels, truth, len(segmenter.table)).tolist(), seconds)

    fit = fit_affine(fitter)
    add_step("copy", fit, segmenter.prior, kappa=math.inf)
    add_step("em", fit, segmenter.prior)
    if segmenter.trained is not None:
        add_step("learned", fit, segmenter.predict_prior(volume, observation, fit, *segmenter.trained))
    affine_fit, fit = fit, fit_deformation(fitter, fit)
    add_step("deformed", fit, segmenter.prior)
    add_step(
        "full", *fit_personal_atlas(volume, observation, fit, segmenter.atlas, segmenter.prior, segmenter.appearances)
    )
    kept = torch.zeros(len(segmenter.table), dtype=torch.long)
    kept[list(segmenter.atlas.kept)] = torch.arange(len(segmenter.atlas.kept))
    true = kept[torch.from_numpy(truth[observation.mask].astype(np.int64))]
    add_step("steered", fit_to_truth(fitter, affine_fit, volume, segmenter.prior, true), segmenter.prior)
    return out


def format_table(rows: list[dict], names: list[str], judged: list[int]) -> str:
    """Return a table of the Dice of each step: per structure, and below per scan."""
    steps = list(dict.fromkeys(row["step"] for row in rows))
    scans = list(dict.fromkeys(row["scan"] for row in rows))
    values = {(row["scan"], row["step"]): np.array(row["dice"])[judged] for row in rows}
    lines = [f"{'':<24}" + "".join(f"{step:>10}" for step in steps)]
    for column, index in enumerate(judged):
        means = [np.mean([values[scan, step][column] for scan in scans]) for step in steps]
        lines.append(f"{names[index].replace('_', ' '):<24}" + "".join(f"{mean:10.3f}" for mean in means))
    lines.append("")
    per_scan = {step: [values[scan, step].mean() for scan in scans] for step in steps}
    for number, scan in enumerate(scans):
        lines.append(f"{scan:<24}" + "".join(f"{per_scan[step][number]:10.3f}" for step in steps))
    lines.append(f"{'mean':<24}" + "".join(f"{np.mean(per_scan[step]):10.3f}" for step in steps))
    lines.append(f"{'worst':<24}" + "".join(f"{np.min(per_scan[step]):10.3f}" for step in steps))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("segmentation.jsonl"))
    parser.add_argument("--only", default="test", help="split to score")
    parser.add_argument("--contrast", default="plain")
    parser.add_argument("--model", default=None)
    parser.add_argument("--scans", nargs="*", help="names of scans; by default all of the split")
    options = parser.parse_args()
    segmenter = Segmenter.load(find_model(options.model))
    with (options.folder / "subjects.csv").open() as file:
        scans = [row["scan"] for row in csv.DictReader(file) if row["challenge_split"] == options.only]
    rows = []
    with options.out.open("w") as file:
        for scan in options.scans or scans:
            volume = change_contrast(read_volume(options.folder / f"{scan}_t1.nii.gz"), options.contrast)
            truth = read_labels(options.folder / f"{scan}_labels.nii.gz").labels
            for step, (values, seconds) in score_steps(segmenter, volume, truth).items():
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
            full = next(np.array(row["dice"], dtype=float) for row in reversed(rows) if row["step"] == "full")
            print(f"{scan}: {full[segmenter.table.judged_indices].mean():.3f}", flush=True)
    print(format_table(rows, segmenter.table.names, segmenter.table.judged_indices))


if __name__ == "__main__":
    main()
