"""Images and sequences to learn from: published sets, what comes with hardmax, and the user's own.

`load` gives any pictures as `Images`, `load_sequences` any language or text as `Sequences`. The names are loaded when
first used (PEP 562): `hardmax data list` reads the catalogue without waiting for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

_HOME = {
    "Images": "images",
    "Sequences": "sequences",
    "binarize": "images",
    "choose_attributes": "attributes",
    "draw_labelled": "labelled",
    "draw_masks": "masks",
    "load": "loading",
    "load_sequences": "sequence_loading",
}

if TYPE_CHECKING:
    from hardmax.data.attributes import choose_attributes as choose_attributes
    from hardmax.data.images import Images as Images
    from hardmax.data.images import binarize as binarize
    from hardmax.data.labelled import draw_labelled as draw_labelled
    from hardmax.data.loading import load as load
    from hardmax.data.masks import draw_masks as draw_masks
    from hardmax.data.sequence_loading import load_sequences as load_sequences
    from hardmax.data.sequences import Sequences as Sequences

__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'hardmax.data' has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"hardmax.data.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
