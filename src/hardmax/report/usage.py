"""How the codes are used: by the average q, and by which code is the best of each picture."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from markupsafe import Markup
from matplotlib.axes import Axes
from torch import Tensor

from hardmax.report.figure import COLOURS, drawing
from hardmax.report.run import Run
from hardmax.spaces import AbstractSpace, Binary
from hardmax.training.evaluate import RARE

_MOST_BARS = 100


@dataclass(frozen=True, eq=False)
class Usage:
    """What pictures make of the codes.

    Attributes:
        space: what a code may be.
        average: `[*event]`. The marginals of q(z | x), averaged over pictures.
        share: `[*event]`. The part of the pictures that has this value in its best code.
        codes: `[N, *event]`. The best code of each picture.
        distinct: how many different ones these are.
        distinct_perplexity: the perplexity of how often each of them occurs.
    """

    space: AbstractSpace
    average: Float[Tensor, "*event"]
    share: Float[Tensor, "*event"]
    codes: Float[Tensor, "N *event"]
    distinct: int
    distinct_perplexity: float

    @property
    def perplexity(self) -> Float[Tensor, "*n"]:
        """Of the average q: `[]` for one categorical, else `[n]`, of each variable."""
        bits = isinstance(self.space, Binary)
        return _perplexity(torch.stack([self.average, 1 - self.average], -1) if bits else self.average)

    @property
    def dead(self) -> Tensor:
        """`[*event]` for categories: the best of almost no picture; `[n]` for bits: almost always the same."""
        return (torch.minimum(self.share, 1 - self.share) if isinstance(self.space, Binary) else self.share) < RARE


@torch.no_grad()
def measure(run: Run, batch_size: int = 500) -> Usage:
    """Encode the run's test pictures."""
    space = run.model.space
    scores = torch.cat([run.model.encoder(batch) for batch in run.pictures.split(batch_size)])
    codes = space.argmax(scores)
    # int8: sorting whole codes as bytes is quicker, and they hold zeros and ones alone
    _, counts = codes.flatten(1).to(torch.int8).unique(dim=0, return_counts=True)
    return Usage(
        space=space,
        average=space.marginals(scores).double().mean(0),
        share=codes.double().mean(0),
        codes=codes,
        distinct=len(counts),
        distinct_perplexity=float(_perplexity(counts / counts.sum())),
    )


def draw(usage: Usage, prior: Tensor | None, name: str) -> Markup:
    """Draw how much each category, bit or variable is used.

    Args:
        usage: what was measured.
        prior: scores `[*event]` of a learned prior; None is uniform.
        name: of the figure, unlike any other on the page.
    """
    if usage.space.categories is not None:
        scores = torch.zeros_like(usage.average) if prior is None else prior.detach().double().cpu()
        expected = usage.space.marginals(scores).flatten()
        return _categories(usage.average.flatten(), usage.share.flatten(), expected, name)
    if isinstance(usage.space, Binary):
        return _bars(usage.average, name, "bit", "average q(bit = 1)", (0, 1), 0.5)
    values = usage.average.shape[-1]
    return _bars(usage.perplexity, name, "variable", "perplexity of the average q", (1, values), None)


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
    values: Tensor, name: str, what: str, label: str, limits: tuple[float, float], middle: float | None
) -> Markup:
    count = len(values)
    alt = f"{label} of {count} {what}s: between {values.min():.2f} and {values.max():.2f}"
    with drawing(name, alt, height=240) as drawn:
        axes = drawn.axes
        axes.bar(range(count), (values - limits[0]).tolist(), bottom=limits[0], color=COLOURS[0], width=0.8)
        if middle is not None:
            axes.axhline(middle, color=COLOURS[-1], linewidth=1.2)
        axes.set(xlabel=what, ylabel=label, xlim=(-0.6, count - 0.4), ylim=limits)
        _ticks(axes, count)
    return drawn.svg


def _ticks(axes: Axes, count: int) -> None:
    """Number the bars, as many of them as there is room for."""
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 10**9) if count <= 20 * step)
    axes.set_xticks(range(0, count, step))
    axes.tick_params(axis="x", length=0)


def _perplexity(probabilities: Tensor) -> Tensor:
    return torch.special.entr(probabilities).sum(-1).exp()
