"""The back-propagate-max-operation loss of pluralistic image completion: corrected, and as it was published."""

from typing import Literal

from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.objectives.gaussian import gaussian_kl
from hardmax.objectives.gaussian_mixture import GaussianMixture
from hardmax.objectives.mixture_kl import Rule, choose_component

Form = Literal["corrected", "published"]


def max_operation_loss(
    mean: Float[Tensor, "*B c"],
    log_variance: Float[Tensor, "*B c"],
    mixture: GaussianMixture,
    rule: Rule = "responsibility",
    form: Form = "corrected",
) -> Float[Tensor, "*B"]:
    r"""Return how far the component that the max operation picks is from an encoder's Gaussian, which is held fixed.

    With `(m, l)` mean and log-variance of the encoder and `(m_j, l_j)` of the chosen component:

    - `"corrected"`: `KL(N_j || q) = 1/2 sum_i [l - l_j + e^(l_j - l) + (m_j - m)^2 e^(-l) - 1]`, zero at equality;
    - `"published"`: `1/2 sum_i [l - l_j + e^(l_j - l) - (m_j - m)^2 e^(-l)]`, as the document prints it. It has no
      minimum: descent drives the means apart without bound. For comparison only.

    Gradients reach the mixture's means and log-variances alone. The weights learn from `-log w_j` of the same choice.

    Args:
        mean: `[*B, c]`, of the encoder.
        log_variance: `[*B, c]`, of the encoder.
        mixture: of k components.
        rule: as for `hardmax.choose_component`.
        form: see above.

    Returns:
        `[*B]`.

    Raises:
        ArgumentError: there is no such form.

    Example:
        >>> import torch, hardmax as hm
        >>> mean = torch.tensor([[1.0], [5.0]], requires_grad=True)
        >>> mixture = hm.GaussianMixture(torch.zeros(2), mean, torch.zeros(2, 1))
        >>> for form in ("corrected", "published"):  # the component at 1 is the nearer one to an encoder at 0
        ...     mean.grad = None
        ...     hm.max_operation_loss(torch.zeros(1), torch.zeros(1), mixture, form=form).backward()
        ...     print(form, mean.grad[0].item())  # descent goes the other way
        corrected 1.0
        published -1.0
    """
    if form not in ("corrected", "published"):
        raise ArgumentError(f"form must be 'corrected' or 'published', got {form!r}")
    held, held_log = mean.detach(), log_variance.detach()
    chosen_mean, chosen_log = mixture.pick(choose_component(held, held_log, mixture, rule))
    loss = gaussian_kl(chosen_mean, chosen_log, held, held_log)
    if form == "corrected":
        return loss
    # The printed third term has the other sign, and the constant -1/2 of each dimension is missing.
    squares = ((chosen_mean - held).square() * (-held_log).exp()).sum(-1)
    return loss - squares + mean.shape[-1] / 2
