"""Figures and images in the report of a discrete VAE: the meaning of its codes, and how they are used."""

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
from hardmax.applications.discrete_vae.task import MIN_SHARE
from hardmax.drawing.images import colour_difference
from hardmax.drawing.svg import COLOURS, draw_svg
from hardmax.metrics.codes import perplexity
from hardmax.report.curves import draw_heat_map
from hardmax.report.run import Run, VAERow
from hardmax.report.sections import Tile, Tiles, make_tile, spread_indices
from hardmax.report.tables import format_percent
from hardmax.spaces import AbstractSpace
from hardmax.spaces.registry import SPACES, SpaceRecord


@dataclass(frozen=True)
class DiscreteRow(VAERow):
    """A row of a discrete VAE; `nll` and `active` are not measured for train."""

    active: int | None

    @property
    def gap(self) -> float | None:
        """The difference between log p(x) and the bound."""
        return None if self.bound is None or self.nll is None else self.bound - self.nll


# The test images are `[N, channels, H, W]`.
DiscreteRun = Run[DiscreteConfig, DiscreteVAE, DiscreteRow, Tensor]


def has_bits(space: AbstractSpace) -> bool:
    """Whether z is a vector of zeros and ones; else its last dimension is one-hot."""
    return space.categories is None and len(space.event_shape) == 1


def is_unconstrained(space: AbstractSpace) -> bool:
    """Whether every variable may take any value, whatever the values of the other variables are."""
    if has_bits(space):
        return space.size == 2 ** space.event_shape[0]
    return space.size == space.event_shape[-1] ** prod(space.event_shape[:-1])


def compute_mean(space: AbstractSpace, scores: Tensor) -> Tensor | None:
    """Return `E_q[z]` of scores, `[*B, *score] -> [*B, *event]`, or None where the space cannot compute it."""
    if not space.offers("marginals"):
        return None
    # Marginals are means of statistics. Where the statistics are not z itself, the relaxation at temperature 1 is the
    # mean of z.
    return space.marginals(scores) if space.score_shape == space.event_shape else space.relax(scores, 1.0)


def name_variables(space: AbstractSpace, config: DiscreteConfig) -> list[str]:
    """Return a name for each variable of z: its number, or the two nodes that an edge joins."""
    if config.space == "spanning-tree":
        return [f"{i}–{j}" for i in range(config.variables) for j in range(i + 1, config.variables)]
    return [str(i) for i in range(space.event_shape[0])]


_MAX_BARS = 100


@dataclass(frozen=True, eq=False)
class Usage:
    """How often the test images use each code.

    Attributes:
        space: the space of the codes.
        record: the space's record, with the names of its variables and values.
        names: the name of each variable.
        scores: `[N, *score]`. The encoder's scores of each image.
        edges: `[E, 2]`. The pairs of bits that interact; None where there are no couplings.
        is_exact: whether the mean of q can be computed; where it cannot, `average` is `share`.
        average: `[*event]`. The mean of z under q(z | x), averaged over images.
        share: `[*event]`. The share of the images that have this value in their best code.
        codes: `[N, *event]`. The best code of each image.
        distinct: the number of different best codes.
        distinct_perplexity: the perplexity of their frequencies.
    """

    space: AbstractSpace
    record: SpaceRecord
    names: list[str]
    scores: Float[Tensor, "N *score"]
    edges: Tensor | None
    is_exact: bool
    average: Float[Tensor, "*event"]
    share: Float[Tensor, "*event"]
    codes: Float[Tensor, "N *event"]
    distinct: int
    distinct_perplexity: float

    @property
    def perplexity(self) -> Float[Tensor, "*n"]:
        """The perplexity of the average q: `[]` for one categorical, else `[n]`, of each variable."""
        return self._perplexity(self.average)

    @property
    def max_perplexity(self) -> float:
        """The perplexity if all codes were used equally often, geometric mean over variables."""
        means = self.compute_prior_mean(None)
        # A space that cannot compute its mean has bits that may take any values.
        means = torch.full_like(self.average, 0.5) if means is None else means
        return float(self._perplexity(means).log().mean().exp())

    @property
    def is_unused(self) -> Tensor:
        """The unused values: for one-hot z `[*event]`, the best of almost no image; for bits `[n]`, almost constant."""
        return (torch.minimum(self.share, 1 - self.share) if has_bits(self.space) else self.share) < MIN_SHARE

    def compute_prior_mean(self, prior: Tensor | None) -> Tensor | None:
        """Return the mean of z under the prior (None: uniform), `[*event]`; None where it cannot be computed."""
        scores = torch.zeros(self.space.score_shape) if prior is None else prior.detach().cpu()
        return compute_mean(self.space, scores.double())

    def _perplexity(self, means: Tensor) -> Tensor:
        return perplexity(torch.stack([means, 1 - means], -1) if has_bits(self.space) else means)


@torch.no_grad()
def measure_usage(run: DiscreteRun, batch_size: int = 500) -> Usage:
    """Encode the test images of a run, and count the codes."""
    space = run.model.space
    scores = torch.cat([run.model.encoder(batch) for batch in run.test_examples.split(batch_size)])
    codes = space.argmax(scores)
    # int8: codes contain only zeros and ones, and sorting bytes is faster
    _, counts = codes.flatten(1).to(torch.int8).unique(dim=0, return_counts=True)
    means = compute_mean(space, scores)
    return Usage(
        space=space,
        record=SPACES[run.config.space],
        names=name_variables(space, run.config),
        scores=scores,
        edges=torch.tensor(getattr(space, "edges", ())) if run.config.space == "pairwise" else None,
        is_exact=means is not None,
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
        name: name of the figure, unique on the page.
    """
    expected, record = usage.compute_prior_mean(prior), usage.record
    if usage.space.categories is not None and expected is not None:
        return _draw_categories(usage.average.flatten(), usage.share.flatten(), expected.flatten(), name)
    if has_bits(usage.space):
        label = f"average q({record.variable} = 1)" if usage.is_exact else f"best code has {record.variable} = 1"
        return _draw_bars(usage.average, name, record.variable, label, (0, 1), usage.names, expected)
    count, values = usage.average.shape
    if is_unconstrained(usage.space):
        label = f"perplexity of the average {'q' if usage.is_exact else 'best code'}"
        return _draw_bars(usage.perplexity, name, record.variable, label, (1, values), usage.names)
    alt = f"How often each of {count} {record.variable}s has each {record.value}"
    scale = "average q" if usage.is_exact else "share of the best codes"
    return draw_heat_map(name, alt, usage.average, rows=record.variable, columns=record.value, scale=scale)


def _draw_categories(average: Tensor, share: Tensor, expected: Tensor, name: str) -> Markup:
    """Draw average q as bars, the share of best codes as dots, and the prior as a step line."""
    ranked = len(average) > _MAX_BARS
    if ranked:
        order = average.argsort(descending=True)[:_MAX_BARS]
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
        _label_ticks(axes, len(x))
    return figure.svg


def _draw_bars(
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
        _label_ticks(axes, count, names)
    return figure.svg


def _label_ticks(axes: Axes, count: int, names: list[str] | None = None) -> None:
    """Label the bars, or every n-th bar where there is no room for all labels."""
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 10**9) if count <= 20 * step)
    positions = range(0, count, step)
    axes.set_xticks(positions, [names[i] if names else str(i) for i in positions])
    axes.tick_params(axis="x", length=0)


_MAX_COUPLED_BITS = 60


@dataclass(frozen=True)
class Couplings:
    """A figure of the couplings, and its description."""

    svg: Markup
    note: str


def draw_couplings(usage: Usage, name: str) -> Couplings | None:
    """Draw the mean couplings over the test images, `[n, n]`; None where z has no couplings.

    Args:
        usage: the measured usage.
        name: name of the figure, unique on the page.
    """
    if usage.edges is None or not len(usage.edges):
        return None
    n = usage.space.event_shape[0]
    couplings = usage.scores[:, n:].double()
    means, spread = couplings.mean(0), couplings.std(0, correction=0)
    strongest = int(means.abs().argmax())
    i, j = usage.edges[strongest].tolist()
    note = (
        "The mean coupling of each pair of bits over the test images. Orange: both bits tend to be 1 together. Blue: "
        "they tend not to be 1 together. Grey: the bits do not interact. The strongest coupling is that of bits "
        f"{i} and {j}, {means[strongest]:+.2f}. A coupling varies between images by {spread.mean():.2f} "
        "(standard deviation, mean over pairs)."
    ).replace("-", "−")
    limit = min(n, _MAX_COUPLED_BITS)
    if limit < n:
        note += f" Only the first {limit} of {n} bits are shown."
    matrix = _make_symmetric(means, usage.edges, n)[:limit, :limit]
    alt = f"Mean couplings of {limit} bits: between {means.min():.2f} and {means.max():.2f}"
    svg = draw_heat_map(name, alt, matrix, rows="bit", columns="bit", scale="mean coupling", signed=True)
    return Couplings(svg, note)


def _make_symmetric(values: Tensor, edges: Tensor, n: int) -> Tensor:
    """Return a value per edge as a symmetric matrix; pairs that do not interact are NaN."""
    matrix = torch.full((n, n), float("nan"), dtype=values.dtype)
    i, j = edges.unbind(1)
    matrix[i, j] = values
    matrix[j, i] = values
    return matrix


_MAX_CATEGORIES, _MAX_BITS, _MAX_VARIABLES, _MAX_VALUES = 100, 64, 12, 16
_MAX_FLIPPED = 3  # number of codes whose bits are flipped
_MAX_DECODED = 20_000  # number of images that are decoded to show what each variable changes


def tile_meanings(run: DiscreteRun, usage: Usage) -> Tiles:
    """Return an image of each category; with several variables, images of what each one changes."""
    if run.model.space.categories is not None:
        return _tile_categories(run.model, usage)
    return _tile_bits(run.model, usage) if has_bits(run.model.space) else _tile_variables(run.model, usage)


def _tile_categories(model: DiscreteVAE, usage: Usage) -> Tiles:
    count = usage.space.size
    share, unused = usage.share.flatten(), usage.is_unused.flatten()
    order = torch.arange(count)
    note = "The decoder's image of each category. Below it: the share of test images for which it is the best one."
    if count > _MAX_CATEGORIES:
        order = share.argsort(descending=True, stable=True)[:_MAX_CATEGORIES]
        note += f" Only the {_MAX_CATEGORIES} most used of {count:,} are shown."
    if unused.any():
        note += f" Marked as unused, the best one for fewer than one image in a thousand: {int(unused.sum())}."
    images = model.decode(usage.space.enumerate(dtype=usage.codes.dtype)[order])
    tiles = [
        make_tile(
            image[None], f"category {i}", str(i), format_percent(share[i].item()), mark="unused" if unused[i] else ""
        )
        for i, image in zip(order.tolist(), images, strict=True)
    ]
    return Tiles(note, [("", tiles)])


def _tile_bits(model: DiscreteVAE, usage: Usage) -> Tiles:
    count, what = len(usage.share), usage.record.variable
    limit = min(count, _MAX_BITS)
    codes = _choose_codes(usage.codes, 2 * limit)
    off, on = (_compute_mean_images(model, codes, range(limit), torch.tensor(value)) for value in (0.0, 1.0))
    change = colour_difference(off, on)
    rgb = (limit, *change.shape[1:])
    columns = torch.stack([off.expand(rgb), on.expand(rgb), change], 1)
    tiles = [
        make_tile(
            column,
            f"{what} {usage.names[bit]}: the mean image with it at 0, at 1, and the difference",
            usage.names[bit],
            format_percent(usage.share[bit].item()),
            mark="unused" if usage.is_unused[bit] else "",
        )
        for bit, column in enumerate(columns)
    ]
    note = (
        f"Each column is one {what}: {_describe_mean(usage, codes, f'this {what}', '0, then 1')}, then the difference "
        "(orange: brighter with 1; blue: darker with 1). Below it: the share of test images for which it is 1."
    )
    if limit < count:
        note += f" Only the first {limit} of {count} {what}s are shown."
    if usage.is_unused.any():
        note += f" Marked as unused, the same in all but one image in a thousand: {int(usage.is_unused.sum())}."
    rows: list[tuple[str, list[Tile]]] = [("", tiles)]
    if usage.space.offers("fields"):
        rows.append(("The most used codes: unchanged, then with one bit flipped", _tile_flips(model, usage, limit)))
    return Tiles(note, rows)


def _tile_flips(model: DiscreteVAE, usage: Usage, limit: int) -> list[Tile]:
    """Return a column of the most used codes' images, then one for each bit, with that bit flipped."""
    distinct, counts = usage.codes.unique(dim=0, return_counts=True)
    codes = distinct[counts.argsort(descending=True, stable=True)[:_MAX_FLIPPED]]
    tiles = [make_tile(model.decode(codes), f"the {len(codes)} most used codes", "unchanged")]
    for bit in range(limit):
        index = torch.full((len(codes),), bit)
        tiles.append(
            make_tile(model.decode(usage.space.change(codes, index)), f"the same with bit {bit} flipped", str(bit))
        )
    return tiles


def _tile_variables(model: DiscreteVAE, usage: Usage) -> Tiles:
    count, values = usage.share.shape
    what, value_of = usage.record.variable, usage.record.value
    limit = min(count, _MAX_VARIABLES)
    codes = _choose_codes(usage.codes, limit * min(values, _MAX_VALUES))
    one_hot = torch.eye(values, dtype=codes.dtype)
    rows = []
    for variable in range(limit):
        share, unused = usage.share[variable], usage.is_unused[variable]
        most_used = share.argsort(descending=True, stable=True)[:_MAX_VALUES]
        tiles = [
            make_tile(
                _compute_mean_images(model, codes, [variable], one_hot[value]),
                f"the mean image with {what} {variable} at {value_of} {value}",
                str(value),
                format_percent(share[value].item()),
                mark="unused" if unused[value] else "",
            )
            for value in sorted(most_used.tolist())
        ]
        rows.append((f"{what.capitalize()} {variable}: perplexity {usage.perplexity[variable]:.2f} of {values}", tiles))
    note = (
        f"{_describe_mean(usage, codes, f'one {what}', f'each of its {value_of}s').capitalize()}. Below it: the "
        f"{value_of}, and the share of test images for which it is the best one; marked if less than one in a thousand."
    )
    if limit < count:
        note += f" Only the first {limit} of {count} {what}s are shown."
    if values > _MAX_VALUES:
        note += f" Only the {_MAX_VALUES} most used of {values} {value_of}s are shown."
    return Tiles(note, rows)


def _describe_mean(usage: Usage, codes: Tensor, what: str, values: str) -> str:
    """Describe what a mean image is a mean over."""
    if is_unconstrained(usage.space):
        return f"the mean image over the codes of {len(codes):,} test images, with {what} set to {values}"
    return f"the mean image over those codes of {len(codes):,} test images that have {what} at {values}"


def _compute_mean_images(model: DiscreteVAE, codes: Tensor, variables: Iterable[int], value: Tensor) -> Tensor:
    """Return the mean images `[V, channels, H, W]` where each of some variables has a given value.

    Where any combination of values is valid, the mean is over all codes with that variable set; else over the codes
    that have the value, since setting one variable could give an invalid code. If no code has it, the mean is over all
    codes.
    """
    means = []
    images = None if is_unconstrained(model.space) else model.decode(codes)
    for variable in variables:
        if images is None:
            changed = codes.clone()
            changed[:, variable] = value
            means.append(model.decode(changed).mean(0))
        else:
            has_value = (codes[:, variable] == value).view(len(codes), -1).all(1)
            means.append(images[has_value if has_value.any() else slice(None)].mean(0))
    return torch.stack(means)


def _choose_codes(codes: Tensor, effects: int) -> Tensor:
    """Return a subset of the codes that is small enough to be decoded once for each effect."""
    return codes[spread_indices(len(codes), max(16, min(200, _MAX_DECODED // effects)))]
