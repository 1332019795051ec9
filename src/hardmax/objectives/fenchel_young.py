"""The Fenchel-Young loss: learn scores from observed structures, with arg maxes only."""

import torch
from torch import Tensor

from hardmax.errors import ArgumentError, ShapeError
from hardmax.spaces import AbstractSpace
from hardmax.tracing import can_read_values
from hardmax.validation import check_noise, check_samples, check_scores, find_first_index


def fenchel_young_loss(
    scores: Tensor,
    target: Tensor,
    space: AbstractSpace,
    *,
    samples: int = 1,
    generator: torch.Generator | None = None,
    noise: Tensor | None = None,
    validate: bool = True,
) -> Tensor:
    r"""Return the Fenchel-Young loss of scores for an observed target, such as a labelled structure.

    $$
    \begin{aligned}
    \mathrm{loss} &= \mathbb{E}[\max_z \langle \mathrm{scores} + \mathrm{noise}, \mathrm{statistics}(z) \rangle]
        - \langle \mathrm{scores}, \mathrm{statistics}(\mathrm{target}) \rangle + \Omega(\mathrm{target}), \\
    \mathrm{gradient} &= \mathbb{E}[\mathrm{statistics}(\operatorname{argmax}(\mathrm{scores} + \mathrm{noise}))]
        - \mathrm{statistics}(\mathrm{target})
    \end{aligned}
    $$

    It measures how far perturbed scores are from having the target as their arg max, in the mean over the noise. The
    loss is convex in scores, at least zero, and stationary exactly where the mean of the perturbed arg max is the
    target (or the mean of several targets). For `Categorical` it is the cross-entropy, for `Binary` the cross-entropy
    of the bits. For structured spaces it replaces the likelihood, which would need the partition function.

    The constant is
    $\Omega(\mathrm{target}) = -\langle \mathbb{E}[\mathrm{noise}], \mathrm{statistics}(\mathrm{target}) \rangle$. It is
    the constant of Fenchel-Young duality for a target that is a member of the space, and makes the infimum of the loss
    zero. With it the loss is the mean of

    $$ \langle \mathrm{perturbed}, \mathrm{statistics}(z^*) \rangle
       - \langle \mathrm{perturbed}, \mathrm{statistics}(\mathrm{target}) \rangle $$

    which is at least zero for every draw.

    Bias: none in value and gradient, even with one sample. Variance: that of the gradient is the variance of the
    statistics of z, divided by S. Cost: one arg max per sample, and no evaluation of f.

    Args:
        scores: `[*B, *score]`, floating point, finite.
        target: `[*B, *event]`, members of the space.
        space: the space of z. For `PairwiseBinary` the noise is on the bits only, and so is the smoothing.
        samples: S, the number of samples.
        generator: where the noise comes from; None is torch's global generator.
        noise: `[S, *B, *score]`, to use instead of new noise.
        validate: check values: scores and targets must be finite, and no target may score higher than the arg max.

    Returns:
        `[*B]`.

    Raises:
        ShapeError: target or noise have the wrong shape.
        ArgumentError: scores or targets are invalid.

    Example:
        >>> import torch, hardmax as hm
        >>> scores, target = torch.zeros(2, 3, 3, requires_grad=True), torch.eye(3).expand(2, 3, 3)
        >>> loss = hm.fenchel_young_loss(scores, target, hm.Permutation(3), samples=8)
        >>> loss.mean().backward()
        >>> loss.shape, bool((loss >= 0).all()), scores.grad.shape
        (torch.Size([2]), True, torch.Size([2, 3, 3]))

    References:
        Blondel, Martins & Niculae, "Learning with Fenchel-Young losses", 2020; Berthet, Blondel, Teboul, Cuturi, Vert &
        Bach, "Learning with differentiable perturbed optimizers", 2020, section 4.
    """
    validate = validate and can_read_values()
    scores = check_scores(scores, space, values=validate)
    batch_shape = space.batch_shape(scores)
    check_target(target, space, batch_shape, values=validate)
    if noise is None:
        check_samples(samples)
        shape = (samples, *batch_shape)
        noise = space.noise(shape, generator=generator, dtype=scores.dtype, device=scores.device)
    else:
        check_noise(noise, scores, samples, 1, scores.shape)
    return measure_gap(space.perturb(scores, noise), target, space, validate=validate).mean(0).to(scores.dtype)


def measure_gap(perturbed: Tensor, target: Tensor, space: AbstractSpace, *, validate: bool) -> Tensor:
    """Return how much better the arg max of perturbed scores `[S, *B, *score]` is than the target, `[S, *B]`.

    It is differentiable in the scores.

    Raises:
        ArgumentError: with `validate`, if a target is better than the arg max.
    """
    best = space.statistics(space.argmax(perturbed.detach()).to(perturbed.dtype))
    # Danskin's theorem: the derivative of a maximum is the derivative of the maximised function at the arg max.
    regret = space.dot(perturbed, best - space.statistics(target.to(perturbed.dtype)))
    if validate and space.chosen_solver != "heuristic":
        _check_regret(regret.detach(), perturbed.detach(), space)
    return regret


def check_target(target: Tensor, space: AbstractSpace, batch_shape: tuple[int, ...], *, values: bool) -> None:
    """Check that there is one finite z of the right shape for each example."""
    shape = (*batch_shape, *space.event_shape)
    if tuple(target.shape) != shape:
        raise ShapeError(
            f"target has shape {list(target.shape)}, but scores of {space} with batch {list(batch_shape)} need one z "
            f"for each example, {list(shape)}; expand it"
        )
    if values and not target.isfinite().all():
        index = find_first_index(~target.isfinite())
        raise ArgumentError(f"target must be finite, got {target[tuple(index)].item()} at index {index}")


def _check_regret(regret: Tensor, perturbed: Tensor, space: AbstractSpace) -> None:
    """Raise if a target scores higher than the best member: it is not in the space."""
    scale = perturbed.abs().flatten(regret.dim()).sum(-1)
    if (wrong := regret < -1e-3 * scale).any():
        index = find_first_index(wrong)[1:]
        raise ArgumentError(
            f"target of example {index} scores higher than the arg max, so it is not a member of {space}; pass a z of "
            f"the space, such as one of space.enumerate()"
        )
