"""Score scans with their skull: the brain mask, and the structures beside those of the same scan without its skull.

python tools/judge_heads.py synthetic MAPS... --model PRIOR --out rows.jsonl [--variants T1:full T2:thick ...]
python tools/judge_heads.py pair WHOLE STRIPPED --out rows.jsonl
python tools/judge_heads.py table rows.jsonl

A synthetic scan is made from a label map of a whole head, which the prior should not contain: brightness of each part,
texture, a bias field, blur and noise. Its truth is the map. The mask is compared with the structures of the brain,
closed by 3 mm. A pair is a real scan with its skull and without it. Rows that are in the file are kept.
"""

import argparse
import json
import math
import shlex
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import ndimage

from hardmax.applications.segmentation.atlas.head import HEAD_PARTS, find_head_parts
from hardmax.applications.segmentation.atlas.transforms import rotation_matrix
from hardmax.applications.segmentation.model_folder import find_model
from hardmax.applications.segmentation.segmenter import Segmentation, Segmenter
from hardmax.applications.segmentation.volumes.agreement import dice
from hardmax.applications.segmentation.volumes.geometry import Grid, resample, resample_labels
from hardmax.applications.segmentation.volumes.labels import STRUCTURES
from hardmax.applications.segmentation.volumes.reading import Volume, read_numbers, read_volume, strip_suffix
from hardmax.applications.segmentation.volumes.sides import FREESURFER, find_right, split_sides
from hardmax.version import find_commit

# Brightness of air, white and grey matter, ventricle, deep grey matter, brain stem, fluid, skull, marrow, skin, soft
# tissue, dura, cavity, eye and spinal cord: the order of HEAD_PARTS.
CONTRASTS = {
    "T1": (0, 0.75, 0.52, 0.18, 0.62, 0.7, 0.18, 0.1, 0.7, 0.8, 0.55, 0.35, 0.4, 0.2, 0.68),
    "T2": (0, 0.35, 0.5, 0.95, 0.4, 0.38, 0.95, 0.08, 0.5, 0.6, 0.4, 0.3, 0.4, 0.9, 0.4),
    "PD": (0, 0.6, 0.75, 0.7, 0.68, 0.62, 0.7, 0.1, 0.6, 0.7, 0.6, 0.3, 0.5, 0.75, 0.6),
    "FLAIR": (0, 0.45, 0.6, 0.08, 0.5, 0.47, 0.08, 0.08, 0.5, 0.7, 0.5, 0.3, 0.4, 0.1, 0.45),
}
VARIANTS = ("T1:full", "T2:full", "FLAIR:full", "random:full")
_BRAIN_TEXTURE, _HEAD_TEXTURE, _NOISE, _FIELD = 0.04, 0.15, 0.03, 0.15  # deviations, in units of the brightest part
_CLOSING = 3.0  # mm


@dataclass(frozen=True, eq=False)
class Head:
    """A synthetic scan with its truth: labels in FREESURFER, and the mask of the brain."""

    volume: Volume
    truth: np.ndarray
    mask: np.ndarray


def synthesise_head(path: Path, contrast: str, view: str) -> Head:
    """Return a synthetic scan of a label map of a whole head.

    Args:
        path: the map.
        contrast: one of CONTRASTS, "inverted" (of T1), or "random" for random brightness of every part.
        view: "full"; "thick" for slices of 4 mm; "tilted" by 20 and 10 degrees; "low" and "high" for a field of view
            that ends 10 mm above the brain, or 10 mm below it.
    """
    numbers, grid, _ = read_numbers(path)
    merged, _ = STRUCTURES.to_indices(numbers)
    truth = split_sides(np.where(merged == STRUCTURES.index("csf"), 0, merged), find_right(numbers))
    parts = find_head_parts(numbers)
    in_brain = np.array([part.in_brain for part in HEAD_PARTS])[parts]
    if view in ("low", "high"):
        first, last = (int(end) for end in np.flatnonzero(in_brain.any((0, 1)))[[0, -1]])
        part = slice(None, last + 11) if view == "low" else slice(max(first - 10, 0), None)
        affine = grid.affine.copy()
        affine[:3, 3] = grid.to_world(np.array([[0.0, 0.0, part.start or 0]]))[0]
        parts, truth, in_brain = parts[..., part], truth[..., part], in_brain[..., part]
        grid = Grid(parts.shape, affine)
    rng = np.random.default_rng([sum(map(ord, path.name)), sum(map(ord, contrast))])
    if contrast == "random":
        means = rng.random(len(HEAD_PARTS)) * (np.arange(len(HEAD_PARTS)) > 0)
        means[6] = means[3]  # fluid is the same inside and outside of the brain
    else:
        means = np.array(CONTRASTS["T1" if contrast == "inverted" else contrast])
        means = np.where(means > 0, 1 - means, 0) if contrast == "inverted" else means
    texture = np.where(in_brain, _BRAIN_TEXTURE, _HEAD_TEXTURE) * (parts > 0)
    x = means[parts] + texture * ndimage.gaussian_filter(rng.standard_normal(parts.shape).astype(np.float32), 0.7) * 2
    knots = np.pad(rng.standard_normal((4, 4, 4)), 1, mode="edge")
    places = np.meshgrid(*[np.linspace(1, 4, side) for side in parts.shape], indexing="ij")
    x = np.clip(x, 0, None) * np.exp(_FIELD * ndimage.map_coordinates(knots, places, order=1))
    x = ndimage.gaussian_filter(x.astype(np.float32), 0.45)
    mask = close_mask(in_brain, grid)
    if view == "thick":
        thick = grid.at_spacing(1.0)
        affine = thick.affine @ np.diag([1, 1, 4, 1])
        thick = Grid((thick.shape[0], thick.shape[1], thick.shape[2] // 4), affine)
        x, truth = resample(x, grid, thick), resample_labels(truth, grid, thick)
        mask, grid = resample_labels(mask.astype(np.uint8), grid, thick) > 0, thick
    x = np.hypot(x + _NOISE * rng.standard_normal(x.shape), _NOISE * rng.standard_normal(x.shape))
    if view == "tilted":
        turn = np.eye(4)
        turn[:3, :3] = rotation_matrix((20, 0, 10)).numpy()
        grid = Grid(grid.shape, turn @ grid.affine)
    return Head(Volume((1000 * x).astype(np.float32), grid), truth, mask)


def close_mask(mask: np.ndarray, grid: Grid) -> np.ndarray:
    """Return a mask closed by a ball, its holes filled."""
    padded = np.pad(mask, 8)
    grown = np.asarray(ndimage.distance_transform_edt(~padded, sampling=grid.spacing)) <= _CLOSING
    closed = np.asarray(ndimage.distance_transform_edt(grown, sampling=grid.spacing)) > _CLOSING
    return np.asarray(ndimage.binary_fill_holes(closed[8:-8, 8:-8, 8:-8] | mask))


def measure_overlap(a: np.ndarray, b: np.ndarray) -> float:
    """Return the Dice of two masks."""
    return round(float(2 * (a & b).sum() / (a.sum() + b.sum())), 4)


def score_labels(labels: np.ndarray, truth: np.ndarray) -> list[float | None]:
    """Return the Dice of the judged structures, left and right apart."""
    values = dice(labels, truth, len(FREESURFER))[FREESURFER.judged_indices]
    return [None if math.isnan(value) else round(float(value), 4) for value in values]


def segment_both(segmenter: Segmenter, whole: Volume, stripped: Volume) -> tuple[dict, list[Segmentation]]:
    """Segment a scan with its skull and without it; return what both runs say, and the segmentations."""
    row, out = {}, []
    for name, volume in (("whole", whole), ("stripped", stripped)):
        began = time.process_time()
        out.append(segmenter.segment(volume))
        row[name] = {
            "has_skull": out[-1].has_skull,
            "log_likelihood": round(out[-1].log_likelihood, 4),
            "doubts": list(out[-1].doubts),
            "seconds": round(time.process_time() - began, 1),
        }
    return row, out


def judge_synthetic(segmenter: Segmenter, path: Path, variant: str) -> dict:
    """Return the row of a synthetic scan."""
    head = synthesise_head(path, *variant.split(":"))
    values = np.where(head.mask, np.maximum(head.volume.values, 1), 0).astype(np.float32)
    row, both = segment_both(segmenter, head.volume, replace(head.volume, values=values))
    for name, segmentation in zip(("whole", "stripped"), both, strict=True):
        row[name]["dice"] = score_labels(split_sides(segmentation.labels, segmentation.right), head.truth)
    return {"mask_dice": measure_overlap(both[0].mask, head.mask), **row}


def judge_pair(segmenter: Segmenter, whole: Path, stripped: Path) -> dict:
    """Return the row of a real scan with its skull and without it; the Dice is that between the two runs."""
    row, (first, second) = segment_both(segmenter, read_volume(whole), read_volume(stripped))
    labels = [split_sides(each.labels, each.right) for each in (first, second)]
    return {"mask_dice": measure_overlap(first.mask, second.mask), **row, "dice": score_labels(*labels)}


def print_table(rows: list[dict]) -> None:
    """Print a line of Markdown for each row."""
    print(
        "| scan | variant | mask | structures, with skull | without | doubts | seconds |\n|---|---|---|---|---|---|---|"
    )
    for row in rows:
        means = [
            f"{np.mean([value for value in values if value is not None]):.3f}" if values else ""
            for values in (row["whole"].get("dice", row.get("dice")), row["stripped"].get("dice"))
        ]
        cells = [row["scan"], row["variant"], f"{row['mask_dice']:.3f}", *means]
        cells += [str(len(row["whole"]["doubts"])), f"{row['whole']['seconds']:.0f}"]
        print(f"| {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("synthetic", "pair", "table"))
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("heads.jsonl"))
    parser.add_argument("--model", default=None)
    parser.add_argument("--variants", nargs="*", default=VARIANTS, help="CONTRAST:VIEW for each map, in turn")
    options = parser.parse_args()
    if options.kind == "table":
        print_table([json.loads(line) for line in options.paths[0].read_text().splitlines()])
        return
    rows = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    done = {(row["scan"], row["variant"]) for row in rows}
    segmenter = Segmenter.load(find_model(options.model))
    if options.kind == "pair":
        jobs = [(options.paths[0], "real")]
    else:
        # Each variant is made from one of the maps, in turn.
        jobs = [
            (options.paths[number % len(options.paths)], variant) for number, variant in enumerate(options.variants)
        ]
    command = shlex.join(["python", "tools/judge_heads.py", *sys.argv[1:]])
    for path, variant in jobs:
        if (strip_suffix(path), variant) in done:
            continue
        if options.kind == "pair":
            row = judge_pair(segmenter, *options.paths)
        else:
            row = judge_synthetic(segmenter, path, variant)
        row = {"scan": strip_suffix(path), "variant": variant, **row, "command": command, "commit": find_commit()}
        with options.out.open("a") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
