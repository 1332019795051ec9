"""What the codes mean, in pictures: every category, or what each variable changes."""

from collections.abc import Iterable

import torch
from torch import Tensor

from hardmax.models import DiscreteVAE
from hardmax.report.discrete.kinds import free, of_bits
from hardmax.report.discrete.run import DiscreteRun
from hardmax.report.discrete.usage import Usage
from hardmax.report.numbers import percent
from hardmax.report.pictures import difference
from hardmax.report.tiles import Tile, Tiles, spread, tile

_MOST_CATEGORIES, _MOST_BITS, _MOST_VARIABLES, _MOST_VALUES = 100, 64, 12, 16
_MOST_FLIPPED = 3  # codes
_MOST_DECODED = 20_000  # pictures decoded to show what all variables change


def meanings(run: DiscreteRun, usage: Usage) -> Tiles:
    """Return a picture of every category; of several variables, of what each one changes."""
    if run.model.space.categories is not None:
        return _categories(run.model, usage)
    return _bits(run.model, usage) if of_bits(run.model.space) else _variables(run.model, usage)


def _categories(model: DiscreteVAE, usage: Usage) -> Tiles:
    count = usage.space.size
    share, dead = usage.share.flatten(), usage.dead.flatten()
    order = torch.arange(count)
    note = "The decoder's picture of each category. Beneath: for how many of the test pictures it is the best."
    if count > _MOST_CATEGORIES:
        order = share.argsort(descending=True, stable=True)[:_MOST_CATEGORIES]
        note += f" Shown are the {_MOST_CATEGORIES} most used of {count:,}."
    if dead.any():
        note += f" Unused, that is the best of fewer than one picture in a thousand: {int(dead.sum())}, marked."
    pictures = model.decode(usage.space.enumerate(dtype=usage.codes.dtype)[order])
    tiles = [
        tile(picture[None], f"category {i}", str(i), percent(share[i].item()), mark="unused" if dead[i] else "")
        for i, picture in zip(order.tolist(), pictures, strict=True)
    ]
    return Tiles(note, [("", tiles)])


def _bits(model: DiscreteVAE, usage: Usage) -> Tiles:
    count, what = len(usage.share), usage.words.variable
    shown = min(count, _MOST_BITS)
    codes = _some(usage.codes, 2 * shown)
    off, on = (_means(model, codes, range(shown), torch.tensor(value)) for value in (0.0, 1.0))
    change = difference(off, on)
    rgb = (shown, *change.shape[1:])
    columns = torch.stack([off.expand(rgb), on.expand(rgb), change], 1)
    tiles = [
        tile(
            column,
            f"{what} {usage.names[bit]}: the mean picture with it at 0, at 1, and the difference",
            usage.names[bit],
            percent(usage.share[bit].item()),
            mark="unused" if usage.dead[bit] else "",
        )
        for bit, column in enumerate(columns)
    ]
    note = (
        f"Each column is one {what}: {_over(usage, codes, f'this {what}', '0, then 1')}, then the difference "
        "(orange is brighter with 1, blue is darker). Beneath: for how many of the test pictures it is 1."
    )
    if shown < count:
        note += f" Shown are the first {shown} of {count} {what}s."
    if usage.dead.any():
        note += f" Unused, that is the same in all but one picture in a thousand: {int(usage.dead.sum())}, marked."
    rows: list[tuple[str, list[Tile]]] = [("", tiles)]
    if usage.space.offers("fields"):
        rows.append(("Around the most used codes: as they are, then with one bit flipped", _flips(model, usage, shown)))
    return Tiles(note, rows)


def _flips(model: DiscreteVAE, usage: Usage, shown: int) -> list[Tile]:
    """Return a column of the most used codes' pictures, then one for each bit, with that bit flipped."""
    found, counts = usage.codes.unique(dim=0, return_counts=True)
    codes = found[counts.argsort(descending=True, stable=True)[:_MOST_FLIPPED]]
    tiles = [tile(model.decode(codes), f"the {len(codes)} most used codes", "as is")]
    for bit in range(shown):
        index = torch.full((len(codes),), bit)
        tiles.append(tile(model.decode(usage.space.change(codes, index)), f"the same with bit {bit} flipped", str(bit)))
    return tiles


def _variables(model: DiscreteVAE, usage: Usage) -> Tiles:
    count, values = usage.share.shape
    what, value_of = usage.words.variable, usage.words.value
    shown = min(count, _MOST_VARIABLES)
    codes = _some(usage.codes, shown * min(values, _MOST_VALUES))
    one_hot = torch.eye(values, dtype=codes.dtype)
    rows = []
    for variable in range(shown):
        share, dead = usage.share[variable], usage.dead[variable]
        most_used = share.argsort(descending=True, stable=True)[:_MOST_VALUES]
        tiles = [
            tile(
                _means(model, codes, [variable], one_hot[value]),
                f"the mean picture with {what} {variable} at {value_of} {value}",
                str(value),
                percent(share[value].item()),
                mark="unused" if dead[value] else "",
            )
            for value in sorted(most_used.tolist())
        ]
        rows.append((f"{what.capitalize()} {variable}: perplexity {usage.perplexity[variable]:.2f} of {values}", tiles))
    note = (
        f"{_over(usage, codes, f'one {what}', f'each of its {value_of}s').capitalize()}. Beneath: the {value_of}, and "
        "for how many of the test pictures it is the best; marked where for fewer than one in a thousand."
    )
    if shown < count:
        note += f" Shown are the first {shown} of {count} {what}s."
    if values > _MOST_VALUES:
        note += f" Shown are the {_MOST_VALUES} most used of {values} {value_of}s."
    return Tiles(note, rows)


def _over(usage: Usage, codes: Tensor, what: str, values: str) -> str:
    """Say what a mean picture is a mean over."""
    if free(usage.space):
        return f"the mean picture over the codes of {len(codes):,} test pictures, with {what} set to {values}"
    return f"the mean picture of those codes, of {len(codes):,} test pictures, that have {what} at {values}"


def _means(model: DiscreteVAE, codes: Tensor, variables: Iterable[int], value: Tensor) -> Tensor:
    """Return the mean pictures `[V, channels, H, W]` with each of some variables at a value.

    Where variables are free, of all codes with that one set; else of the codes that have it so, since a code in which
    one were set would be none. Without any such code it is the mean of all.
    """
    means = []
    pictures = None if free(model.space) else model.decode(codes)
    for variable in variables:
        if pictures is None:
            changed = codes.clone()
            changed[:, variable] = value
            means.append(model.decode(changed).mean(0))
        else:
            have = (codes[:, variable] == value).view(len(codes), -1).all(1)
            means.append(pictures[have if have.any() else slice(None)].mean(0))
    return torch.stack(means)


def _some(codes: Tensor, effects: int) -> Tensor:
    """Return as many codes as there is time to decode for every effect."""
    return codes[spread(len(codes), max(16, min(200, _MOST_DECODED // effects)))]
