"""Evaluation of f at z and at its single changes, the z that differ from it in one variable."""

from math import prod

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hardmax.evaluator import Evaluator
from hardmax.spaces import AbstractFactorised, AbstractSpace
from hardmax.validation import can_read_values


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
        `[S, *B]` f(z), with the gradient for everything that f closes over; and `[*S, *B, *score]` the values of f in
        the layout of the scores (`space.parts`), up to a constant per variable, detached. For one categorical the
        second has no sample dimension.
    """
    if space.categories is None:
        plain = f.evaluate_plain(z)
        with torch.no_grad():
            parts = space.parts(z, _evaluate_gains(f, space, z, plain, None))
        return plain + f.linear_part(z), parts if f.linear is None else parts + f.linear
    if f.keeps_table(len(z)):
        table = f.table()
        values = _look_up(table, z)
    else:
        with torch.no_grad():
            table = f.table()
        values = f(z)
    return values, table.detach().view(*table.shape[:-1], *space.score_shape)


def evaluate_chosen_changes(
    f: Evaluator, space: AbstractFactorised, z: Float[Tensor, "S ..."], is_chosen: Bool[Tensor, "S ..."]
) -> tuple[Float[Tensor, "S *B"], Float[Tensor, "..."]]:
    """Evaluate f at z and at the single changes of the chosen variables only; f has no linear part.

    Args:
        f: the objective; has `rows` or `flips`.
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
    """Evaluate f at z and, for each bit, the difference `f(z_i = 1) - f(z_i = 0)`, both with the linear part of f.

    Args:
        f: the objective.
        space: a space of bits.
        z: `[S, *B, N]`.
        is_chosen: true for the bits whose difference is needed, the other differences are arbitrary; None: all bits.

    Returns:
        `[S, *B]` f(z), with the gradient for everything that f closes over; and `[S, *B, N]` the differences, detached.
    """
    plain = f.evaluate_plain(z)
    with torch.no_grad():
        differences = (1 - 2 * z) * _evaluate_gains(f, space, z, plain, is_chosen).movedim(0, -1)
        if f.linear is not None:
            differences = differences + space.fields(f.linear, z)
    return plain + f.linear_part(z), differences


def _evaluate_gains(f: Evaluator, space: AbstractSpace, z: Tensor, values: Tensor, is_chosen: Tensor | None) -> Tensor:
    """Return f(change of z) - f(z), without the linear part, `[M, S, *B]`, in the cheapest way that f supports.

    Computed for the chosen variables `[S, *B, N]`, or for all if None; all other entries are arbitrary.
    """
    if f.has_flips and can_read_values():
        mask = torch.ones_like(z, dtype=torch.bool) if is_chosen is None else is_chosen
        gains = torch.zeros_like(z)
        gains[mask] = f.flips(z).gains(mask)
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
    samples = z.shape[0]
    total = space.changes * samples
    pairs = torch.arange(total, device=z.device)
    chunks = []
    for pair in pairs.split(f.chunk_size or max(total, 1)):
        change = (pair // samples).view(-1, *(1 for _ in values.shape[1:]))
        chunks.append(f.evaluate_plain(space.change(z[pair % samples], change)))
    return torch.cat(chunks).view(space.changes, *values.shape) - values


def _look_up(table: Tensor, z: Tensor) -> Tensor:
    """Return the entries of the table `[*B, K]` at one-hot z `[S, *B, *event]`, `[S, *B]`."""
    index = z.view(len(z), *table.shape).argmax(-1, keepdim=True)
    return table.expand(len(z), *table.shape).gather(-1, index).squeeze(-1)
