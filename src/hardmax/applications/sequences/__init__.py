"""Generative adversarial networks of token sequences."""

from typing import TYPE_CHECKING

from hardmax._lazy import load_lazily

if TYPE_CHECKING:
    from hardmax.applications.sequences.model import SequenceDiscriminator as SequenceDiscriminator
    from hardmax.applications.sequences.model import SequenceGAN as SequenceGAN
    from hardmax.applications.sequences.model import SequenceGenerator as SequenceGenerator
    from hardmax.applications.sequences.objective import SequenceEstimate as SequenceEstimate
    from hardmax.applications.sequences.objective import sequence_expectation as sequence_expectation

# Loaded when first used, so that the options of this application are read without waiting for torch.
_HOMES = {
    "SequenceDiscriminator": "model",
    "SequenceEstimate": "objective",
    "SequenceGAN": "model",
    "SequenceGenerator": "model",
    "sequence_expectation": "objective",
}
__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = load_lazily(__name__, _HOMES)
