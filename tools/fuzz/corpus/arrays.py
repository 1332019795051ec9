"""Files of arrays: .npz, .npy, IDX, the set Omniglot, token files and index files."""

import gzip
import struct
from pathlib import Path

import numpy as np
import torch

from hardmax.applications.hashing.search import Index, pack
from hardmax.applications.tokens.commands import Tokens, read_tokens, write_tokens
from hardmax.data import load_images
from hardmax.data.loading import load_images_in_order
from hardmax.data.npz import read_npz
from hardmax.data.omniglot import load_omniglot
from tools.fuzz.corpus.target import Target


def make_targets(folder: Path) -> list[Target]:
    """Write the files; return the targets."""
    random = np.random.default_rng(0)
    folder.mkdir(parents=True)
    images = random.integers(0, 256, (24, 6, 6)).astype(np.uint8)
    labels = np.arange(24) % 3
    parts = {"train": images, "validation": images[:4], "test": images[:4]}
    bits = (random.random((24, 2)) < 0.5).astype(np.uint8)
    files = {
        "images.npz": {"images": images, "labels": labels, "class_names": np.array(["a", "b", "c"])},
        "parts.npz": {
            **parts,
            **{f"{part}_attributes": bits[: len(pixels)] for part, pixels in parts.items()},
            "attribute_names": np.array(["round", "tall"]),
        },
        "floats.npz": {"x_train": images / 255, "x_test": images[:4] / 255, "y_train": labels, "y_test": labels[:4]},
        "colour.npz": {"images": random.integers(0, 256, (12, 5, 6, 3)).astype(np.uint8)},
    }
    for name, arrays in files.items():
        np.savez_compressed(folder / name, **arrays)
    np.save(folder / "images.npy", images)
    (folder / "images-idx3-ubyte").write_bytes(_make_idx(images))
    (folder / "images-idx3-ubyte.gz").write_bytes(gzip.compress(_make_idx(images), mtime=0))
    targets = [
        Target(f"array {path.name}", path, lambda path=path: load_images(path)) for path in sorted(folder.iterdir())
    ]
    order = folder / "parts.npz"
    targets.append(Target("array in order", order, lambda: load_images_in_order((str(order),), (1, 6, 6))))
    targets += _make_pair(folder / "pair", images, labels)
    return targets + _make_omniglot(folder) + _make_tokens(folder) + _make_index(folder)


def _make_idx(values: np.ndarray) -> bytes:
    return struct.pack(">HBB", 0, 8, values.ndim) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


def _make_pair(folder: Path, images: np.ndarray, labels: np.ndarray) -> list[Target]:
    """Write images and, beside them, their labels."""
    folder.mkdir()
    path, beside = folder / "train-images-idx3-ubyte", folder / "train-labels-idx1-ubyte"
    path.write_bytes(_make_idx(images))
    beside.write_bytes(_make_idx(labels.astype(np.uint8)))
    return [Target("idx labels", beside, lambda: load_images(path))]


def _make_omniglot(folder: Path) -> list[Target]:
    place = folder / "sets" / "omniglot"
    place.mkdir(parents=True)
    path, count = place / "omniglot_28x28_u8.npz", 20
    np.savez_compressed(
        path,
        images=np.random.default_rng(2).integers(0, 256, (count, 28, 28)).astype(np.uint8),
        alphabet=np.zeros(count, np.uint8),
        character=(np.arange(count) % 5).astype(np.uint16),
        drawer=np.zeros(count, np.uint8),
        split=(np.arange(count) % 2).astype(np.uint8),
        alphabet_names=np.array(["Greek"]),
        character_names=np.array([f"Greek/{number}" for number in range(5)]),
    )
    return [Target("omniglot", path, lambda: load_omniglot(folder / "sets"))]


def _make_tokens(folder: Path) -> list[Target]:
    path = folder / "tokens.npz"
    grids = torch.randint(8, (5, 2, 2), generator=torch.Generator().manual_seed(0))
    write_tokens(path, Tokens(grids, [f"image {number}" for number in range(5)], 8, "ab" * 8))
    return [Target("tokens", path, lambda: read_tokens(path))]


def _make_index(folder: Path) -> list[Target]:
    path, random = folder / "index.npz", np.random.default_rng(3)
    Index(
        codes=pack(random.random((5, 70)) < 0.5),
        bits=70,
        names=tuple(f"image {number}" for number in range(5)),
        images=random.integers(0, 256, (5, 1, 4, 4)).astype(np.uint8),
        run="run",
        checkpoint="checkpoint-7",
        weights="ab" * 32,
    ).save(path)
    return [Target("index", path, lambda: Index.from_arrays(read_npz(path), path))]
