"""The discrete variational auto-encoder: one categorical variable, several, bits, or a structure."""

from typing import TYPE_CHECKING

from hardmax._lazy import load_lazily

if TYPE_CHECKING:
    from hardmax.applications.discrete_vae.bernoulli_mixture import BernoulliMixture as BernoulliMixture
    from hardmax.applications.discrete_vae.model import DiscreteVAE as DiscreteVAE

# Loaded when first used, so that the options of this application are read without waiting for torch.
_HOMES = {
    "BernoulliMixture": "bernoulli_mixture",
    "DiscreteVAE": "model",
}
__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = load_lazily(__name__, _HOMES)
