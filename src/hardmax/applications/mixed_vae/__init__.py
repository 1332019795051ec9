"""Variational auto-encoders of images with a discrete and a continuous latent, trained with few labels."""

from typing import TYPE_CHECKING

from hardmax._deprecation import load_renamed
from hardmax._lazy import load_lazily

if TYPE_CHECKING:
    from hardmax.applications.mixed_vae.joins import AbstractJoin as AbstractJoin
    from hardmax.applications.mixed_vae.joins import GaussianRows as GaussianRows
    from hardmax.applications.mixed_vae.joins import SharedGaussian as SharedGaussian
    from hardmax.applications.mixed_vae.model import Encoding as Encoding
    from hardmax.applications.mixed_vae.model import MixedVAE as MixedVAE
    from hardmax.applications.mixed_vae.objective import MixedObjective as MixedObjective
    from hardmax.applications.mixed_vae.objective import exact_mixed_bounds as exact_mixed_bounds
    from hardmax.applications.mixed_vae.objective import mixed_elbo as mixed_elbo
    from hardmax.applications.mixed_vae.objective import sampled_mixed_bounds as sampled_mixed_bounds
    from hardmax.applications.mixed_vae.supervision import draw_labelled as draw_labelled

# Loaded on first use: reading the options of this application does not import torch.
_HOMES = {
    "AbstractJoin": "joins",
    "Encoding": "model",
    "GaussianRows": "joins",
    "MixedObjective": "objective",
    "MixedVAE": "model",
    "SharedGaussian": "joins",
    "draw_labelled": "supervision",
    "exact_mixed_bounds": "objective",
    "mixed_elbo": "objective",
    "sampled_mixed_bounds": "objective",
}
__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]
_RENAMED = {"Encoded": "Encoding", "GaussianBeside": "SharedGaussian"}
_load, __dir__ = load_lazily(__name__, _HOMES)
__getattr__ = load_renamed(__name__, _RENAMED, otherwise=_load)
