"""Images and sequences for training: published sets, the sample that ships with hardmax, and the user's files.

`load` returns any images as `Images`, `load_sequences` any language or text as `Sequences`. The names are imported
when first used: `hardmax data list` lists the data sets without waiting for torch.
"""

from typing import TYPE_CHECKING

from hardmax._lazy import load_lazily

if TYPE_CHECKING:
    from hardmax.data.attributes import choose_attributes as choose_attributes
    from hardmax.data.images import Images as Images
    from hardmax.data.images import binarize as binarize
    from hardmax.data.loading import load as load
    from hardmax.data.sequences import Sequences as Sequences
    from hardmax.data.sequences import load_sequences as load_sequences

_HOMES = {
    "Images": "images",
    "Sequences": "sequences",
    "binarize": "images",
    "choose_attributes": "attributes",
    "load": "loading",
    "load_sequences": "sequences",
}
__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = load_lazily(__name__, _HOMES)
