"""Maps: generated ones have the costs of their kinds, and published files are read or refused."""

import numpy as np
import pytest
import torch

from hardmax.data import generate_maps, read_warcraft
from hardmax.data.terrain import PIXELS, TERRAINS
from hardmax.errors import ArgumentError, DataError

SIZES = {"train": 30, "validation": 3, "test": 5}
COSTS = [kind.cost for kind in TERRAINS.values()]


@pytest.fixture(scope="module")
def data():
    return generate_maps(SIZES)


def test_shapes(data):
    assert data.train.shape == (30, 3, 96, 96)
    assert data.train.dtype == torch.uint8
    assert data.costs["test"].shape == (5, 12, 12)
    assert data.parameters == {"grid": [12, 12]}
    assert generate_maps(SIZES, cells=3).test.shape == (5, 3, 24, 24)


def test_every_kind_occurs_in_smooth_regions(data):
    costs = data.costs["train"]
    values, counts = costs.unique(return_counts=True)
    assert values.tolist() == sorted(COSTS)
    assert counts.min() > 0.1 * costs.numel()
    assert (costs[..., 1:] == costs[..., :-1]).double().mean() > 0.5  # 0.2 for independent cells


def mean_colours(data, part):
    """Return the mean colour of each cell `[N, h, w, 3]`, and its variance over pixels."""
    cells = getattr(data, part).double().unflatten(-1, (-1, PIXELS)).unflatten(-3, (-1, PIXELS))
    return cells.mean((3, 5)).movedim(1, -1)


def test_costs_match_the_pictures_of_the_kinds(data):
    """The mean colour of a cell mostly shows its kind, one pixel far less often."""
    costs, test = data.costs["train"], data.costs["test"]

    def guess(colours, others):
        centres = torch.stack([colours[costs == cost].mean(0) for cost in COSTS])
        return torch.tensor(COSTS)[torch.cdist(others.flatten(0, -2), centres).argmin(-1)].view(test.shape)

    cells = guess(mean_colours(data, "train"), mean_colours(data, "test"))
    pixels = guess(*(part.double()[..., 3::PIXELS, 3::PIXELS].movedim(1, -1) for part in (data.train, data.test)))
    accuracies = [float((chosen == test).double().mean()) for chosen in (cells, pixels)]
    assert accuracies[0] > 0.75
    assert 0.3 < accuracies[1] < accuracies[0] - 0.05


def test_seeds(data):
    again, other = generate_maps({**SIZES, "train": 2}), generate_maps(SIZES, seed=1)
    assert torch.equal(data.test, again.test)
    assert torch.equal(data.costs["test"], again.costs["test"])
    assert not torch.equal(data.test, other.test)
    assert not torch.equal(data.costs["train"][:3], data.costs["validation"])


def test_too_small():
    with pytest.raises(ArgumentError, match="at least 2 rows"):
        generate_maps(SIZES, cells=1)


@pytest.fixture
def folder(tmp_path):
    """Files of the published form, with grids of 2 x 3."""
    random = np.random.default_rng(0)
    for part, count in (("train", 4), ("val", 2), ("test", 3)):
        np.save(tmp_path / f"{part}_maps.npy", random.integers(0, 256, (count, 16, 24, 3), dtype=np.uint8))
        weights = random.choice([0.8, 1.2, 9.2], (count, 2, 3)).astype(np.float16)
        np.save(tmp_path / f"{part}_vertex_weights.npy", weights)
        np.save(tmp_path / f"{part}_shortest_paths.npy", np.ones((count, 2, 3), np.uint8))
    return tmp_path


def test_published_files(folder):
    data = read_warcraft(folder)
    assert repr(data) == "Decisions(warcraft: 4 train, 2 validation, 3 test, 3x16x24 features, 2x3 costs)"
    maps, weights = np.load(folder / "test_maps.npy"), np.load(folder / "test_vertex_weights.npy")
    assert torch.equal(data.test[1, :, 5, 7], torch.from_numpy(maps[1, 5, 7]))
    assert torch.equal(data.costs["test"], torch.from_numpy(weights.astype(np.float32)))
    assert data.parameters == {"grid": [2, 3]}
    few = read_warcraft(folder, {"train": 3, "validation": 9, "test": 1})
    assert (len(few.train), len(few.validation), len(few.test)) == (3, 2, 1)


BROKEN = {
    "no numpy file": ("val_maps", b"nothing", r"val_maps\.npy is broken or not a numpy file"),
    "floats": ("train_maps", np.zeros((4, 16, 24, 3)), r"must be uint8 of shape \[N, H, W, 3\], got float64"),
    "grey": ("train_maps", np.zeros((4, 16, 24), np.uint8), r"got uint8 \[4, 16, 24\]"),
    "empty": ("train_maps", np.zeros((0, 16, 24, 3), np.uint8), r"got uint8 \[0, 16, 24, 3\]"),
    "other cells": ("test_vertex_weights", np.ones((3, 3, 3)), r"must be numbers of shape \[3, 2, 3\]"),
    "other count": ("test_vertex_weights", np.ones((2, 2, 3)), r"got float64 \[2, 2, 3\]"),
    "words": ("test_vertex_weights", np.full((3, 2, 3), "a"), "must be numbers"),
    "negative": ("test_vertex_weights", -np.ones((3, 2, 3)), r"must be finite costs above zero, got -1\.0 to -1\.0"),
    "not finite": ("test_vertex_weights", np.full((3, 2, 3), np.nan), "must be finite costs above zero"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files(folder, case):
    name, content, message = BROKEN[case]
    path = folder / f"{name}.npy"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, content)
    with pytest.raises(DataError, match=message):
        read_warcraft(folder)


def test_missing_file(folder):
    (folder / "val_vertex_weights.npy").unlink()
    with pytest.raises(DataError, match=r"has no file val_vertex_weights\.npy; give the folder"):
        read_warcraft(folder)


def test_parts_of_different_sizes(folder):
    np.save(folder / "val_maps.npy", np.zeros((2, 8, 16, 3), np.uint8))
    np.save(folder / "val_vertex_weights.npy", np.ones((2, 1, 2)))
    with pytest.raises(DataError, match=r"\[3, 8, 16\] and \[1, 2\], but the training maps have \[3, 16, 24\]"):
        read_warcraft(folder)
