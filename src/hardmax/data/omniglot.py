"""Omniglot: handwritten characters of 50 alphabets; the test alphabets are not in the training set."""

import io
import re
import zipfile
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image

from hardmax.data.datasets import SETS, find_cache, obtain_files
from hardmax.data.download import Progress
from hardmax.data.images import Images, assign_splits
from hardmax.data.npz import read_npz
from hardmax.errors import DataError
from hardmax.files import replace_atomically

ZIPS = ("images_background.zip", "images_evaluation.zip")  # split 0 and 1
_SIZE = 105
_LARGEST = 100_000  # bytes of a drawing: a PNG of 105x105 pixels has some hundred
# images_background/Greek/character07/0402_13.png: alphabet, character, (an unused number,) drawer
_MEMBER = re.compile(r"images_\w+/([^/]+)/(character\d+)/\d+_(\d{1,3})\.png")


def shrink_drawing(drawing: Image.Image) -> UInt8[np.ndarray, "28 28"]:
    """Convert a drawing, black ink on white paper, to 28x28 grey values with bright ink."""
    # Inverted first: the filter rounds to integers, and the paper must be exactly zero.
    ink = Image.fromarray(255 - np.asarray(drawing.convert("L")))
    return np.asarray(ink.resize((28, 28), Image.Resampling.BOX))


def convert_zips(zips: tuple[Path, Path], target: Path) -> None:
    """Convert the publisher's two zip files into one .npz.

    Its arrays: `images [N, 28, 28]` uint8, ink bright; `alphabet [N]`, `character [N]` and `drawer [N]`, numbers;
    `split [N]`, 0 for background and 1 for evaluation; `alphabet_names` and `character_names`.

    Raises:
        DataError: a zip file is broken, or holds other files.
    """
    images: list[np.ndarray] = []
    rows: list[tuple[int, int, int, int]] = []
    alphabets: dict[str, int] = {}
    characters: dict[str, int] = {}
    for split, path in enumerate(zips):
        for (alphabet, character, drawer), image in _read_drawings(path):
            images.append(image)
            rows.append(
                (
                    alphabets.setdefault(alphabet, len(alphabets)),
                    characters.setdefault(f"{alphabet}/{character}", len(characters)),
                    int(drawer),
                    split,
                )
            )
    columns = np.array(rows)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with replace_atomically(target) as temporary, temporary.open("wb") as stream:
            np.savez_compressed(
                stream,
                images=np.stack(images),
                alphabet=columns[:, 0].astype(np.uint8),
                character=columns[:, 1].astype(np.uint16),
                drawer=columns[:, 2].astype(np.uint8),
                split=columns[:, 3].astype(np.uint8),
                alphabet_names=np.array(list(alphabets)),
                character_names=np.array(list(characters)),
            )
    except OSError as error:
        raise DataError(f"cannot write {target}: {error.strerror or error}; choose another folder") from error


def _read_drawings(path: Path) -> list[tuple[tuple[str, ...], np.ndarray]]:
    """Read one zip file: alphabet, character and drawer of each drawing, and its 28x28 image, sorted by file name."""
    drawings: list[tuple[tuple[str, ...], np.ndarray]] = []
    try:
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist()):
                if match := _MEMBER.fullmatch(name):
                    if (size := archive.getinfo(name).file_size) > _LARGEST:
                        raise DataError(f"{path}: {name} has {size:,} bytes, expected a drawing of some hundred")
                    with Image.open(io.BytesIO(archive.read(name))) as drawing:
                        if drawing.size != (_SIZE, _SIZE):
                            raise DataError(f"{path}: {name} is {drawing.size}, expected {_SIZE}x{_SIZE}")
                        drawings.append((match.groups(), shrink_drawing(drawing)))
    except DataError:
        raise
    except Exception as error:  # a broken zip or PNG raises nearly anything
        raise DataError(f"{path} is broken: {error or type(error).__name__}; remove it and get it again") from error
    if not drawings:
        raise DataError(f"{path} has no drawings: expected members such as {path.stem}/Greek/character01/0394_01.png")
    return drawings


_ARRAYS = ("images", "character", "split")


def prepare_omniglot(
    data_dir: str | Path | None = None, *, into: Path | None = None, progress: Progress | None = None
) -> Path:
    """Return the path of the 28x28 images; if they are missing, create them from the publisher's zip files.

    Args:
        data_dir: where to look first.
        into: look only in this folder, and write missing files into it; by default they go to the cache.
        progress: see `hardmax.data.download.download`.

    Raises:
        DataError: the files are missing and cannot be downloaded, or are broken.
    """
    entry = SETS["omniglot"]
    assert entry.converted is not None
    files = obtain_files(entry, data_dir, into=into, progress=progress)
    if entry.converted not in files:
        target = (into or find_cache() / entry.name) / entry.converted
        convert_zips((files[ZIPS[0]], files[ZIPS[1]]), target)
        return target
    return files[entry.converted]


def load_omniglot(data_dir: str | Path | None = None) -> Images:
    """Load Omniglot at 28x28: the background set to train and validate, the evaluation set to test.

    A tenth of the background set, always the same, is "validation". Labels are the numbers of the characters, 0 to
    1,622. Log-likelihoods on these images are not comparable with those in the literature, which are from another 28x28
    version with another split.

    Raises:
        DataError: the files are missing and cannot be downloaded, or are broken.
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
    parts = {
        part: background[index] for part, index in assign_splits([()] * len(background), ["validation"], seed=0).items()
    }
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
