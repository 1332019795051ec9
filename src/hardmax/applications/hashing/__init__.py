"""Semantic hashing: an encoder of images to binary codes, and the search for similar images by their codes."""

from typing import TYPE_CHECKING

from hardmax._lazy import load_lazily

if TYPE_CHECKING:
    from hardmax.applications.hashing.model import HashEncoder as HashEncoder
    from hardmax.applications.hashing.objective import AbstractContrastedCodes as AbstractContrastedCodes
    from hardmax.applications.hashing.objective import InfoNCECodes as InfoNCECodes
    from hardmax.applications.hashing.objective import TripletCodes as TripletCodes
    from hardmax.applications.hashing.objective import info_nce as info_nce
    from hardmax.applications.hashing.objective import triplet_loss as triplet_loss

# Loaded when first used, so that the options of this application are read without waiting for torch.
_HOMES = {
    "AbstractContrastedCodes": "objective",
    "HashEncoder": "model",
    "InfoNCECodes": "objective",
    "TripletCodes": "objective",
    "info_nce": "objective",
    "triplet_loss": "objective",
}
__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = load_lazily(__name__, _HOMES)
