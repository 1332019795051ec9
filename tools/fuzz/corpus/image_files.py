"""Folders of images in every format, their tables of labels and attributes, CelebA, and photos to complete."""

from pathlib import Path

import numpy as np
from PIL import Image

from hardmax.applications.completion.config import CompletionConfig
from hardmax.applications.completion.photo import read_canvas, read_masked_photo
from hardmax.data import load_images
from tools.fuzz.corpus.target import Target

_FORMATS = {
    "png": {}, "jpg": {}, "bmp": {}, "gif": {}, "tiff": {"compression": "tiff_lzw"}, "webp": {}
}  # fmt: skip


def make_targets(folder: Path) -> list[Target]:
    """Write the files; return the targets."""
    targets = []
    for suffix, options in _FORMATS.items():
        _write_images(folder / suffix, suffix, options)
        targets += _make_folder_targets(folder / suffix, f"folder {suffix}", f"b2.{suffix}")
    tables = folder / "tables"
    _write_images(tables, "png", {})
    names = sorted(path.name for path in tables.iterdir())
    (tables / "labels.csv").write_text("image,label\n" + "".join(f"{name},{name[0]}\n" for name in names))
    targets += _make_folder_targets(tables, "labels", "labels.csv")
    attributes = folder / "attributes"
    _write_images(attributes, "png", {})
    text = "image,round,tall\n" + "".join(f"{name},{i % 2},{i // 2 % 2}\n" for i, name in enumerate(names))
    (attributes / "attributes.csv").write_text(text)
    targets += _make_folder_targets(attributes, "attributes", "attributes.csv")
    return targets + _make_celeba(folder / "celeba") + _make_photos(folder / "photos")


def _write_images(folder: Path, suffix: str, options: dict[str, str]) -> None:
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    for number in range(12):
        kind = random.integers(0, 256, (9, 8, 3)).astype(np.uint8)
        Image.fromarray(kind if number % 2 else kind[..., 0]).save(
            folder / f"{'abc'[number % 3]}{number}.{suffix}", **options
        )
    first = folder / f"b2.{suffix}"
    Image.fromarray(random.integers(0, 256, (9, 8, 3)).astype(np.uint8)).save(first, **options)


def _make_folder_targets(folder: Path, name: str, file: str) -> list[Target]:
    """Return the target of one file of a folder, of which many images may be broken."""
    return [Target(name, folder / file, lambda: load_images(folder))]


def _make_celeba(folder: Path) -> list[Target]:
    images = folder / "img_align_celeba"
    images.mkdir(parents=True)
    random = np.random.default_rng(0)
    names = [f"{number:06}.jpg" for number in range(1, 21)]
    for name in names:
        Image.fromarray(random.integers(0, 256, (20, 16, 3)).astype(np.uint8)).save(images / name)
    rows = "".join(f"{name} {' '.join('1' if random.random() < 0.5 else '-1' for _ in range(3))}\n" for name in names)
    (folder / "list_attr_celeba.txt").write_text(f"{len(names)}\nSmiling Young Male \n{rows}")
    parts = "".join(f"{name} {0 if i < 14 else 1 if i < 17 else 2}\n" for i, name in enumerate(names))
    (folder / "list_eval_partition.txt").write_text(parts)
    lists = ("list_attr_celeba.txt", "list_eval_partition.txt")
    return [Target(f"celeba {name}", folder / name, lambda: load_images(folder, size=8)) for name in lists]


def _make_photos(folder: Path) -> list[Target]:
    """Photos of several modes, read as they are, and with a mask."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (12, 12, 4)).astype(np.uint8)
    Image.fromarray(pixels).save(folder / "alpha.png")
    Image.fromarray(pixels[..., :3]).save(folder / "photo.jpg", exif=_make_exif())
    Image.fromarray(pixels[..., 0].astype(np.uint16) * 256).save(folder / "deep.tiff")
    Image.fromarray(pixels[..., :3]).quantize(8).save(folder / "palette.gif")
    targets = [
        Target(f"photo {path.name}", path, lambda path=path: read_canvas(path)) for path in sorted(folder.iterdir())
    ]
    mask = folder / "mask.png"
    Image.fromarray((random.random((12, 12)) < 0.5).astype(np.uint8) * 255).save(mask)
    photo, config = folder / "photo.jpg", CompletionConfig()
    targets.append(Target("mask", mask, lambda: read_masked_photo(photo, str(mask), (1, 8, 8), config)))
    return targets


def _make_exif() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6  # turned
    return exif
