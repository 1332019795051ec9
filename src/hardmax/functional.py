"""Drop-in functions for a hard choice in the middle of a network: `argmax`, `topk`, `sort`, `rank`, `gumbel_softmax`.

Each draws a discrete z that carries a gradient to the scores, along any dimension, by any sample-style estimator. They
are short forms of `hardmax.sample` with a `Categorical`, `Subset` or `Permutation` space.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hardmax.errors import ArgumentError, DtypeError
from hardmax.estimators import AbstractSampler, ImplicitMLE, ReinMax, StraightThrough
from hardmax.estimators.abstract import attach_gradient
from hardmax.expectations import sample
from hardmax.random import draw_gumbel
from hardmax.spaces import AbstractSpace, Categorical, Permutation, Subset
from hardmax.spaces.abstract import replace_minus_infinity
from hardmax.tracing import can_read_values
from hardmax.validation import check_positive, check_scores, find_first_index


class Choice(NamedTuple):
    """A discrete choice, and the indices of what was chosen.

    Attributes:
        z: zeros and ones of the shape of the scores (with `samples`, `[S, *shape]`), with the gradient.
        indices: int64, the chosen indices along the dimension: without that dimension for `argmax`, k of them for
            `topk`, the one with the largest score first.
    """

    z: Tensor
    indices: Tensor


class Sorted(NamedTuple):
    """Sorted values, and the permutation that sorts them.

    Attributes:
        values: the shape of the scores (with `samples`, `[S, *shape]`), with a gradient through values and order.
        indices: int64, the index of each sorted value along the dimension.
    """

    values: Tensor
    indices: Tensor


def gumbel_softmax(
    logits: Float[Tensor, "..."],
    tau: float | Tensor = 1.0,
    hard: bool = False,
    dim: int = -1,
    *,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "..."]:
    r"""Draw from the Gumbel-softmax distribution: a replacement for `torch.nn.functional.gumbel_softmax`.

    $$ z = \operatorname{softmax}\Big(\frac{\mathrm{logits} + \mathrm{noise}}{\tau}\Big) $$

    It has the arguments of torch's function (without its unused `eps`), takes a generator, and is finite where torch's
    is not: the noise is float32 or wider and never infinite, half precision is computed in float32, and logits of minus
    infinity have probability and gradient zero. With `hard`, z is exactly one-hot.

    Bias and variance: as `GumbelSoftmax`. `hm.argmax(logits)` is hard as well, at the same cost, and has no bias for f
    of degree two.

    Args:
        logits: any shape, floating point; minus infinity for values that are not allowed.
        tau: temperature, > 0; a tensor may carry a gradient.
        hard: return the one-hot arg max, with the gradient of the softmax (straight-through).
        dim: dimension of the values.
        generator: source of the noise; None is torch's global generator.

    Returns:
        The shape and dtype of logits; sums to one along `dim`.

    Raises:
        ArgumentError: tau <= 0; logits that are NaN or plus infinity, or all minus infinity along `dim`.

    Example:
        >>> import torch, hardmax as hm
        >>> logits = torch.tensor([[2.0, 0.0, -torch.inf]] * 1000, requires_grad=True)
        >>> z = hm.gumbel_softmax(logits, tau=0.5, hard=True, generator=torch.Generator().manual_seed(0))
        >>> [round(share, 1) for share in z.mean(0).tolist()]
        [0.9, 0.1, 0.0]

    References:
        Jang, Gu & Poole, "Categorical reparameterization with Gumbel-softmax", 2017; Maddison, Mnih & Teh, "The
        Concrete distribution", 2017.
    """
    _check_float(logits, "logits")
    if not isinstance(tau, Tensor):
        check_positive("tau", tau)
    if can_read_values():
        _check_logits(logits, dim)
    noise = draw_gumbel(logits.shape, generator=generator, dtype=logits.dtype, device=logits.device)
    perturbed = logits + noise
    if isinstance(tau, Tensor):
        perturbed = replace_minus_infinity(perturbed) / tau  # the derivative of -inf / tau would be NaN
    elif tau != 1:
        perturbed = perturbed / tau
    soft = perturbed.softmax(dim)
    if hard:
        index = perturbed.detach().argmax(dim, keepdim=True)
        soft = attach_gradient(torch.zeros_like(soft).scatter(dim, index, 1.0), soft)
    return soft.to(logits.dtype)


def argmax(
    scores: Float[Tensor, "..."],
    dim: int = -1,
    *,
    estimator: AbstractSampler | None = None,
    mask: Bool[Tensor, "..."] | None = None,
    training: bool = True,
    samples: int | None = None,
    generator: torch.Generator | None = None,
) -> Choice:
    r"""Choose one value along a dimension, one-hot and with a gradient.

    $$ z = \operatorname{argmax}(\mathrm{scores} + \mathrm{noise}) \sim \operatorname{softmax}(\mathrm{scores}) $$

    With `training=False` there is no noise: z is the arg max of the scores.

    Bias and variance: those of the estimator. The default, `ReinMax`, has no bias if the loss is of degree two in z.

    Args:
        scores: any shape, floating point; minus infinity for values that are not allowed.
        dim: dimension of the values.
        estimator: a sample-style estimator; by default `ReinMax()`.
        mask: true where a value is allowed, broadcast to scores.
        training: draw z, with a gradient; False: the arg max, without one.
        samples: number of z to draw, as a first dimension; None: one, without this dimension.
        generator: source of the noise; None is torch's global generator.

    Returns:
        z, and the index of its one.

    Raises:
        ArgumentError: scores that are NaN or plus infinity; no value that is allowed; an estimator that needs f.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.randn(8, 10, requires_grad=True)
        >>> z, index = hm.argmax(scores)
        >>> z.shape, index.shape, z.requires_grad
        (torch.Size([8, 10]), torch.Size([8]), True)
        >>> codes = torch.randn(10, 4)
        >>> (z @ codes).square().sum().backward()  # a code for each row, and a gradient for the choice

    References:
        Gumbel-max: Maddison, Tarlow & Minka, 2014; ReinMax: Liu, Dong, Liu, Yu & Gao, 2023.
    """
    scores = _mask_scores(scores, mask).movedim(dim, -1)
    space = Categorical(scores.shape[-1])
    z = _choose(scores, space, ReinMax() if estimator is None else estimator, training, samples, generator)
    indices = z.detach().argmax(-1)
    return Choice(_move_back(z, dim, scores.dim()), indices)


def topk(
    scores: Float[Tensor, "..."],
    k: int,
    dim: int = -1,
    *,
    estimator: AbstractSampler | None = None,
    mask: Bool[Tensor, "..."] | None = None,
    training: bool = True,
    samples: int | None = None,
    generator: torch.Generator | None = None,
) -> Choice:
    r"""Choose exactly k different values along a dimension, k-hot and with a gradient.

    z is a sample of `Subset(n, k)`, $q(z) \propto \exp(\sum_i \mathrm{scores}_i z_i)$, for estimators that draw from q
    (`StraightThrough`), else the k largest of scores plus Gumbel noise (`ImplicitMLE`, `GumbelSoftmax`). No value is
    chosen twice. With `training=False` there is no noise: z marks the k largest scores.

    Bias and variance: those of the estimator. The default, `StraightThrough` with the exact marginals of `Subset`, has
    no bias if the loss is linear in z.

    Args:
        scores: any shape, floating point; minus infinity for values that are not allowed.
        k: number of values to choose, from 0 to the size of the dimension.
        dim: dimension of the values.
        estimator: a sample-style estimator for structured spaces; by default `StraightThrough()`.
        mask: true where a value is allowed, broadcast to scores.
        training: draw z, with a gradient; False: the k largest scores, without one.
        samples: number of z to draw, as a first dimension; None: one, without this dimension.
        generator: source of the noise; None is torch's global generator.

    Returns:
        z, and the k indices of its ones, the one with the largest score first.

    Raises:
        ArgumentError: scores that are NaN or plus infinity; fewer than k values that are allowed; a wrong k; an
            estimator that needs f.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.randn(4, 8, 3, requires_grad=True)
        >>> z, indices = hm.topk(scores, 2, dim=1)
        >>> z.sum(1).unique().tolist(), indices.shape
        ([2.0], torch.Size([4, 2, 3]))

    References:
        Conditional Bernoulli: Chen, Dempster & Liu, 1994; with noise: Kool, van Hoof & Welling, 2019.
    """
    scores = _mask_scores(scores, mask).movedim(dim, -1)
    space = Subset(scores.shape[-1], k)
    z = _choose(scores, space, StraightThrough() if estimator is None else estimator, training, samples, generator)
    chosen = scores.detach().masked_fill(scores.isneginf(), torch.finfo(scores.dtype).min)
    indices = chosen.expand_as(z).masked_fill(z.detach() < 0.5, -math.inf).topk(k, -1).indices
    return Choice(_move_back(z, dim, scores.dim()), _move_back(indices, dim, scores.dim()))


def sort(
    scores: Float[Tensor, "..."],
    dim: int = -1,
    descending: bool = False,
    *,
    estimator: AbstractSampler | None = None,
    training: bool = True,
    samples: int | None = None,
    generator: torch.Generator | None = None,
) -> Sorted:
    r"""Sort values along a dimension, with a gradient also through their order.

    $$ \mathrm{values} = z^T \mathrm{scores}, \qquad
       z = \operatorname{argmax}_z \sum_{ij} (j \, \mathrm{scores}_i + \mathrm{noise}_{ij}) \, z_{ij} $$

    over all permutation matrices: item i takes place j. Without noise this sorts; two neighbours that differ by d
    change places as easily as a choice with a difference of d in its scores. With `training=False` there is no noise,
    and the gradient is that of `torch.sort`: the order is held fixed.

    Bias and variance: those of the estimator, by default `ImplicitMLE`. Cost: an assignment problem, O(n^3) on the CPU.

    Args:
        scores: any shape, floating point and finite.
        dim: dimension to sort along.
        descending: the largest first.
        estimator: a sample-style estimator for `Permutation`; by default `ImplicitMLE()`.
        training: use noise, with a gradient through the order.
        samples: number of results to draw, as a first dimension; None: one, without this dimension.
        generator: source of the noise; None is torch's global generator.

    Returns:
        The sorted values, and their indices.

    Raises:
        ArgumentError: scores that are not finite, or an estimator that needs f.

    Example:
        >>> import torch, hardmax as hm
        >>> values, indices = hm.sort(torch.tensor([0.0, 50.0, 20.0]), generator=torch.Generator().manual_seed(0))
        >>> values.tolist(), indices.tolist()
        ([0.0, 20.0, 50.0], [0, 2, 1])

    References:
        Mena, Belanger, Linderman & Snoek, 2018; Blondel, Teboul, Berthet & Djolonga, "Fast differentiable sorting and
        ranking", 2020 (sorting as a linear program over permutations).
    """
    moved = _move_to_end(scores, dim)
    z = _draw_order(moved, descending, estimator, training, samples, generator)
    values = (z * moved[..., None]).sum(-2)
    return Sorted(_move_back(values, dim, scores.dim()), _move_back(z.detach().argmax(-2), dim, scores.dim()))


def rank(
    scores: Float[Tensor, "..."],
    dim: int = -1,
    descending: bool = False,
    *,
    estimator: AbstractSampler | None = None,
    training: bool = True,
    samples: int | None = None,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "..."]:
    r"""Return the place of each value in sorted order, counted from 0, with a gradient.

    $$ \mathrm{rank}_i = \sum_j j \, z_{ij} $$

    with the permutation matrix z of `sort`, which has the same arguments, bias and cost. Ranks have no other gradient:
    `torch.argsort` has none.

    Args:
        scores: any shape, floating point and finite.
        dim: dimension to rank along.
        descending: the largest value has rank 0.
        estimator: a sample-style estimator for `Permutation`; by default `ImplicitMLE()`.
        training: use noise, with a gradient; False: the exact ranks, without one.
        samples: number of results to draw, as a first dimension; None: one, without this dimension.
        generator: source of the noise; None is torch's global generator.

    Returns:
        Whole numbers in the dtype of scores: the shape of scores, or `[S, *shape]` with `samples`.

    Raises:
        ArgumentError: scores that are not finite, or an estimator that needs f.

    Example:
        >>> import torch, hardmax as hm
        >>> hm.rank(torch.tensor([0.0, 50.0, 20.0]), training=False)
        tensor([0., 2., 1.])
    """
    moved = _move_to_end(scores, dim)
    z = _draw_order(moved, descending, estimator, training, samples, generator)
    return _move_back((z * _count_places(moved)).sum(-1), dim, scores.dim())


# ----------------------------------------------------------------------------------- common steps
def _check_float(scores: Tensor, name: str) -> None:
    if not isinstance(scores, Tensor) or not scores.is_floating_point():
        kind = scores.dtype if isinstance(scores, Tensor) else type(scores).__name__
        raise DtypeError(f"{name} must be a floating-point tensor, got {kind}; pass {name}.float()")


def _check_logits(logits: Tensor, dim: int) -> None:
    """Raise `ArgumentError` for NaN, plus infinity, and slices of minus infinity."""
    if math.isfinite(logits.detach().sum().item()):
        return
    bad = logits.isnan() | logits.isposinf()
    if bad.any():
        index = find_first_index(bad)
        raise ArgumentError(
            f"logits must be finite, or -inf for values that are not allowed; got {logits[tuple(index)].item()} at "
            f"index {index}; look for a diverged encoder"
        )
    nothing = logits.isneginf().all(dim)
    if nothing.any():
        raise ArgumentError(
            f"all values along dim {dim} are -inf at index {find_first_index(nothing)}: nothing is allowed there; "
            "allow at least one value"
        )


def _mask_scores(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return scores with minus infinity where the mask is false."""
    _check_float(scores, "scores")
    if mask is None:
        return scores
    if mask.dtype != torch.bool:
        raise DtypeError(f"mask must be boolean, true where a value is allowed, got {mask.dtype}; pass mask.bool()")
    return scores.masked_fill(~mask, -math.inf)


def _choose(
    scores: Tensor,
    space: AbstractSpace,
    estimator: AbstractSampler,
    training: bool,
    samples: int | None,
    generator: torch.Generator | None,
) -> Tensor:
    """Return z of scores whose last dimensions are those of the space: `[*B, *event]` or `[S, *B, *event]`."""
    if training:
        return sample(scores, space, estimator, samples=samples, generator=generator)
    z = space.argmax(check_scores(scores.detach(), space, values=can_read_values())).to(scores.dtype)
    return z if samples is None else z.expand(samples, *z.shape)


def _draw_order(
    scores: Tensor,
    descending: bool,
    estimator: AbstractSampler | None,
    training: bool,
    samples: int | None,
    generator: torch.Generator | None,
) -> Tensor:
    places = _count_places(scores)
    table = scores[..., None] * (places.flip(0) if descending else places)
    space = Permutation(scores.shape[-1])
    return _choose(table, space, ImplicitMLE() if estimator is None else estimator, training, samples, generator)


def _count_places(scores: Tensor) -> Tensor:
    return torch.arange(scores.shape[-1], dtype=scores.dtype, device=scores.device)


def _move_to_end(scores: Tensor, dim: int) -> Tensor:
    _check_float(scores, "scores")
    return scores.movedim(dim, -1)


def _move_back(result: Tensor, dim: int, dims: int) -> Tensor:
    """Move the last dimension to `dim` of a tensor of `dims` dimensions; a samples dimension stays first."""
    return result.movedim(-1, dim if dim < 0 else dim - dims)
