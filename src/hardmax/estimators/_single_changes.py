"""Values of f at z and at every z that differs from it in one variable."""

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
    """Evaluate f at z and at every single-variable change of it.

    With one categorical variable the changes are all the categories, for any z: they are evaluated once for all
    samples, and z again only where that is cheaper than keeping the graph of them all. Otherwise z is evaluated once,
    and `M` changes of it for each sample.

    Args:
        f: the objective.
        space: offers `change` and `parts`.
        z: `[S, *B, *event]`.

    Returns:
        `[S, *B]` f(z), with the gradient of all that f closes over; and `[*S, *B, *score]` the value of each
        part of the scores to z(epsilon), up to a constant per variable, detached.
    """
    if space.categories is None:
        plain = f.plain(z)
        with torch.no_grad():
            parts = space.parts(z, _gains(f, space, z, plain, None))
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
    f: Evaluator, space: AbstractFactorised, z: Float[Tensor, "S ..."], kept: Bool[Tensor, "S ..."]
) -> tuple[Float[Tensor, "S *B"], Float[Tensor, "..."]]:
    """Evaluate f at z and at the changes of the variables that are kept; there is no linear part.

    Args:
        f: the objective; has `rows` or `flips`.
        space: a factorised space.
        z: `[S, *B, *event]`.
        kept: `[S, *B, N]` in the layout of per-variable quantities.

    Returns:
        As `evaluate_single_changes`; the parts of variables that are not kept are arbitrary.
    """
    values = f.plain(z)
    with torch.no_grad():
        gains = _gains(f, space, z, values, kept.reshape(*values.shape, space.variables))
        return values, space.parts(z, gains)


def evaluate_flips(
    f: Evaluator, space: AbstractSpace, z: Float[Tensor, "S *B N"], kept: Bool[Tensor, "S *B N"] | None
) -> tuple[Float[Tensor, "S *B"], Float[Tensor, "S *B N"]]:
    """Evaluate f at z, and for bits `f(z_i = 1) - f(z_i = 0)`, both with the linear part.

    Args:
        f: the objective.
        space: one of bits.
        z: `[S, *B, N]`.
        kept: where the differences are wanted, others are arbitrary; None is everywhere.

    Returns:
        `[S, *B]` with the gradient of all that f closes over, and `[S, *B, N]`, detached.
    """
    plain = f.plain(z)
    with torch.no_grad():
        differences = (1 - 2 * z) * _gains(f, space, z, plain, kept).movedim(0, -1)
        if f.linear is not None:
            differences = differences + space.fields(f.linear, z)
    return plain + f.linear_part(z), differences


def _gains(f: Evaluator, space: AbstractSpace, z: Tensor, values: Tensor, kept: Tensor | None) -> Tensor:
    """Return f(change of z) - f(z), without the linear part, `[M, S, *B]`, by the cheapest way that f offers.

    Computed for the variables kept `[S, *B, N]`, or for all; other entries are arbitrary.
    """
    if f.has_flips and can_read_values():
        wanted = torch.ones_like(z, dtype=torch.bool) if kept is None else kept
        gains = torch.zeros_like(z)
        gains[wanted] = f.flips(z).gains(wanted)
        return gains.movedim(-1, 0)
    if f.has_rows and kept is not None:
        return _gains_by_rows(f, space, z, values, kept)
    return _all_gains(f, space, z, values)


def _gains_by_rows(f: Evaluator, space: AbstractSpace, z: Tensor, values: Tensor, kept: Tensor) -> Tensor:
    samples, examples, variables = len(z), prod(values.shape[1:]), kept.shape[-1]
    flat = z.reshape(samples, examples, *space.event_shape)
    sample, example, variable = kept.reshape(samples, examples, variables).nonzero(as_tuple=True)
    each = torch.arange(space.changes // variables, device=z.device)
    change = variable[:, None] * len(each) + each
    sample, example = sample[:, None].expand_as(change), example[:, None].expand_as(change)
    changed = space.change(flat[sample, example], change)
    rows = f.rows(changed.flatten(0, 1), example.flatten()).view(change.shape)
    gains = rows.new_zeros(space.changes, samples, examples)
    gains[change, sample, example] = rows - values.view(samples, examples)[sample, example]
    return gains.view(space.changes, *values.shape)


def _all_gains(f: Evaluator, space: AbstractSpace, z: Tensor, values: Tensor) -> Tensor:
    samples = z.shape[0]
    total = space.changes * samples
    pairs = torch.arange(total, device=z.device)
    chunks = []
    for pair in pairs.split(f.chunk_size or max(total, 1)):
        change = (pair // samples).view(-1, *(1 for _ in values.shape[1:]))
        chunks.append(f.plain(space.change(z[pair % samples], change)))
    return torch.cat(chunks).view(space.changes, *values.shape) - values


def _look_up(table: Tensor, z: Tensor) -> Tensor:
    """Return the entry of `[*B, K]` that one-hot z `[S, *B, *event]` names, `[S, *B]`."""
    index = z.view(len(z), *table.shape).argmax(-1, keepdim=True)
    return table.expand(len(z), *table.shape).gather(-1, index).squeeze(-1)
