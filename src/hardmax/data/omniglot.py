"""Omniglot: handwritten characters of 50 alphabets; the test alphabets are others than those to train with."""

from pathlib import Path

import numpy as np
import torch

from hardmax.data.catalogue import SETS, cache_dir, obtain
from hardmax.data.download import Progress
from hardmax.data.images import Images
from hardmax.data.npz import read_npz
from hardmax.data.omniglot_zip import ZIPS, convert
from hardmax.data.split import deal
from hardmax.errors import DataError

_ARRAYS = ("images", "character", "split")


def prepare_omniglot(
    data_dir: str | Path | None = None, *, into: Path | None = None, progress: Progress | None = None
) -> Path:
    """Return the path of the 28x28 images; if they are not here, make them from the publisher's zip files.

    Args:
        data_dir: where to look first.
        into: look only in this folder, and put there what is missing; by default, that goes to the cache.
        progress: see `hardmax.data.download.download`.

    Raises:
        DataError: the files are not here and cannot be downloaded, or are broken.
    """
    entry = SETS["omniglot"]
    assert entry.converted is not None
    files = obtain(entry, data_dir, into=into, progress=progress)
    if entry.converted not in files:
        target = (into or cache_dir() / entry.name) / entry.converted
        convert((files[ZIPS[0]], files[ZIPS[1]]), target)
        return target
    return files[entry.converted]


def load_omniglot(data_dir: str | Path | None = None) -> Images:
    """Load Omniglot at 28x28: background to train, a tenth of it (always the same) to validate, evaluation to test.

    Labels are the numbers of the characters, 0 to 1,622. Log-likelihoods on these images do not compare with those
    in the literature, which are from another 28x28 version with another split.

    Raises:
        DataError: the files are not here and cannot be downloaded, or are broken.
    """
    path = prepare_omniglot(data_dir)
    arrays = read_npz(path, only=_ARRAYS)
    if missing := [name for name in _ARRAYS if name not in arrays]:
        raise DataError(f"{path} has no array {' nor '.join(missing)}; remove it to have it made again")
    images, character, split = (arrays[name] for name in _ARRAYS)
    if images.dtype != np.uint8 or images.shape != (len(split), 28, 28) or character.shape != split.shape:
        raise DataError(
            f"{path}: images {images.dtype} {list(images.shape)} with {len(character):,} characters and "
            f"{len(split):,} splits, expected uint8 [N, 28, 28] with N of each; remove it to have it made again"
        )
    pixels, labels = torch.from_numpy(images).unsqueeze(1), torch.from_numpy(character.astype(np.int64))
    background, evaluation = (torch.from_numpy(np.flatnonzero(split == which)) for which in (0, 1))
    parts = {part: background[index] for part, index in deal([()] * len(background), ["validation"], seed=0).items()}
    parts["test"] = evaluation
    return Images(
        name="omniglot",
        source=f"{path}: 105x105 box-filtered to 28x28, ink bright; background to train and validate, "
        "evaluation to test; labels are characters",
        train=pixels[parts["train"]],
        validation=pixels[parts["validation"]],
        test=pixels[parts["test"]],
        labels={part: labels[index] for part, index in parts.items()},
    )
