"""Figures and images for the report of a discrete VAE: the meaning of its codes, and how they are used."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

import torch
from jaxtyping import Float
from markupsafe import Markup
from matplotlib.axes import Axes
from torch import Tensor

from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.applications.discrete_vae.model import DiscreteVAE
from hardmax.applications.discrete_vae.task import RARE
from hardmax.drawing.images import colour_difference
from hardmax.drawing.svg import COLOURS, draw_svg
from hardmax.metrics.codes import perplexity
from hardmax.report.curves import draw_heat_map
from hardmax.report.run import MeasuredVAE, Run
from hardmax.report.sections import Tile, Tiles, make_tile, spread_indices
from hardmax.report.tables import format_percent
from hardmax.spaces import AbstractSpace
from hardmax.spaces.registry import SPACES, SpaceRecord


@dataclass(frozen=True)
class DiscreteMeasured(MeasuredVAE):
    """A row of a discrete VAE; `nll` and `active` are not measured for train."""

    active: int | None

    @property
    def gap(self) -> float | None:
        """How far the bound lies below log p(x)."""
        return None if self.bound is None or self.nll is None else self.bound - self.nll


# The test pictures are `[N, channels, H, W]`.
DiscreteRun = Run[DiscreteConfig, DiscreteVAE, DiscreteMeasured, Tensor]


def has_bits(space: AbstractSpace) -> bool:
    """Whether z is a vector of zeros and ones; else its last dimension is one-hot."""
    return space.categories is None and len(space.event_shape) == 1


def is_free(space: AbstractSpace) -> bool:
    """Whether every variable may take any value, whatever the others are."""
    if has_bits(space):
        return space.size == 2 ** space.event_shape[0]
    return space.size == space.event_shape[-1] ** prod(space.event_shape[:-1])


def compute_mean(space: AbstractSpace, scores: Tensor) -> Tensor | None:
    """Return `E_q[z]` of scores, `[*B, *score] -> [*B, *event]`, or None where the space cannot compute it."""
    if not space.offers("marginals"):
        return None
    # Marginals are means of statistics. Where those are more than z, the relaxation has the mean of z at temperature 1.
    return space.marginals(scores) if space.score_shape == space.event_shape else space.relax(scores, 1.0)


def name_variables(space: AbstractSpace, config: DiscreteConfig) -> list[str]:
    """Return a name for each variable of z: its number, or the two nodes that an edge joins."""
    if config.space == "spanning-tree":
        return [f"{i}–{j}" for i in range(config.variables) for j in range(i + 1, config.variables)]
    return [str(i) for i in range(space.event_shape[0])]


_MOST_BARS = 100


@dataclass(frozen=True, eq=False)
class Usage:
    """How the test pictures use the codes.

    Attributes:
        space: the space of the codes.
        words: what its variables are called.
        names: one for each variable.
        scores: `[N, *score]`. The encoder's scores of each picture.
        edges: `[E, 2]`. Which bits interact; None where there are no couplings.
        exact: whether the mean of q can be computed; where it cannot, `average` is `share`.
        average: `[*event]`. The mean of z under q(z | x), averaged over pictures.
        share: `[*event]`. The part of the pictures that has this value in its best code.
        codes: `[N, *event]`. The best code of each picture.
        distinct: the number of different best codes.
        distinct_perplexity: the perplexity of how often each of them occurs.
    """

    space: AbstractSpace
    words: SpaceRecord
    names: list[str]
    scores: Float[Tensor, "N *score"]
    edges: Tensor | None
    exact: bool
    average: Float[Tensor, "*event"]
    share: Float[Tensor, "*event"]
    codes: Float[Tensor, "N *event"]
    distinct: int
    distinct_perplexity: float

    @property
    def perplexity(self) -> Float[Tensor, "*n"]:
        """Of the average q: `[]` for one categorical, else `[n]`, of each variable."""
        return self._perplexity(self.average)

    @property
    def most(self) -> float:
        """The perplexity if all codes were used equally, geometric mean over variables."""
        means = self.expected(None)
        # A space that cannot compute its mean may still be one of free bits.
        means = torch.full_like(self.average, 0.5) if means is None else means
        return float(self._perplexity(means).log().mean().exp())

    @property
    def dead(self) -> Tensor:
        """`[*event]` for one-hot z: the best of almost no picture; `[n]` for bits: almost always the same."""
        return (torch.minimum(self.share, 1 - self.share) if has_bits(self.space) else self.share) < RARE

    def expected(self, prior: Tensor | None) -> Tensor | None:
        """Return the mean of z under the prior (None: uniform), `[*event]`; None where it is not known."""
        scores = torch.zeros(self.space.score_shape) if prior is None else prior.detach().cpu()
        return compute_mean(self.space, scores.double())

    def _perplexity(self, means: Tensor) -> Tensor:
        return perplexity(torch.stack([means, 1 - means], -1) if has_bits(self.space) else means)


@torch.no_grad()
def measure_usage(run: DiscreteRun, batch_size: int = 500) -> Usage:
    """Encode the run's test pictures."""
    space = run.model.space
    scores = torch.cat([run.model.encoder(batch) for batch in run.pictures.split(batch_size)])
    codes = space.argmax(scores)
    # int8: sorting whole codes as bytes is quicker, and they hold only zeros and ones
    _, counts = codes.flatten(1).to(torch.int8).unique(dim=0, return_counts=True)
    means = compute_mean(space, scores)
    return Usage(
        space=space,
        words=SPACES[run.config.space],
        names=name_variables(space, run.config),
        scores=scores,
        edges=torch.tensor(getattr(space, "edges", ())) if run.config.space == "pairwise" else None,
        exact=means is not None,
        average=(codes if means is None else means).double().mean(0),
        share=codes.double().mean(0),
        codes=codes,
        distinct=len(counts),
        distinct_perplexity=float(perplexity(counts / counts.sum())),
    )


def draw_usage(usage: Usage, prior: Tensor | None, name: str) -> Markup:
    """Draw how much each category or variable is used.

    Args:
        usage: the measured usage.
        prior: scores `[*score]` of a learned prior; None is uniform.
        name: of the figure, unique on the page.
    """
    expected, words = usage.expected(prior), usage.words
    if usage.space.categories is not None and expected is not None:
        return _draw_categories(usage.average.flatten(), usage.share.flatten(), expected.flatten(), name)
    if has_bits(usage.space):
        label = f"average q({words.variable} = 1)" if usage.exact else f"best code has {words.variable} = 1"
        return _bars(usage.average, name, words.variable, label, (0, 1), usage.names, expected)
    count, values = usage.average.shape
    if is_free(usage.space):
        label = f"perplexity of the average {'q' if usage.exact else 'best code'}"
        return _bars(usage.perplexity, name, words.variable, label, (1, values), usage.names)
    alt = f"How often each of {count} {words.variable}s has each {words.value}"
    scale = "average q" if usage.exact else "share of the best codes"
    return draw_heat_map(name, alt, usage.average, rows=words.variable, columns=words.value, scale=scale)


def _draw_categories(average: Tensor, share: Tensor, expected: Tensor, name: str) -> Markup:
    """Draw average q as bars, the share of best codes as dots, and the prior as a step line."""
    ranked = len(average) > _MOST_BARS
    if ranked:
        order = average.argsort(descending=True)[:_MOST_BARS]
        average, share, expected = average[order], share[order], expected[order]
    x = torch.arange(len(average))
    alt = f"Average q of {len(average)} categories: between {average.min():.1%} and {average.max():.1%}"
    with draw_svg(name, alt, height=240) as figure:
        axes = figure.axes
        axes.bar(x.tolist(), (100 * average).tolist(), color=COLOURS[0], width=0.8)
        axes.plot(x.tolist(), (100 * share).tolist(), "o", color=COLOURS[1], markersize=4 if len(x) <= 30 else 2.5)
        axes.step(
            [-0.5, *(x + 0.5).tolist()], (100 * expected[[0, *range(len(x))]]).tolist(), color=COLOURS[-1], lw=1.2
        )
        axes.set(xlabel="category, by use" if ranked else "category", ylabel="use (%)", xlim=(-0.6, len(x) - 0.4))
        _ticks(axes, len(x))
    return figure.svg


def _bars(
    values: Tensor,
    name: str,
    what: str,
    label: str,
    limits: tuple[float, float],
    names: list[str],
    expected: Tensor | None = None,
) -> Markup:
    """Draw a bar for each variable, and the mean under the prior as a step line."""
    count = len(values)
    alt = f"{label} of {count} {what}s: between {values.min():.2f} and {values.max():.2f}"
    with draw_svg(name, alt, height=240) as figure:
        axes = figure.axes
        axes.bar(range(count), (values - limits[0]).tolist(), bottom=limits[0], color=COLOURS[0], width=0.8)
        if expected is not None:
            steps = expected[[0, *range(count)]].tolist()
            axes.step([i - 0.5 for i in range(count + 1)], steps, color=COLOURS[-1], linewidth=1.2)
        axes.set(xlabel=what, ylabel=label, xlim=(-0.6, count - 0.4), ylim=limits)
        _ticks(axes, count, names)
    return figure.svg


def _ticks(axes: Axes, count: int, names: list[str] | None = None) -> None:
    """Label the bars, or every n-th of them where there is no room for all."""
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 10**9) if count <= 20 * step)
    positions = range(0, count, step)
    axes.set_xticks(positions, [names[i] if names else str(i) for i in positions])
    axes.tick_params(axis="x", length=0)


_MOST_COUPLED_BITS = 60


@dataclass(frozen=True)
class Couplings:
    """A figure of the couplings, and its description."""

    svg: Markup
    note: str


def draw_couplings(usage: Usage, name: str) -> Couplings | None:
    """Draw the mean couplings over the test pictures, `[n, n]`; None where z has no couplings.

    Args:
        usage: the measured usage.
        name: of the figure, unique on the page.
    """
    if usage.edges is None or not len(usage.edges):
        return None
    n = usage.space.event_shape[0]
    couplings = usage.scores[:, n:].double()
    means, spread = couplings.mean(0), couplings.std(0, correction=0)
    strongest = int(means.abs().argmax())
    i, j = usage.edges[strongest].tolist()
    note = (
        "The mean coupling of each pair of bits over the test pictures: orange pulls both towards 1 together, blue "
        "keeps them from it, grey is no pair. The strongest is that of bits "
        f"{i} and {j}, {means[strongest]:+.2f}; from picture to picture a coupling changes by {spread.mean():.2f} "
        "(standard deviation, mean over pairs)."
    ).replace("-", "−")
    limit = min(n, _MOST_COUPLED_BITS)
    if limit < n:
        note += f" Shown are the first {limit} of {n} bits."
    matrix = _symmetric(means, usage.edges, n)[:limit, :limit]
    alt = f"Mean couplings of {limit} bits: between {means.min():.2f} and {means.max():.2f}"
    svg = draw_heat_map(name, alt, matrix, rows="bit", columns="bit", scale="mean coupling", signed=True)
    return Couplings(svg, note)


def _symmetric(values: Tensor, edges: Tensor, n: int) -> Tensor:
    """Return a value per edge as a symmetric matrix; pairs that do not interact are NaN."""
    matrix = torch.full((n, n), float("nan"), dtype=values.dtype)
    i, j = edges.unbind(1)
    matrix[i, j] = values
    matrix[j, i] = values
    return matrix


_MOST_CATEGORIES, _MOST_BITS, _MOST_VARIABLES, _MOST_VALUES = 100, 64, 12, 16
_MOST_FLIPPED = 3  # codes
_MOST_DECODED = 20_000  # pictures decoded to show what all variables change


def tile_meanings(run: DiscreteRun, usage: Usage) -> Tiles:
    """Return a picture of every category; with several variables, of what each one changes."""
    if run.model.space.categories is not None:
        return _categories(run.model, usage)
    return _bits(run.model, usage) if has_bits(run.model.space) else _variables(run.model, usage)


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
        make_tile(
            picture[None], f"category {i}", str(i), format_percent(share[i].item()), mark="unused" if dead[i] else ""
        )
        for i, picture in zip(order.tolist(), pictures, strict=True)
    ]
    return Tiles(note, [("", tiles)])


def _bits(model: DiscreteVAE, usage: Usage) -> Tiles:
    count, what = len(usage.share), usage.words.variable
    limit = min(count, _MOST_BITS)
    codes = _some(usage.codes, 2 * limit)
    off, on = (_means(model, codes, range(limit), torch.tensor(value)) for value in (0.0, 1.0))
    change = colour_difference(off, on)
    rgb = (limit, *change.shape[1:])
    columns = torch.stack([off.expand(rgb), on.expand(rgb), change], 1)
    tiles = [
        make_tile(
            column,
            f"{what} {usage.names[bit]}: the mean picture with it at 0, at 1, and the difference",
            usage.names[bit],
            format_percent(usage.share[bit].item()),
            mark="unused" if usage.dead[bit] else "",
        )
        for bit, column in enumerate(columns)
    ]
    note = (
        f"Each column is one {what}: {_over(usage, codes, f'this {what}', '0, then 1')}, then the difference "
        "(orange is brighter with 1, blue is darker). Beneath: for how many of the test pictures it is 1."
    )
    if limit < count:
        note += f" Shown are the first {limit} of {count} {what}s."
    if usage.dead.any():
        note += f" Unused, that is the same in all but one picture in a thousand: {int(usage.dead.sum())}, marked."
    rows: list[tuple[str, list[Tile]]] = [("", tiles)]
    if usage.space.offers("fields"):
        rows.append(("Around the most used codes: as they are, then with one bit flipped", _flips(model, usage, limit)))
    return Tiles(note, rows)


def _flips(model: DiscreteVAE, usage: Usage, limit: int) -> list[Tile]:
    """Return a column of the most used codes' pictures, then one for each bit, with that bit flipped."""
    distinct, counts = usage.codes.unique(dim=0, return_counts=True)
    codes = distinct[counts.argsort(descending=True, stable=True)[:_MOST_FLIPPED]]
    tiles = [make_tile(model.decode(codes), f"the {len(codes)} most used codes", "as is")]
    for bit in range(limit):
        index = torch.full((len(codes),), bit)
        tiles.append(
            make_tile(model.decode(usage.space.change(codes, index)), f"the same with bit {bit} flipped", str(bit))
        )
    return tiles


def _variables(model: DiscreteVAE, usage: Usage) -> Tiles:
    count, values = usage.share.shape
    what, value_of = usage.words.variable, usage.words.value
    limit = min(count, _MOST_VARIABLES)
    codes = _some(usage.codes, limit * min(values, _MOST_VALUES))
    one_hot = torch.eye(values, dtype=codes.dtype)
    rows = []
    for variable in range(limit):
        share, dead = usage.share[variable], usage.dead[variable]
        most_used = share.argsort(descending=True, stable=True)[:_MOST_VALUES]
        tiles = [
            make_tile(
                _means(model, codes, [variable], one_hot[value]),
                f"the mean picture with {what} {variable} at {value_of} {value}",
                str(value),
                format_percent(share[value].item()),
                mark="unused" if dead[value] else "",
            )
            for value in sorted(most_used.tolist())
        ]
        rows.append((f"{what.capitalize()} {variable}: perplexity {usage.perplexity[variable]:.2f} of {values}", tiles))
    note = (
        f"{_over(usage, codes, f'one {what}', f'each of its {value_of}s').capitalize()}. Beneath: the {value_of}, and "
        "for how many of the test pictures it is the best; marked where for fewer than one in a thousand."
    )
    if limit < count:
        note += f" Shown are the first {limit} of {count} {what}s."
    if values > _MOST_VALUES:
        note += f" Shown are the {_MOST_VALUES} most used of {values} {value_of}s."
    return Tiles(note, rows)


def _over(usage: Usage, codes: Tensor, what: str, values: str) -> str:
    """Describe what a mean picture is a mean over."""
    if is_free(usage.space):
        return f"the mean picture over the codes of {len(codes):,} test pictures, with {what} set to {values}"
    return f"the mean picture of those codes, of {len(codes):,} test pictures, that have {what} at {values}"


def _means(model: DiscreteVAE, codes: Tensor, variables: Iterable[int], value: Tensor) -> Tensor:
    """Return the mean pictures `[V, channels, H, W]` with each of some variables at a value.

    Where variables are free, the mean is over all codes with that variable set; else over the codes that have the
    value, since setting one variable could give an invalid code. If no code has it, the mean is over all codes.
    """
    means = []
    pictures = None if is_free(model.space) else model.decode(codes)
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
    """Return a subset of the codes that is small enough to decode for every effect."""
    return codes[spread_indices(len(codes), max(16, min(200, _MOST_DECODED // effects)))]
