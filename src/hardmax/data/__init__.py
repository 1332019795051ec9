"""Images, sequences and decision problems for training: published sets, generated ones, and the user's files.

`load_images` returns any images as `Images`, `load_sequences` any language or text as `Sequences`, `generate_path`,
`generate_knapsack`, `generate_maps` and `read_warcraft` problems as `Decisions`, and `make_noisy_images` images to
clean. Names are imported when first used, so that `hardmax data list` does not wait for torch.
"""

from typing import TYPE_CHECKING

from hardmax._deprecation import load_renamed
from hardmax._lazy import load_lazily

if TYPE_CHECKING:
    from hardmax.data.attributes import choose_attributes as choose_attributes
    from hardmax.data.decisions import Decisions as Decisions
    from hardmax.data.decisions import generate_knapsack as generate_knapsack
    from hardmax.data.decisions import generate_path as generate_path
    from hardmax.data.images import Images as Images
    from hardmax.data.images import binarize as binarize
    from hardmax.data.loading import load_images as load_images
    from hardmax.data.noisy_images import make_noisy_images as make_noisy_images
    from hardmax.data.sequences import Sequences as Sequences
    from hardmax.data.sequences import load_sequences as load_sequences
    from hardmax.data.terrain import generate_maps as generate_maps
    from hardmax.data.terrain import read_warcraft as read_warcraft

_HOMES = {
    "Decisions": "decisions",
    "Images": "images",
    "Sequences": "sequences",
    "binarize": "images",
    "choose_attributes": "attributes",
    "generate_knapsack": "decisions",
    "generate_maps": "terrain",
    "generate_path": "decisions",
    "load_images": "loading",
    "load_sequences": "sequences",
    "make_noisy_images": "noisy_images",
    "read_warcraft": "terrain",
}
__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]
_RENAMED = {"load": "load_images"}
_load, __dir__ = load_lazily(__name__, _HOMES)
__getattr__ = load_renamed(__name__, _RENAMED, otherwise=_load)
