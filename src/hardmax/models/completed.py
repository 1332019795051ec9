"""What a completion model says about pictures, and what it makes of them."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float, Int64
from torch import Tensor

from hardmax.objectives import GaussianMixture


@final
@dataclass(frozen=True)
class Visible:
    """What the visible part of pictures says.

    Attributes:
        seen: `[B, *shape]`. The pictures, without what is hidden.
        features: `[B, H]`.
        mixture: of z, the latent of the hidden part.
    """

    seen: Float[Tensor, "B channels height width"]
    features: Float[Tensor, "B H"]
    mixture: GaussianMixture


@final
@dataclass(frozen=True)
class Posterior:
    """What the whole of pictures says about the latent of their hidden part.

    Attributes:
        mean: `[B, c]`.
        log_variance: `[B, c]`.
        scores: `[B, k]`. Of the encoder, for the component.
    """

    mean: Float[Tensor, "B c"]
    log_variance: Float[Tensor, "B c"]
    scores: Float[Tensor, "B k"]


@final
@dataclass(frozen=True)
class Completed:
    """Completions of pictures.

    Attributes:
        pictures: `[S, B, *shape]`. Visible pixels are as they were, hidden ones the mean of p(pixel | z).
        component: `[S, B]`. The component that each was drawn from.
        weight: `[S, B]`. The weight of that component.
    """

    pictures: Float[Tensor, "S B channels height width"]
    component: Int64[Tensor, "S B"]
    weight: Float[Tensor, "S B"]


@final
@dataclass(frozen=True)
class CompletionBound:
    """An estimate of the bound of log p(hidden | visible), `value = reconstruction - kl`.

    Attributes:
        value: `[B]`. Carries the gradient.
        reconstruction: `[B]`. log p of the hidden pixels given z, detached.
        kl: `[B]`. What z tells, detached; at least the divergence from the mixture.
        component: `[B, k]`. What was chosen, one-hot; with "mixture" the responsibilities.
    """

    value: Float[Tensor, "B"]
    reconstruction: Float[Tensor, "B"]
    kl: Float[Tensor, "B"]
    component: Float[Tensor, "B k"]
