"""The set "faces": aligned faces with attributes in one .npz file, which its user has to bring."""

from dataclasses import replace
from pathlib import Path

from hardmax.data.array import load_array
from hardmax.data.catalogue import SETS, obtain
from hardmax.data.images import Images
from hardmax.errors import DataError


def load_faces(data_dir: str | Path | None = None, *, seed: int = 0) -> Images:
    """Load the set "faces": 80 % to train, 10 % to validate, 10 % to test, alike in their attributes.

    Args:
        data_dir: where to look first.
        seed: of the split.

    Raises:
        DataError: the file is not here, is broken, or has no attributes.
    """
    entry = SETS["faces"]
    files = obtain(entry, data_dir)
    if len(files) > 1:
        raise DataError(f"which of these are the faces: {', '.join(map(str, files.values()))}? {entry.bring}")
    (path,) = files.values()
    images = load_array(path, seed=seed)
    if images.attributes is None:
        raise DataError(f"{images.source}: there are no attributes; {entry.bring}")
    return replace(images, name=entry.name)
