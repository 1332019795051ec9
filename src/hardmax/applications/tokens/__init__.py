"""The dVAE, which turns images into grids of tokens, and a prior over its tokens."""

from typing import TYPE_CHECKING

from hardmax._lazy import load_lazily

if TYPE_CHECKING:
    from hardmax.applications.tokens.model import Quantized as Quantized
    from hardmax.applications.tokens.model import TokenVAE as TokenVAE
    from hardmax.applications.tokens.prior_model import TokenPrior as TokenPrior

# Loaded when first used, so that the options of this application are read without waiting for torch.
_HOMES = {
    "Quantized": "model",
    "TokenPrior": "prior_model",
    "TokenVAE": "model",
}
__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = load_lazily(__name__, _HOMES)
