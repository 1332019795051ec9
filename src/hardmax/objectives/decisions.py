"""Losses for learning scores from observed decisions or costs: SPO+, the direct loss, and regret."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError, ShapeError
from hardmax.estimators._linearization import lay_out_slope, measure_movement
from hardmax.estimators.abstract import attach_score_gradient
from hardmax.objectives.fenchel_young import check_target, measure_gap
from hardmax.spaces import AbstractSpace
from hardmax.tracing import can_read_values
from hardmax.validation import check_noise, check_positive, check_samples, check_scores, find_first_index


class LinearObjective:
    r"""An f that is linear in the statistics of z, $f(z) = \langle \mathrm{weights}, \mathrm{statistics}(z) \rangle$.

    Its method `augment` adds $\epsilon \cdot \mathrm{weights}$ to scores, so that `Direct` solves the second arg max
    exactly on any space, also on a `SolverSpace`. For costs, `weights = -costs`.

    Args:
        weights: `[*B, *score]`.
        space: the space of z.

    Example:
        >>> import torch, hardmax as hm
        >>> space, worth = hm.Permutation(3), torch.eye(3)
        >>> scores = torch.zeros(3, 3, requires_grad=True)
        >>> out = hm.expectation(hm.LinearObjective(worth, space), scores, space, hm.Direct(0.5), samples=100)
        >>> out.value.backward()
        >>> out.evaluations, out.solves
        (100.0, 200.0)
    """

    def __init__(self, weights: Tensor, space: AbstractSpace) -> None:
        space.batch_shape(weights)
        self.weights = weights
        self.space = space

    def __call__(self, z: Tensor) -> Tensor:
        """Return f(z): `[C, *B, *event] -> [C, *B]`."""
        return self.space.dot(self.weights, self.space.statistics(z))

    def augment(self, scores: Tensor, epsilon: float) -> Tensor:
        """Return scores plus epsilon times the weights: `[S, *B, *score]` twice."""
        return self.space.augment(scores, epsilon * self.weights.detach())


def spo_plus_loss(
    scores: Tensor,
    true_costs: Tensor,
    space: AbstractSpace,
    *,
    target: Tensor | None = None,
    samples: int | None = None,
    generator: torch.Generator | None = None,
    noise: Tensor | None = None,
    validate: bool = True,
) -> Tensor:
    r"""Return the SPO+ loss of predicted scores: a convex upper bound of the regret of the decision that they cause.

    With $\hat c = -\mathrm{scores}$ the predicted and c the true costs, and $z^* = \operatorname{argmin}_z \langle c,
    z \rangle$,

    $$ \begin{aligned} \mathrm{loss} &= \max_z \, \langle c - 2 \hat c, z \rangle + 2 \langle \hat c, z^* \rangle
       - \langle c, z^* \rangle, \\
       \mathrm{gradient} &= 2 \, (\operatorname{argmax}_z \langle c + 2 \, \mathrm{scores}, z \rangle - z^*)
       \end{aligned} $$

    (z stands for its statistics). Where noise is added to scores, it equals `fenchel_young_loss(2 * scores, z*, space,
    noise=true_costs[None])`: scores are good if the true costs, added to them, do not change the decision.

    A space that needs scores of one sign changes $c + 2 \, \mathrm{scores}$ for the arg max, see
    `AbstractSpace.augment`: `GridPath(monotone=False)` sets those above zero to zero. The loss is that of the changed
    scores. The gradient is still the one above, so that none of it is lost where a predicted cost is below half of the
    true one.

    With `samples`, the noise of the space perturbs $c + 2 \, \mathrm{scores}$, and the loss is the mean over the noise:
    a smooth loss, still convex, whose gradient is zero only where the mean of the perturbed decisions is $z^*$. In the
    benchmark of decisions its regret is lower than that of SPO+ without noise.

    Bias: none. Variance: none without noise. Cost: one arg max (one per sample), and one for $z^*$ unless `target` is
    given.

    Args:
        scores: `[*B, *score]`, predicted, larger is better: minus the predicted costs.
        true_costs: `[*B, *score]`, smaller is better. For a problem that maximises values, minus the values.
        space: the space of decisions.
        target: `[*B, *event]`, the best decisions for the true costs, if they are known; else they are solved for.
        samples: number of samples of the noise for each example; None: no noise.
        generator: source of the noise; None is torch's global generator.
        noise: `[S, *B, *score]`, to use instead of new noise.
        validate: check values: scores, costs and targets must be finite.

    Returns:
        `[*B]`. Without noise at least the regret, and zero where scores are minus the true costs.

    Raises:
        ShapeError: true costs or target have the wrong shape.

    Example:
        >>> import torch, hardmax as hm
        >>> costs, space = torch.tensor([1.0, 2.0, 3.0]), hm.Categorical(3)
        >>> predicted = torch.tensor([2.0, 1.0, 3.0], requires_grad=True)
        >>> hm.spo_plus_loss(-predicted, costs, space).item(), hm.regret(-predicted, costs, space).item()
        (3.0, 1.0)
        >>> hm.spo_plus_loss(-costs, costs, space).item()
        0.0

    References:
        Elmachtoub & Grigas, "Smart 'predict, then optimize'", 2022, definition 3 and proposition 3.
    """
    validate = validate and can_read_values()
    scores = check_scores(scores, space, values=validate)
    batch_shape = space.batch_shape(scores)
    _check_costs(true_costs, scores, batch_shape, values=validate)
    costs = true_costs.detach().to(scores.dtype)
    if target is None:
        target = space.argmax(-costs)
    check_target(target, space, batch_shape, values=validate)
    noise = _draw_noise(scores, space, batch_shape, samples, generator, noise)
    moved = 2 * scores + costs
    # Zero, or the change that makes the scores usable; the gradient passes it by.
    moved = moved + (space.augment(2 * scores, costs) - moved).detach()
    perturbed = moved[None] if noise is None else space.perturb(moved, noise)
    return measure_gap(perturbed, target, space, validate=validate).mean(0).to(scores.dtype)


def direct_loss(
    scores: Tensor,
    target: Tensor,
    space: AbstractSpace,
    *,
    loss: Tensor | Literal["hamming"] = "hamming",
    epsilon: float = 1.0,
    towards: bool = False,
    samples: int | None = None,
    generator: torch.Generator | None = None,
    noise: Tensor | None = None,
    validate: bool = True,
) -> Tensor:
    r"""Return the task loss of the arg max of scores, with the gradient of direct loss minimization.

    The task loss, such as a Hamming error or a regret, is piecewise constant in the scores. Its expectation is not, and
    the difference of two arg maxes estimates the gradient: with $z = \operatorname{argmax}_z \langle \mathrm{scores}, z
    \rangle$ and

    $$ z(\epsilon) = \operatorname{argmax}_z \{\langle \mathrm{scores}, z \rangle + \epsilon \, \mathrm{loss}(z)\},
       \qquad \mathrm{gradient} = \frac{z(\epsilon) - z}{\epsilon} $$

    (z stands for its statistics): away from a solution that is worse. With `towards`, $-\epsilon$ instead of
    $\epsilon$: towards a solution that is better, $(z - z(-\epsilon)) / \epsilon$.

    Bias: $O(\epsilon)$; the expectation is over the examples and, with `samples`, over the noise of the space. Without
    noise, the gradient of an example is zero as long as epsilon does not change its arg max. Variance: grows as
    $1/\epsilon$. Cost: two arg maxes per sample.

    Args:
        scores: `[*B, *score]`.
        target: `[*B, *event]`, the observed decisions.
        space: the space of z.
        loss: the task loss: "hamming", the number of entries of z that differ from the target (zeros and ones); or
            costs `[*B, *score]`, for the regret $\langle \mathrm{costs}, z - \mathrm{target} \rangle$.
        epsilon: how strongly the task loss moves the arg max, > 0, relative to the scores.
        towards: move towards better solutions instead of away from worse ones.
        samples: number of samples of the noise for each example; None: scores without noise.
        generator: source of the noise; None is torch's global generator.
        noise: `[S, *B, *score]`, to use instead of new noise.
        validate: check values: scores, costs and targets must be finite.

    Returns:
        `[*B]`. Forward: the task loss, its mean over the samples. Backward: the gradient above.

    Raises:
        ArgumentError: epsilon <= 0, or values that cannot be used; `ShapeError` for wrong shapes.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.tensor([[0.2, 0.0, -1.0]], requires_grad=True)
        >>> loss = hm.direct_loss(scores, torch.tensor([[0.0, 1.0, 0.0]]), hm.Categorical(3), towards=True)
        >>> loss.sum().backward()
        >>> loss.item(), scores.grad.tolist()
        (2.0, [[1.0, -1.0, 0.0]])

    References:
        McAllester, Hazan & Keshet, "Direct loss minimization for structured prediction", 2010; Song, Schwing, Zemel &
        Urtasun, "Training deep neural networks via direct loss minimization", 2016; Lorberbom et al., 2019, eq. 5.
    """
    check_positive("epsilon", epsilon)
    validate = validate and can_read_values()
    scores = check_scores(scores, space, values=validate)
    batch_shape = space.batch_shape(scores)
    check_target(target, space, batch_shape, values=validate)
    target = target.to(scores.dtype)
    if isinstance(loss, str):
        if loss != "hamming":
            raise ArgumentError(f"loss must be 'hamming' or a tensor of costs, got {loss!r}")
        weights = compute_hamming_costs(target, space)
    else:
        _check_costs(loss, scores, batch_shape, values=validate)
        weights = loss.detach().to(scores.dtype)
    noise = _draw_noise(scores, space, batch_shape, samples, generator, noise)
    detached = scores.detach()
    perturbed = detached[None] if noise is None else space.perturb(detached, noise)
    z = space.argmax(perturbed).to(scores.dtype)
    gradient = measure_movement(space, perturbed, z, weights, -epsilon if towards else epsilon, two_sided=False)
    gradient = gradient if noise is None else space.pull_back(gradient, noise)
    value = space.dot(weights, space.statistics(z) - space.statistics(target))
    return attach_score_gradient(value.mean(0), scores, gradient.mean(0).to(scores.dtype))


def compute_hamming_costs(target: Float[Tensor, "..."], space: AbstractSpace) -> Float[Tensor, "..."]:
    r"""Return the costs by which the regret of z is the number of entries that differ from a target.

    For zeros and ones, $|z_i - y_i| = y_i + (1 - 2 y_i) z_i$, so that the cost of entry i is $1 - 2 y_i$. The couplings
    of `PairwiseBinary` have no cost: added to supermodular scores, the costs keep them supermodular.

    Args:
        target: `[*B, *event]`, zeros and ones.
        space: the space of z.

    Returns:
        `[*B, *score]`.
    """
    return lay_out_slope(space, target, 1 - 2 * target)


@torch.no_grad()
def regret(
    scores: Float[Tensor, "..."],
    true_costs: Float[Tensor, "..."],
    space: AbstractSpace,
    *,
    target: Float[Tensor, "..."] | None = None,
) -> Float[Tensor, "..."]:
    r"""Return how much more the decision costs that scores cause, compared with the best one.

    $$ \langle c, \operatorname{argmax}_z \langle \mathrm{scores}, z \rangle \rangle - \min_z \, \langle c, z \rangle $$

    (z stands for its statistics). The normalised regret of a data set, as it is usually reported, is the sum of regrets
    divided by the sum of $|\min_z \langle c, z \rangle|$.

    Args:
        scores: `[*B, *score]`, larger is better: minus the predicted costs.
        true_costs: `[*B, *score]`, smaller is better.
        space: the space of decisions.
        target: `[*B, *event]`, the best decisions for the true costs, if they are known.

    Returns:
        `[*B]`, at least zero if the arg max is exact; no gradient.

    Example:
        >>> import torch, hardmax as hm
        >>> costs = torch.tensor([[1.0, 2.0, 5.0]])
        >>> hm.regret(torch.tensor([[0.0, 1.0, 0.0]]), costs, hm.Categorical(3))
        tensor([1.])
    """
    _check_costs(true_costs, scores, space.batch_shape(scores), values=False)
    best = space.argmax(-true_costs) if target is None else target
    chosen = space.argmax(scores)
    difference = space.statistics(chosen.to(true_costs.dtype)) - space.statistics(best.to(true_costs.dtype))
    return space.dot(true_costs, difference)


def _draw_noise(
    scores: Tensor,
    space: AbstractSpace,
    batch_shape: tuple[int, ...],
    samples: int | None,
    generator: torch.Generator | None,
    noise: Tensor | None,
) -> Tensor | None:
    """Check the caller's noise and return it, or draw noise for each sample; None if neither is given."""
    if noise is not None:
        check_noise(noise, scores, samples, 1, scores.shape)
        return noise
    if samples is None:
        return None
    check_samples(samples)
    return space.noise((samples, *batch_shape), generator, dtype=scores.dtype, device=scores.device)


def _check_costs(costs: Tensor, scores: Tensor, batch_shape: tuple[int, ...], *, values: bool) -> None:
    if costs.shape != scores.shape:
        raise ShapeError(
            f"costs have shape {list(costs.shape)}, but scores have {list(scores.shape)}; both need one number for "
            "each part of z, and the same batch"
        )
    if values and not costs.isfinite().all():
        index = find_first_index(~costs.isfinite())
        raise ArgumentError(
            f"costs must be finite, got {costs[tuple(index)].item()} for example {index[: len(batch_shape)]}"
        )
