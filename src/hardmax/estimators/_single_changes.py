"""Evaluation of f at z and at its single changes, the z that differ from it in one variable."""

from math import prod

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractFactorised, AbstractSpace


def evaluate_single_changes(
    f: Evaluator, space: AbstractSpace, z: Float[Tensor, "S ..."]
) -> tuple[Float[Tensor, "S *B"], Float[Tensor, "..."]]:
    """Evaluate f at z and at each of its single changes.

    With one categorical variable, z and its changes are all the categories, whatever z is: they are evaluated once for
    all samples, and z a second time only where that is cheaper than keeping the graph of all categories. With several
    variables, z is evaluated once, and its `M` changes are evaluated for each sample.

    Args:
        f: the objective.
        space: a space that offers `change` and `parts`.
        z: `[S, *B, *event]`.

    Returns:
        `[S, *B]` f(z) without its linear part, with the gradient for everything that f closes over; and
        `[*S, *B, *score]` the values of f with its linear part, in the layout of the scores (`space.parts`), up to a
        constant per variable, detached. For one categorical the second has no sample dimension.
    """
    if space.categories is None:
        plain = f.evaluate_plain(z)
        with torch.no_grad():
            parts = space.parts(z, _evaluate_gains(f, space, z, plain, None))
        return plain, parts if f.linear is None else parts + f.linear
    values, table = f.evaluate_categories(z.argmax(-1, keepdim=True))
    parts = table.view(*table.shape[:-1], *space.score_shape)
    return values, parts if f.linear is None else parts + f.linear


def evaluate_chosen_changes(
    f: Evaluator, space: AbstractFactorised, z: Float[Tensor, "S ..."], is_chosen: Bool[Tensor, "S ..."]
) -> tuple[Float[Tensor, "S *B"], Float[Tensor, "..."]]:
    """Evaluate f at z and at the single changes of the chosen variables only; f has no linear part.

    Args:
        f: the objective; has `rows` or `changes`.
        space: a factorised space.
        z: `[S, *B, *event]`.
        is_chosen: `[S, *B, N]`, true for the variables to evaluate.

    Returns:
        As `evaluate_single_changes`; the parts of all other variables are arbitrary.
    """
    values = f.evaluate_plain(z)
    with torch.no_grad():
        gains = _evaluate_gains(f, space, z, values, is_chosen.reshape(*values.shape, space.variables))
        return values, space.parts(z, gains)


def evaluate_flips(
    f: Evaluator, space: AbstractSpace, z: Float[Tensor, "S *B N"], is_chosen: Bool[Tensor, "S *B N"] | None
) -> tuple[Float[Tensor, "S *B"], Float[Tensor, "S *B N"]]:
    """Evaluate f at z and, for each bit, the difference `f(z_i = 1) - f(z_i = 0)` with the linear part of f.

    Args:
        f: the objective.
        space: a space of bits.
        z: `[S, *B, N]`.
        is_chosen: true for the bits whose difference is needed, the other differences are arbitrary; None: all bits.

    Returns:
        `[S, *B]` f(z) without its linear part, with the gradient for everything that f closes over; and `[S, *B, N]`
        the differences, detached.
    """
    plain = f.evaluate_plain(z)
    with torch.no_grad():
        differences = (1 - 2 * z) * _evaluate_gains(f, space, z, plain, is_chosen).movedim(0, -1)
        if f.linear is not None:
            differences = differences + space.fields(f.linear, z)
    return plain, differences


def _evaluate_gains(f: Evaluator, space: AbstractSpace, z: Tensor, values: Tensor, is_chosen: Tensor | None) -> Tensor:
    """Return f(change of z) - f(z), without the linear part, `[M, S, *B]`, in the cheapest way that f supports.

    Computed for the chosen variables `[S, *B, N]`, or for all if None; all other entries are arbitrary.
    """
    if (changes := f.changes(z)) is not None:
        lead = values.shape
        if is_chosen is None:
            is_wanted = torch.ones(*lead, space.changes, dtype=torch.bool, device=z.device)
            return changes.gains(is_wanted).view(*lead, space.changes).movedim(-1, 0)
        is_wanted = is_chosen.repeat_interleave(space.changes // is_chosen.shape[-1], -1)
        gains = values.new_zeros(is_wanted.shape)
        gains[is_wanted] = changes.gains(is_wanted)
        return gains.movedim(-1, 0)
    if f.has_rows and is_chosen is not None:
        return _evaluate_gains_by_rows(f, space, z, values, is_chosen)
    return _evaluate_all_gains(f, space, z, values)


def _evaluate_gains_by_rows(f: Evaluator, space: AbstractSpace, z: Tensor, values: Tensor, is_chosen: Tensor) -> Tensor:
    samples, examples, variables = len(z), prod(values.shape[1:]), is_chosen.shape[-1]
    flat = z.reshape(samples, examples, *space.event_shape)
    sample, example, variable = is_chosen.reshape(samples, examples, variables).nonzero(as_tuple=True)
    each = torch.arange(space.changes // variables, device=z.device)
    change = variable[:, None] * len(each) + each
    sample, example = sample[:, None].expand_as(change), example[:, None].expand_as(change)
    changed = space.change(flat[sample, example], change)
    rows = f.rows(changed.flatten(0, 1), example.flatten()).view(change.shape)
    gains = rows.new_zeros(space.changes, samples, examples)
    gains[change, sample, example] = rows - values.view(samples, examples)[sample, example]
    return gains.view(space.changes, *values.shape)


def _evaluate_all_gains(f: Evaluator, space: AbstractSpace, z: Tensor, values: Tensor) -> Tensor:
    """Evaluate all changes in chunks; dense z are made for one chunk at a time."""
    samples = z.shape[0]
    size = f.choose_chunk_size()
    gains = values.new_empty(space.changes * samples, *values.shape[1:])
    for pair in torch.arange(space.changes * samples, device=z.device).split(size):
        change = (pair // samples).view(-1, *(1 for _ in values.shape[1:]))
        sample = pair % samples
        gains[pair] = f.evaluate_plain(space.change(z[sample], change)) - values[sample]
    return gains.view(space.changes, *values.shape)
