"""Variational auto-encoders of images with discrete latents: categorical variables, bits, or a structure."""

from typing import TYPE_CHECKING

from hardmax._lazy import load_lazily

if TYPE_CHECKING:
    from hardmax.applications.discrete_vae.bernoulli_mixture import BernoulliMixture as BernoulliMixture
    from hardmax.applications.discrete_vae.model import DiscreteVAE as DiscreteVAE

# Loaded on first use: reading the options of this application does not import torch.
_HOMES = {
    "BernoulliMixture": "bernoulli_mixture",
    "DiscreteVAE": "model",
}
__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = load_lazily(__name__, _HOMES)
