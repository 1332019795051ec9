"""hardmax.data.load: images by the name of a set or by a path."""

from pathlib import Path

from hardmax.data.array import load_array
from hardmax.data.catalogue import SETS, unknown
from hardmax.data.celeba import celeba_folder, find_celeba, is_celeba
from hardmax.data.embedded import load_sample
from hardmax.data.faces import load_faces
from hardmax.data.folder import find_folder
from hardmax.data.images import Images
from hardmax.data.mnist import load_mnist
from hardmax.data.omniglot import load_omniglot
from hardmax.data.picture_files import Progress
from hardmax.errors import DataError


def load(
    data: str | Path,
    *,
    data_dir: str | Path | None = None,
    size: int | tuple[int, int] | None = None,
    limit: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Images:
    """Load images: a set by its name, or your own by their path.

    Args:
        data: "sample" (comes with hardmax), "mnist", "fashion-mnist", "omniglot", "faces" or "celeba"; or the path of a
            folder of pictures (or of one that holds CelebA), of an .npz, .npy or IDX file. A folder that bears the
            name of a set is "./mnist".
        data_dir: where a set is looked for first, as the folder `data_dir/<name>`; without it, `$HARDMAX_DATA`. Then
            comes the cache (`~/.cache/hardmax`), where what is missing is downloaded to; "faces" and "celeba" are not
            downloaded.
        size: height and width, or one number for both, for pictures in files: a folder or CelebA. By default the most
            common one, and 64 for CelebA. Pictures of other sizes are cropped around their centre and resized.
        limit: for pictures in files, how many to read at most, evenly spread over all of them.
        seed: of the split into train, validation and test, where the data has none: your own images, and "faces".
        progress: for pictures in files: called now and then with what is read, how many pictures are read, and how
            many there are.

    Returns:
        uint8 images `[N, channels, H, W]` in three parts, labels, attributes, and where all that came from.

    Raises:
        DataError: there is no such set or path, a file is broken or not what was expected, a download failed, or the
            pictures do not fit into memory.

    Example:
        >>> images = load("sample")
        >>> images.shape, len(images.train), images.train.dtype
        ((1, 28, 28), 4500, torch.uint8)
    """
    if not str(data):
        raise DataError(f"data is empty: give a path, or one of the sets {', '.join(SETS)}")
    path = Path(data).expanduser()
    is_set = isinstance(data, str) and data in SETS
    if is_set and data == "celeba":
        return find_celeba(celeba_folder(data_dir)).read(size=size, limit=limit, seed=seed, progress=progress)
    if not is_set and path.is_dir():
        pictures = find_celeba(path) if is_celeba(path) else find_folder(path)
        return pictures.read(size=size, limit=limit, seed=seed, progress=progress)
    if not is_set and not path.exists():
        if isinstance(data, Path) or len(path.parts) > 1 or path.suffix:
            raise DataError(f"there is no file or folder {str(data)!r}; the sets are {', '.join(SETS)}")
        raise DataError(f"{unknown(data)}; or give the path of a folder of pictures, of an .npz, .npy or IDX file")
    if size is not None or limit is not None:
        what = f"the set {data!r}" if is_set else f"the file {path}"
        raise DataError(f"size and limit are for a folder of pictures or celeba, got {size=}, {limit=} with {what}")
    if not is_set:
        return load_array(path, seed=seed)
    if data == "sample":
        return load_sample()
    if data == "faces":
        return load_faces(data_dir, seed=seed)
    return load_omniglot(data_dir) if data == "omniglot" else load_mnist(str(data), data_dir)
