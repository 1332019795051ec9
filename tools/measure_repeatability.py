"""Measure the repeatability of the segmenter: how much each volume changes between two simulated scans of one head.

python tools/measure_repeatability.py synthetic MAPS... --model PRIOR --out rows.jsonl   from label maps
python tools/measure_repeatability.py real SCANS... --out rows.jsonl                     from real scans
python tools/measure_repeatability.py table rows.jsonl                                   the tables of the docs

Every simulated scan has a position, noise, a bias field and a contrast. The first scan of a head is compared with
others that differ from it in all of these, or in one of them. Rows that are in the file are kept.
"""

import argparse
import json
import math
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from scipy import ndimage
from torch.nn import functional

from hardmax.applications.segmentation.model_folder import find_model
from hardmax.applications.segmentation.segmenter import Segmenter
from hardmax.applications.segmentation.volumes.agreement import measure_volumes
from hardmax.applications.segmentation.volumes.geometry import Grid, resample_labels
from hardmax.applications.segmentation.volumes.labels import STRUCTURES, LabelTable
from hardmax.applications.segmentation.volumes.reading import Volume, read_labels, read_volume, strip_suffix
from hardmax.random import make_generator
from hardmax.version import find_commit

FACTORS = ("position", "noise", "field", "contrast")
# What differs from the first scan of the head. "rescan" is what differs between two scans by the same sequence;
# "sequence" has a contrast like that of T2 instead of T1.
CHANGES: dict[str, tuple[str, ...]] = {
    "first": (),
    "all": FACTORS,
    "rescan": ("position", "noise", "field"),
    **{factor: (factor,) for factor in FACTORS},
    "sequence": (*FACTORS, "sequence"),
}
ROTATION, SHIFT = 8.0, 5.0  # most degrees about each axis, most mm along each axis
NOISE, FIELD, TEXTURE = 0.03, 0.05, 0.05  # deviations: of the range of brightness, of the log of the field
SIDES = (192, 224, 192)  # mm, and voxels, of a simulated scan
T1 = {"white": 0.8, "grey": 0.52, "fluid": 0.12, "thalamus": 0.66, "caudate": 0.54, "putamen": 0.6, "pallidum": 0.74,
      "brain stem": 0.74, "other": 0.4}  # fmt: skip
T2 = {"white": 0.3, "grey": 0.5, "fluid": 0.95, "thalamus": 0.4, "caudate": 0.46, "putamen": 0.42, "pallidum": 0.24,
      "brain stem": 0.34, "other": 0.6}  # fmt: skip

Draws = Callable[[str], torch.Generator]


@dataclass(frozen=True)
class Head:
    """What all simulated scans of a head share.

    Attributes:
        name: its name, also the seed of its scans.
        mask: `[X, Y, Z]`, the brain.
        grid: voxels of the mask.
        draw_values: function of the draws and of whether the sequence differs that returns the brightness, `[X, Y, Z]`.
        labels: `[X, Y, Z]`, true labels, if they are known.
    """

    name: str
    mask: np.ndarray
    grid: Grid
    draw_values: Callable[[Draws, bool], np.ndarray]
    labels: np.ndarray | None = None


def load_map(path: Path, table: LabelTable = STRUCTURES) -> Head:
    """Return a head whose scans are synthetic: tissues of a label map with texture, at 0.5 mm."""
    name, label_map = strip_suffix(path), read_labels(path)
    box = ndimage.find_objects((label_map.labels > 0).astype(np.uint8))[0]
    # The coarse labels are repeated, so that a simulated scan, wherever its voxels are, has averages over its voxels.
    labels = label_map.labels[box].repeat(2, 0).repeat(2, 1).repeat(2, 2)
    affine = label_map.grid.affine.copy()
    affine[:3, 3] = label_map.grid.to_world(np.array([[part.start - 0.25 for part in box]], dtype=np.float64))[0]
    affine[:3, :3] /= 2
    generator = make_generator(0, name, "texture")
    texture = ndimage.gaussian_filter(torch.randn(labels.shape, generator=generator).numpy(), 2.0)
    texture *= TEXTURE / texture.std()

    def draw_values(draws: Draws, other_sequence: bool) -> np.ndarray:
        drawn = {
            tissue: mean + 0.03 * float(torch.randn((), generator=draws("contrast")))
            for tissue, mean in (T2 if other_sequence else T1).items()
        }
        means = [np.mean([drawn.get(tissue, 0.0) for tissue in label.tissues]) for label in table.labels]
        return np.array(means, dtype=np.float32)[labels] + texture

    return Head(name, labels > 0, Grid(labels.shape, affine), draw_values, labels)


def load_scan(path: Path) -> Head:
    """Return a head whose scans are copies of a real, skull-stripped one, with a monotone change of contrast."""
    volume = read_volume(path)
    mask = volume.values != 0
    # Brightness goes on beyond the mask, or cubic interpolation would overshoot at its edge.
    nearest = ndimage.distance_transform_edt(~mask, return_distances=False, return_indices=True)
    values = volume.values[tuple(np.asarray(nearest))]
    low, high = np.percentile(volume.values[mask], [0.5, 99.5])

    def draw_values(draws: Draws, other_sequence: bool) -> np.ndarray:
        if other_sequence:
            raise SystemExit("a real scan has the contrast of its sequence: leave out the change 'sequence'")
        gamma = math.exp(0.25 * float(torch.randn((), generator=draws("contrast")).clamp(-1.5, 1.5)))
        return np.clip((values - low) / (high - low), 0, 1.2).astype(np.float32) ** gamma

    return Head(strip_suffix(path), mask, volume.grid, draw_values)


def simulate_scan(head: Head, change: str) -> tuple[Volume, np.ndarray | None]:
    """Return a simulated scan, and the true labels in its voxels if they are known.

    The header does not know the position: in its world the voxels are upright, and the head is tilted.
    """
    changed = CHANGES[change]
    generators = {factor: make_generator(int(factor in changed), head.name, factor) for factor in FACTORS}
    target = _draw_grid(head, generators["position"])
    values = head.draw_values(generators.__getitem__, "sequence" in changed)
    if (spacing := head.grid.spacing.mean()) < 0.99:  # the average over a voxel of the simulated scan
        values = ndimage.gaussian_filter(values, math.sqrt(1 / spacing**2 - 1) / 2.355)
    x = _interpolate(values, head.grid, target, order=3)
    mask = _interpolate(head.mask.astype(np.float32), head.grid, target, order=1) >= 0.5
    knots = torch.randn((1, 1, 4, 4, 4), generator=generators["field"])
    field = functional.interpolate(knots, target.shape, mode="trilinear", align_corners=True)[0, 0].numpy()
    x = x * np.exp(FIELD * field) + NOISE * torch.randn(target.shape, generator=generators["noise"]).numpy()
    x = np.where(mask, np.maximum(1000 * x, 1), 0).round().astype(np.float32)
    labels = None if head.labels is None else resample_labels(head.labels, head.grid, target)
    upright = np.eye(4)
    upright[:3, 3] = -(np.array(target.shape) - 1) / 2
    return Volume(x, Grid(target.shape, upright)), labels


def _draw_grid(head: Head, generator: torch.Generator) -> Grid:
    """Return voxels of 1 mm around the head, turned by up to ROTATION degrees and moved by up to SHIFT mm."""
    numbers = (2 * torch.rand(6, generator=generator, dtype=torch.float64) - 1).numpy()
    affine = np.eye(4)
    for axis, angle in enumerate(np.radians(ROTATION * numbers[:3])):
        turn = np.eye(3)
        i, j = (other for other in range(3) if other != axis)
        turn[i, i] = turn[j, j] = np.cos(angle)
        turn[i, j], turn[j, i] = -np.sin(angle), np.sin(angle)
        affine[:3, :3] = turn @ affine[:3, :3]
    centre = head.grid.to_world(np.array([ndimage.center_of_mass(head.mask)]))[0] + SHIFT * numbers[3:]
    affine[:3, 3] = centre - affine[:3, :3] @ ((np.array(SIDES) - 1) / 2)
    return Grid(SIDES, affine)


def _interpolate(values: np.ndarray, source: Grid, target: Grid, order: int) -> np.ndarray:
    change = np.linalg.inv(source.affine) @ target.affine
    return ndimage.affine_transform(values, change, output_shape=target.shape, order=order)


def measure_heads(options: argparse.Namespace) -> None:
    """Segment the simulated scans of each head that have no row yet, and append their rows."""
    model = find_model(options.model)
    segmenter = Segmenter.load(model)
    done = {(row["kind"], row["head"], row["change"]) for row in read_rows(options.out)}
    commit = find_commit()
    load = load_map if options.kind == "synthetic" else load_scan
    for change in options.changes:  # all heads with the first change before the next one: it is complete early
        for path in options.heads:
            if (options.kind, strip_suffix(path), change) in done:
                continue
            head = load(path)
            volume, labels = simulate_scan(head, change)
            result = segmenter.segment(volume)
            row = {
                "command": format_command(options, change, path),
                "commit": commit,
                "kind": options.kind,
                "head": head.name,
                "change": change,
                "log_likelihood": round(result.log_likelihood, 4),
                "seconds": round(result.seconds, 1),
                "volumes": _list_volumes(result.labels, volume.grid, segmenter.table),
                "true": None if labels is None else _list_volumes(labels, volume.grid, segmenter.table),
            }
            with options.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{head.name}, {change}: {result.seconds:.0f} s", flush=True)


def format_command(options: argparse.Namespace, change: str, path: Path) -> str:
    """Return the command that gives the row of one scan, without the folders of this machine."""
    words = ["python", "tools/measure_repeatability.py", options.kind, path.name, "--changes", change]
    return shlex.join([*words, *(["--model", Path(options.model).name] if options.model else [])])


def _list_volumes(labels: np.ndarray, grid: Grid, table: LabelTable) -> dict[str, float]:
    sizes = measure_volumes(labels, grid, len(table))
    return {table.names[index]: round(float(sizes[index]), 1) for index in table.judged_indices}


def read_rows(path: Path) -> list[dict]:
    """Return the rows of a file; a missing file has none."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def percent_changes(rows: Sequence[dict], kind: str, change: str, key: str = "volumes") -> dict[str, dict[str, float]]:
    """Return the change between the first scan and another, in percent of their mean: by head, then by structure."""
    scans = {(row["head"], row["change"]): row[key] for row in rows if row["kind"] == kind}
    out = {}
    for head, volumes in ((head, volumes) for (head, what), volumes in scans.items() if what == change):
        if (first := scans.get((head, "first"))) is None or volumes is None:
            continue
        # A structure that neither scan has did not change.
        pairs = {name: (first[name], size) for name, size in volumes.items()}
        pairs["all together"] = (sum(first.values()), sum(volumes.values()))
        out[head] = {name: 200 * abs(a - b) / (a + b) if a + b else 0.0 for name, (a, b) in pairs.items()}
    return out


def format_tables(rows: Sequence[dict]) -> str:
    """Return Markdown: for each kind of head, the changes of each structure, and the means by what was changed."""
    out = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        tables = {change: percent_changes(rows, kind, change) for change in CHANGES if change != "first"}
        tables = {change: heads for change, heads in tables.items() if heads}
        floor = percent_changes(rows, kind, "all", "true")
        columns = [change for change in ("rescan", "all") if change in tables]
        header = ["structure", *(f"{change}, {word}" for change in columns for word in ("mean", "worst"))]
        header += ["true labels, mean"] if floor else []
        out += ["", f"{kind}:", "", f"| {' | '.join(header)} |", "|---" + "|---:" * (len(header) - 1) + "|"]
        first = next(iter(tables.values()))
        names = list(next(iter(first.values())))
        structures = [name for name in names if name != "all together"]
        for title, chosen in [*((name, [name]) for name in names), ("**mean over structures**", structures)]:
            cells = []
            for change in columns:
                means = _average(tables[change], chosen)
                cells += [f"{np.mean(means):.2f}", f"{max(means):.2f}"]
            cells += [f"{np.mean(_average(floor, chosen)):.2f}"] if floor else []
            out.append(f"| {title.replace('_', ' ')} | {' | '.join(cells)} |")
        out += ["", "| changed | heads | mean over structures | worst head |", "|---|---:|---:|---:|"]
        for change, heads in tables.items():
            means = _average(heads, structures)
            out.append(f"| {change} | {len(means)} | {np.mean(means):.2f} | {max(means):.2f} |")
    return "\n".join(out[1:])


def _average(heads: dict[str, dict[str, float]], names: Sequence[str]) -> list[float]:
    """Return the mean over structures for each head."""
    return [float(np.mean([changes[name] for name in names])) for changes in heads.values()]


def main(arguments: Sequence[str]) -> None:
    """Make rows, or print the tables of a file of rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    for kind in ("synthetic", "real"):
        reader = kinds.add_parser(kind)
        reader.add_argument("heads", type=Path, nargs="+")
        reader.add_argument("--model")
        reader.add_argument("--out", type=Path, default=Path("segmentation-repeatability.jsonl"))
        reader.add_argument("--changes", nargs="+", choices=CHANGES, default=["first", "all"])
    kinds.add_parser("table").add_argument("rows", type=Path)
    options = parser.parse_args(arguments)
    if options.kind == "table":
        print(format_tables(read_rows(options.rows)))
    else:
        measure_heads(options)


if __name__ == "__main__":
    main(sys.argv[1:])
