"""The losses of generative adversarial training (GAN), computed from the discriminator's logits."""

from typing import Literal, get_args

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from hardmax.errors import ArgumentError

GeneratorLoss = Literal["log-ratio", "non-saturating", "saturating"]


def discriminator_loss(
    real: Float[Tensor, "*real"], generated: Float[Tensor, "*generated"]
) -> tuple[Float[Tensor, "*real"], Float[Tensor, "*generated"]]:
    r"""Return the discriminator's loss: $-\log D(x)$ of real examples, $-\log(1 - D(x))$ of generated ones.

    $$ -\big[\mathbb{E}_{x \sim p} \log D(x) + \mathbb{E}_{x \sim q} \log(1 - D(x))\big], \qquad
       D = \operatorname{sigmoid}(\mathrm{logit}) $$

    p is the distribution of real examples, q that of generated ones. The best D has the logit $\log(p(x) / q(x))$. Both
    terms have the same sign: with a minus between them, as printed in the lecture slides on reparameterization, D could
    lower the loss without bound by classifying generated examples as real.

    Args:
        real: `[*real]`, logits of real examples, or of their prefixes.
        generated: `[*generated]`, logits of generated examples, or of their prefixes.

    Returns:
        Both terms, one number for each logit; minimise the sum of their means.

    Example:
        >>> import torch
        >>> real, generated = discriminator_loss(torch.zeros(2), torch.zeros(3))
        >>> real.mean() + generated.mean()  # D = 1/2 everywhere: 2 log 2
        tensor(1.3863)

    References:
        Goodfellow et al., "Generative adversarial nets", 2014, eq. 1.
    """
    return softplus(-real), softplus(generated)


def generator_reward(logits: Float[Tensor, "*shape"], loss: GeneratorLoss = "log-ratio") -> Float[Tensor, "*shape"]:
    r"""Return the generator's reward for the discriminator's logits; the generator's loss is minus the mean.

    - `"saturating"`: $-\log(1 - D)$, the discriminator's own loss, which the generator maximises. Its slope vanishes
      where D is confident that an example is generated, which is where a generator starts.
    - `"non-saturating"`: $\log D$. It has the same fixed point, and a slope of one where the generator starts.
    - `"log-ratio"`: $\log(D / (1 - D))$, the sum of the other two, as in the lecture slides; it is the logit itself.
      For the best D its mean is $-\mathrm{KL}(q \,\|\, p)$, so that a generator is rewarded for producing many kinds of
      examples, not only its most certain one.

    Args:
        logits: `[*shape]`, the discriminator's logits of generated examples, or of their prefixes.
        loss: which of the three.

    Returns:
        `[*shape]`.

    Raises:
        ArgumentError: the loss is unknown.

    Example:
        >>> import torch
        >>> logits = torch.tensor([-2.0, 0.0, 2.0])
        >>> both = generator_reward(logits, "saturating") + generator_reward(logits, "non-saturating")
        >>> torch.allclose(both, generator_reward(logits))
        True

    References:
        Goodfellow et al., 2014, section 3; Huszar, "How (not) to train your generative model", 2015 (log-ratio).
    """
    if loss == "log-ratio":
        return logits
    if loss == "non-saturating":
        return -softplus(-logits)
    if loss == "saturating":
        return softplus(logits)
    raise ArgumentError(f"loss must be one of {', '.join(map(repr, get_args(GeneratorLoss)))}, got {loss!r}")
