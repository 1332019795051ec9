"""From the two zip files that Omniglot is published as to one file of 28x28 images. No torch here."""

import io
import os
import re
import zipfile
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from hardmax.errors import DataError

ZIPS = ("images_background.zip", "images_evaluation.zip")  # split 0 and 1
_SIZE = 105
# images_background/Greek/character07/0402_13.png: alphabet, character, (a number we do not need,) drawer
_MEMBER = re.compile(r"images_\w+/([^/]+)/(character\d+)/\d+_(\d+)\.png")


def shrink(drawing: Image.Image) -> UInt8[np.ndarray, "28 28"]:
    """Turn a drawing, black ink on white paper, into 28x28 grey values with bright ink."""
    # Inverted first: the filter rounds to whole grey values, and the paper has to stay exactly zero.
    ink = Image.fromarray(255 - np.asarray(drawing.convert("L")))
    return np.asarray(ink.resize((28, 28), Image.Resampling.BOX))


def convert(zips: tuple[Path, Path], target: Path) -> None:
    """Convert the publisher's two zip files into one .npz.

    Its arrays: `images [N, 28, 28]` uint8, ink bright; `alphabet [N]`, `character [N]` and `drawer [N]`, numbers;
    `split [N]`, 0 for background and 1 for evaluation; `alphabet_names` and `character_names`.

    Raises:
        DataError: a zip file is broken, or holds something else.
    """
    images: list[np.ndarray] = []
    rows: list[tuple[int, int, int, int]] = []
    alphabets: dict[str, int] = {}
    characters: dict[str, int] = {}
    for split, path in enumerate(zips):
        for (alphabet, character, drawer), image in _drawings(path):
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
    # Written beside the target and renamed, so that no half-written file ever bears its name.
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as stream:
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
        part.replace(target)
    except OSError as error:
        raise DataError(f"cannot write {target}: {error.strerror or error}; choose another folder") from error
    finally:
        part.unlink(missing_ok=True)


def _drawings(path: Path) -> list[tuple[tuple[str, ...], np.ndarray]]:
    """Read one zip file: alphabet, character and drawer of each drawing, and its 28x28 image, in the names' order."""
    drawings: list[tuple[tuple[str, ...], np.ndarray]] = []
    try:
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist()):
                if match := _MEMBER.fullmatch(name):
                    with Image.open(io.BytesIO(archive.read(name))) as drawing:
                        if drawing.size != (_SIZE, _SIZE):
                            raise DataError(f"{path}: {name} is {drawing.size}, expected {_SIZE}x{_SIZE}")
                        drawings.append((match.groups(), shrink(drawing)))
    except DataError:
        raise
    except Exception as error:  # a broken zip or PNG raises nearly anything
        raise DataError(f"{path} is broken: {error or type(error).__name__}; remove it and get it again") from error
    if not drawings:
        raise DataError(f"{path} has no drawings: expected members such as {path.stem}/Greek/character01/0394_01.png")
    return drawings
