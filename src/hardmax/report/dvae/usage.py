"""How the codes of a dVAE are used by the test pictures."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from markupsafe import Markup
from torch import Tensor

from hardmax.metrics.codes import alive, perplexity
from hardmax.report.dvae.run import DvaeRun
from hardmax.report.figure import COLOURS, drawing


@dataclass(frozen=True, eq=False)
class Usage:
    """The tokens of pictures.

    Attributes:
        tokens: `[N, h, w]`.
        share: `[K]`, of all tokens.
    """

    tokens: Int64[Tensor, "N h w"]
    share: Float[Tensor, " K"]

    @property
    def order(self) -> Int64[Tensor, " K"]:
        """The codes, from the most used to the least."""
        return self.share.argsort(descending=True, stable=True)

    def told(self) -> str:
        """Say how evenly the codes are used."""
        return (
            f"Perplexity {float(perplexity(self.share)):.1f} of {len(self.share)} codes; {alive(self.share):.1%} are "
            f"alive, used at least a tenth as often as if all were used alike; {int((self.share == 0).sum())} are not "
            "used."
        )


def measure(run: DvaeRun, batch_size: int = 500) -> Usage:
    """Tokenize the run's test pictures."""
    tokens = torch.cat([run.model.tokenize(batch) for batch in run.pictures.split(batch_size)])
    counts = tokens.flatten().bincount(minlength=run.model.space.k).double()
    return Usage(tokens, counts / counts.sum())


def draw(usage: Usage, name: str) -> Markup:
    """Draw the share of each code, from the most used to the least, beside what it would be if all were alike."""
    share, even = 100 * usage.share[usage.order], 100 / len(usage.share)
    alt = f"Share of the tokens of each of {len(share)} codes: between {share.min():.2f} and {share.max():.2f} percent"
    with drawing(name, alt, height=240) as drawn:
        axes = drawn.axes
        axes.bar(range(len(share)), share.tolist(), color=COLOURS[0], width=1.0)
        axes.axhline(even, color=COLOURS[-1], linewidth=1.2)
        axes.set(xlabel="code, by use", ylabel="share of the tokens (%)", xlim=(-0.6, len(share) - 0.4))
    return drawn.svg
