"""Completion of images in many ways: a mixture of Gaussians over the latent of the hidden pixels."""

from typing import TYPE_CHECKING

from hardmax._lazy import load_lazily

if TYPE_CHECKING:
    from hardmax.applications.completion.masks import draw_masks as draw_masks
    from hardmax.applications.completion.model import Completed as Completed
    from hardmax.applications.completion.model import CompletionModel as CompletionModel
    from hardmax.applications.completion.objective import GaussianMixture as GaussianMixture
    from hardmax.applications.completion.objective import MixtureKl as MixtureKl
    from hardmax.applications.completion.objective import choose_component as choose_component
    from hardmax.applications.completion.objective import chosen_kl as chosen_kl
    from hardmax.applications.completion.objective import estimated_kl as estimated_kl
    from hardmax.applications.completion.objective import max_operation_loss as max_operation_loss
    from hardmax.applications.completion.objective import sampled_kl as sampled_kl

# Loaded when first used, so that the options of this application are read without waiting for torch.
_HOMES = {
    "Completed": "model",
    "CompletionModel": "model",
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
__getattr__, __dir__ = load_lazily(__name__, _HOMES)
