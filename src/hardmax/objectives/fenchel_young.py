"""A loss for scores from observed structures, which needs only arg maxes."""

import torch
from torch import Tensor

from hardmax.errors import ArgumentError, ShapeError
from hardmax.spaces import AbstractSpace
from hardmax.validation import can_read_values, check_noise, check_samples, check_scores, find_first_index


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
    """Return how far perturbed scores are from having the target as their arg max, in the mean over the noise.

        loss = E[max_z <scores + noise, statistics(z)>] - <scores, statistics(target)> + Omega(target),
        gradient = E[statistics(argmax(scores + noise))] - statistics(target)

    It is convex in scores, at least zero, and stationary exactly where the mean of the perturbed arg max is the target
    (or, with targets that differ, their mean). For `Categorical` it is the cross-entropy, for `Binary` that of the
    bits; for structured spaces it replaces the likelihood, which would need the partition function.

    The constant is `Omega(target) = -<E[noise], statistics(target)>`: that of Fenchel-Young duality for a target that
    is a member of the space, and the one that makes the infimum of the loss zero. With it the loss is the mean of
    `<perturbed, statistics(z*)> - <perturbed, statistics(target)>`, which is at least zero for every draw.

    Bias: none in value and gradient, with a single sample. Variance: of the gradient, that of the statistics of z over
    S. Cost: one arg max per sample; no f.

    Args:
        scores: `[*B, *score]`, floating point, finite.
        target: `[*B, *event]`, members of the space.
        space: the space of z. For `PairwiseBinary` the noise is on the bits only, and so is the smoothing.
        samples: S.
        generator: where the noise comes from; None is torch's global generator.
        noise: `[S, *B, *score]`, instead of drawing it.
        validate: check values: scores and targets must be finite, and no target may score more than the arg max.

    Returns:
        `[*B]`.

    Raises:
        ShapeError: target or noise have the wrong shape.
        ArgumentError: scores or targets cannot be used.

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
    look = validate and can_read_values()
    batch_shape = check_scores(scores, space, values=look)
    _check_target(target, space, batch_shape, values=look)
    if noise is None:
        check_samples(samples)
        shape = (samples, *batch_shape)
        noise = space.noise(shape, generator=generator, dtype=scores.dtype, device=scores.device)
    else:
        check_noise(noise, scores, samples, 1)
    perturbed = space.perturb(scores, noise)
    best = space.statistics(space.argmax(perturbed.detach()).to(perturbed.dtype))
    # Danskin: the derivative of a maximum is that of the maximised at the arg max.
    regret = space.dot(perturbed, best - space.statistics(target.to(perturbed.dtype)))
    if look and space.chosen_solver != "heuristic":
        _check_regret(regret.detach(), perturbed.detach(), space)
    return regret.mean(0).to(scores.dtype)


def _check_target(target: Tensor, space: AbstractSpace, batch_shape: tuple[int, ...], *, values: bool) -> None:
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
    """Refuse a target that scores more than the best member: it is not in the space."""
    scale = perturbed.abs().flatten(regret.dim()).sum(-1)
    if (wrong := regret < -1e-3 * scale).any():
        index = find_first_index(wrong)[1:]
        raise ArgumentError(
            f"target of example {index} scores more than the arg max, so it is no member of {space}; pass a z of the "
            f"space, such as one of space.enumerate()"
        )
