"""Write the sample in src/hardmax/data/sample from Fashion-MNIST; needs HARDMAX_DATA; same bytes every time.

500 training images and 100 test images per class, drawn with a fixed seed, in the order of classes 0, 1, ..., 9, 0,
1, ...
"""

import gzip
import random
import struct
import sys
from pathlib import Path

import numpy as np

from hardmax.data.datasets import SETS, obtain_files
from hardmax.data.download import compute_md5
from hardmax.data.idx import read_idx

SEED = 0
PER_CLASS = {"train": 500, "t10k": 100}
SAMPLE = Path(__file__).parents[1] / "src" / "hardmax" / "data" / "sample"


def draw_balanced_indices(labels: np.ndarray, per_class: int) -> np.ndarray:
    """Draw the same number of indices of every class, and interleave the classes."""
    stream = random.Random(SEED)
    # Python guarantees that the numbers of random() never change; it does so for no other method of Random.
    order = np.array([index for _, index in sorted((stream.random(), index) for index in range(len(labels)))])
    return np.stack([order[labels[order] == label][:per_class] for label in range(10)], axis=1).reshape(-1)


def write_idx(path: Path, values: np.ndarray) -> None:
    header = struct.pack(f">4B{values.ndim}I", 0, 0, 0x08, values.ndim, *values.shape)
    # GzipFile writes the same header in every version of Python, gzip.compress does not.
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as stream:
        stream.write(header + values.tobytes())


def write_sample(folder: Path) -> None:
    files = obtain_files(SETS["fashion-mnist"])
    for file in SETS["fashion-mnist"].files:
        if files[file.name].suffix == ".gz" and compute_md5(files[file.name]) != file.md5:
            sys.exit(f"{files[file.name]} is not the published file")
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, per_class in PER_CLASS.items():
        images, labels = f"{prefix}-images-idx3-ubyte.gz", f"{prefix}-labels-idx1-ubyte.gz"
        chosen = draw_balanced_indices(read_idx(files[labels], 1), per_class)
        write_idx(folder / images, read_idx(files[images], 3)[chosen])
        write_idx(folder / labels, read_idx(files[labels], 1)[chosen])


if __name__ == "__main__":
    write_sample(SAMPLE)
    for path in sorted(SAMPLE.iterdir()):
        print(f"{path.name}: {path.stat().st_size:,} bytes")
