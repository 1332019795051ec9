"""What an encoder of two latents says about pictures."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor


@final
@dataclass(frozen=True)
class Encoded:
    """Scores of the discrete latent and the Gaussians of the continuous one, for the pictures of a batch.

    Computed once, it serves several terms of a loss; a slice of it is that of some of the pictures.

    Attributes:
        scores: `[B, *score]`.
        mean: `[B, rows, c]`.
        log_variance: `[B, rows, c]`.

    Example:
        >>> import torch, hardmax as hm
        >>> model = hm.MixedVAE.build(hm.Categorical(10), (1, 28, 28))
        >>> encoded = model.encode(torch.zeros(8, 1, 28, 28))
        >>> encoded.scores.shape, encoded[:5].mean.shape
        (torch.Size([8, 10]), torch.Size([5, 10, 20]))
    """

    scores: Float[Tensor, "B ..."]
    mean: Float[Tensor, "B N c"]
    log_variance: Float[Tensor, "B N c"]

    def __getitem__(self, part: slice) -> "Encoded":
        return Encoded(self.scores[part], self.mean[part], self.log_variance[part])
