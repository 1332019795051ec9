"""How the codes are used: by the average q, and by which code is the best of each picture."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from markupsafe import Markup
from matplotlib.axes import Axes
from torch import Tensor

from hardmax.metrics.codes import perplexity
from hardmax.report.discrete.kinds import WORDS, Words, free, mean_of, names_of, of_bits
from hardmax.report.discrete.run import DiscreteRun
from hardmax.report.figure import COLOURS, drawing
from hardmax.report.heat import heat_map
from hardmax.spaces import AbstractSpace
from hardmax.training.discrete.evaluate import RARE

_MOST_BARS = 100


@dataclass(frozen=True, eq=False)
class Usage:
    """What pictures make of the codes.

    Attributes:
        space: what a code may be.
        words: what its variables are called.
        names: one for each variable.
        scores: `[N, *score]`. What the encoder makes of each picture.
        edges: `[E, 2]`. Which bits interact; None where there are no couplings.
        exact: whether q can tell its mean; where it cannot, `average` is `share`.
        average: `[*event]`. The mean of z under q(z | x), averaged over pictures.
        share: `[*event]`. The part of the pictures that has this value in its best code.
        codes: `[N, *event]`. The best code of each picture.
        distinct: how many different ones these are.
        distinct_perplexity: the perplexity of how often each of them occurs.
    """

    space: AbstractSpace
    words: Words
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
        """The perplexity if all codes were used alike, geometric mean over variables."""
        means = self.expected(None)
        # A space that cannot tell its mean may still be one of free bits.
        means = torch.full_like(self.average, 0.5) if means is None else means
        return float(self._perplexity(means).log().mean().exp())

    @property
    def dead(self) -> Tensor:
        """`[*event]` for one-hot z: the best of almost no picture; `[n]` for bits: almost always the same."""
        return (torch.minimum(self.share, 1 - self.share) if of_bits(self.space) else self.share) < RARE

    def expected(self, prior: Tensor | None) -> Tensor | None:
        """Return the mean of z under the prior `[*event]`, None is uniform; None where it is not known."""
        scores = torch.zeros(self.space.score_shape) if prior is None else prior.detach().cpu()
        return mean_of(self.space, scores.double())

    def _perplexity(self, means: Tensor) -> Tensor:
        return perplexity(torch.stack([means, 1 - means], -1) if of_bits(self.space) else means)


@torch.no_grad()
def measure(run: DiscreteRun, batch_size: int = 500) -> Usage:
    """Encode the run's test pictures."""
    space = run.model.space
    scores = torch.cat([run.model.encoder(batch) for batch in run.pictures.split(batch_size)])
    codes = space.argmax(scores)
    # int8: sorting whole codes as bytes is quicker, and they hold zeros and ones alone
    _, counts = codes.flatten(1).to(torch.int8).unique(dim=0, return_counts=True)
    means = mean_of(space, scores)
    return Usage(
        space=space,
        words=WORDS[run.config.space],
        names=names_of(space, run.config),
        scores=scores,
        edges=torch.tensor(getattr(space, "edges", ())) if run.config.space == "pairwise" else None,
        exact=means is not None,
        average=(codes if means is None else means).double().mean(0),
        share=codes.double().mean(0),
        codes=codes,
        distinct=len(counts),
        distinct_perplexity=float(perplexity(counts / counts.sum())),
    )


def draw(usage: Usage, prior: Tensor | None, name: str) -> Markup:
    """Draw how much each category or variable is used.

    Args:
        usage: what was measured.
        prior: scores `[*score]` of a learned prior; None is uniform.
        name: of the figure, unlike any other on the page.
    """
    expected, words = usage.expected(prior), usage.words
    if usage.space.categories is not None and expected is not None:
        return _categories(usage.average.flatten(), usage.share.flatten(), expected.flatten(), name)
    if of_bits(usage.space):
        label = f"average q({words.variable} = 1)" if usage.exact else f"best code has {words.variable} = 1"
        return _bars(usage.average, name, words.variable, label, (0, 1), usage.names, expected)
    count, values = usage.average.shape
    if free(usage.space):
        label = f"perplexity of the average {'q' if usage.exact else 'best code'}"
        return _bars(usage.perplexity, name, words.variable, label, (1, values), usage.names)
    alt = f"How often each of {count} {words.variable}s has each {words.value}"
    scale = "average q" if usage.exact else "share of the best codes"
    return heat_map(name, alt, usage.average, rows=words.variable, columns=words.value, scale=scale)


def _categories(average: Tensor, share: Tensor, expected: Tensor, name: str) -> Markup:
    """Draw average q as bars, the share of best codes as dots, and the prior as a step line."""
    ranked = len(average) > _MOST_BARS
    if ranked:
        order = average.argsort(descending=True)[:_MOST_BARS]
        average, share, expected = average[order], share[order], expected[order]
    x = torch.arange(len(average))
    alt = f"Average q of {len(average)} categories: between {average.min():.1%} and {average.max():.1%}"
    with drawing(name, alt, height=240) as drawn:
        axes = drawn.axes
        axes.bar(x.tolist(), (100 * average).tolist(), color=COLOURS[0], width=0.8)
        axes.plot(x.tolist(), (100 * share).tolist(), "o", color=COLOURS[1], markersize=4 if len(x) <= 30 else 2.5)
        axes.step(
            [-0.5, *(x + 0.5).tolist()], (100 * expected[[0, *range(len(x))]]).tolist(), color=COLOURS[-1], lw=1.2
        )
        axes.set(xlabel="category, by use" if ranked else "category", ylabel="use (%)", xlim=(-0.6, len(x) - 0.4))
        _ticks(axes, len(x))
    return drawn.svg


def _bars(
    values: Tensor,
    name: str,
    what: str,
    label: str,
    limits: tuple[float, float],
    names: list[str],
    expected: Tensor | None = None,
) -> Markup:
    """Draw a bar for each variable, and what the prior expects as a step line."""
    count = len(values)
    alt = f"{label} of {count} {what}s: between {values.min():.2f} and {values.max():.2f}"
    with drawing(name, alt, height=240) as drawn:
        axes = drawn.axes
        axes.bar(range(count), (values - limits[0]).tolist(), bottom=limits[0], color=COLOURS[0], width=0.8)
        if expected is not None:
            steps = expected[[0, *range(count)]].tolist()
            axes.step([i - 0.5 for i in range(count + 1)], steps, color=COLOURS[-1], linewidth=1.2)
        axes.set(xlabel=what, ylabel=label, xlim=(-0.6, count - 0.4), ylim=limits)
        _ticks(axes, count, names)
    return drawn.svg


def _ticks(axes: Axes, count: int, names: list[str] | None = None) -> None:
    """Name the bars, as many of them as there is room for."""
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 10**9) if count <= 20 * step)
    shown = range(0, count, step)
    axes.set_xticks(shown, [names[i] if names else str(i) for i in shown])
    axes.tick_params(axis="x", length=0)
