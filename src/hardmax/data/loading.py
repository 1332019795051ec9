"""hardmax.data.load: images by the name of a set or by a path."""

from pathlib import Path

from hardmax.data.array import load_array
from hardmax.data.catalogue import SETS, unknown
from hardmax.data.embedded import load_sample
from hardmax.data.folder import load_folder
from hardmax.data.images import Images
from hardmax.data.mnist import load_mnist
from hardmax.data.omniglot import load_omniglot
from hardmax.errors import DataError


def load(
    data: str | Path,
    *,
    data_dir: str | Path | None = None,
    size: int | tuple[int, int] | None = None,
    seed: int = 0,
) -> Images:
    """Load images: a set by its name, or your own by their path.

    Args:
        data: "sample" (comes with hardmax), "mnist", "fashion-mnist" or "omniglot"; or the path of a folder of
            pictures, of an .npz, .npy or IDX file. A folder that bears the name of a set is "./mnist".
        data_dir: where a set is looked for first, as the folder `data_dir/<name>`; without it, `$HARDMAX_DATA`. Then
            comes the cache (`~/.cache/hardmax`), where what is missing is downloaded to.
        size: height and width, or one number for both, for a folder of pictures; by default the most common one.
        seed: of the split of your own images into train, validation and test. Sets have a fixed split.

    Returns:
        uint8 images `[N, channels, H, W]` in three parts, labels, and where all that came from.

    Raises:
        DataError: there is no such set or path, a file is broken or not what was expected, or a download failed.

    Example:
        >>> images = load("sample")
        >>> images.shape, len(images.train), images.train.dtype
        ((1, 28, 28), 4500, torch.uint8)
    """
    if not str(data):
        raise DataError(f"data is empty: give a path, or one of the sets {', '.join(SETS)}")
    path = Path(data).expanduser()
    if isinstance(data, str) and data in SETS:
        if size is not None:
            raise DataError(f"size is for a folder of pictures, got size={size} with the set {data!r}, which is 28x28")
        if data == "sample":
            return load_sample()
        return load_omniglot(data_dir) if data == "omniglot" else load_mnist(data, data_dir)
    if path.is_dir():
        return load_folder(path, size=size, seed=seed)
    if path.exists():
        if size is not None:
            raise DataError(f"size is for a folder of pictures, got size={size} with the file {path}")
        return load_array(path, seed=seed)
    if isinstance(data, Path) or len(path.parts) > 1 or path.suffix:
        raise DataError(f"there is no file or folder {str(data)!r}; the sets are {', '.join(SETS)}")
    raise DataError(f"{unknown(data)}; or give the path of a folder of pictures, of an .npz, .npy or IDX file")
