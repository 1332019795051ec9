"""Photos that a mixed VAE draws again, with attributes turned on and off, or as another class."""

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from hardmax.cli.mixed.photo import read_photo
from hardmax.data.picture import SUFFIXES
from hardmax.errors import ArgumentError
from hardmax.models import MixedVAE
from hardmax.report.mixed.meaning import meaning_of
from hardmax.report.pictures import grid, save
from hardmax.report.sheet import sheet
from hardmax.training.restore import restore

if TYPE_CHECKING:
    from hardmax.cli.edit import Options


def edit(options: "Options") -> None:
    """Edit the photos, write each and a sheet of all, and say what was done.

    Raises:
        ArgumentError: what is set does not exist, no photos are named, or several are to go into one file.
        DataError: a photo is no picture, or a file cannot be written.
    """
    restored = restore(options.run, options.checkpoint, kind=MixedVAE)
    config, model = restored.config, restored.model
    meaning = meaning_of(config, model.space, restored.said)
    setting = meaning.read(options.set)
    paths = [Path(name).expanduser() for name in options.photos]
    files, sheet_file = _files(paths, options)
    channels, height, width = model.sample(1)[0].shape[1:]
    photos = [read_photo(path, (channels, height, width), config) for path in paths]
    shown = torch.cat([photo.seen.shown for photo in photos])
    found = model.predict(shown)
    edited = model.edit(shown, meaning.put(found, setting))
    seen_as = [meaning.tell(dict(enumerate(values))) for values in meaning.values_of(found).tolist()]
    for photo, picture, said, file in zip(photos, edited, seen_as, files, strict=True):
        save(grid(picture[None], padding=0), file)
        print(f"{photo.path} ({photo.done}): seen as {said}, drawn with {meaning.tell(setting)} in {file}")
    columns = torch.stack([torch.cat([photo.seen.x for photo in photos]), model.edit(shown, found), edited], 1)
    rows = [f"{photo.path.name}\n{said.replace(' ', chr(10))}" for photo, said in zip(photos, seen_as, strict=True)]
    heads = [["photo"], ["drawn again"], [meaning.tell(setting)]]
    save(sheet(columns, names=["seen as"], heads=heads, rows=rows), sheet_file)
    print(f"photo, drawn again and edited beside each other: {sheet_file}")


def _files(photos: list[Path], options: "Options") -> tuple[list[Path], Path]:
    """Return where each edited photo goes, and the sheet of all."""
    out = Path(options.out or Path(options.run) / "figures" / "edited").expanduser()
    if not photos:
        raise ArgumentError("name at least one photo to edit: hardmax edit RUN PHOTO --set NAME=VALUE")
    if out.suffix.lower() not in SUFFIXES or out.is_dir():
        names = [f"{photo.stem}-edited" for photo in photos]
        # Photos of one name from different folders are told apart by a number.
        files = [
            out / f"{name}{f'-{names[:i].count(name) + 1}' if name in names[:i] else ''}.png"
            for i, name in enumerate(names)
        ]
        return files, out / "sheet.png"
    if len(photos) > 1:
        raise ArgumentError(f"--out {out} is one file, but there are {len(photos)} photos; give a folder")
    if out.exists() and photos[0].exists() and out.samefile(photos[0]):
        raise ArgumentError(f"--out {out} is the photo itself; choose another file")
    return [out], out.with_name(f"{out.stem}-sheet.png")
