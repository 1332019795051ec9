"""Completion of images with hidden pixels, in several ways: the prior of the latent is a mixture of Gaussians."""

from typing import TYPE_CHECKING

from hardmax._deprecation import load_renamed
from hardmax._lazy import load_lazily

if TYPE_CHECKING:
    from hardmax.applications.completion.masks import draw_masks as draw_masks
    from hardmax.applications.completion.model import CompletionModel as CompletionModel
    from hardmax.applications.completion.model import Completions as Completions
    from hardmax.applications.completion.objective import GaussianMixture as GaussianMixture
    from hardmax.applications.completion.objective import MixtureKl as MixtureKl
    from hardmax.applications.completion.objective import choose_component as choose_component
    from hardmax.applications.completion.objective import chosen_kl as chosen_kl
    from hardmax.applications.completion.objective import estimated_kl as estimated_kl
    from hardmax.applications.completion.objective import max_operation_loss as max_operation_loss
    from hardmax.applications.completion.objective import sampled_kl as sampled_kl

# Loaded on first use: reading the options of this application does not import torch.
_HOMES = {
    "CompletionModel": "model",
    "Completions": "model",
    "GaussianMixture": "objective",
    "MixtureKl": "objective",
    "choose_component": "objective",
    "chosen_kl": "objective",
    "draw_masks": "masks",
    "estimated_kl": "objective",
    "max_operation_loss": "objective",
    "sampled_kl": "objective",
}
__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]
_RENAMED = {"Completed": "Completions"}
_load, __dir__ = load_lazily(__name__, _HOMES)
__getattr__ = load_renamed(__name__, _RENAMED, otherwise=_load)
