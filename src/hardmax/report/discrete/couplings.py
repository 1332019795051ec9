"""How bits that interact in pairs pull at each other."""

from dataclasses import dataclass

import torch
from markupsafe import Markup
from torch import Tensor

from hardmax.report.discrete.usage import Usage
from hardmax.report.heat import heat_map

_MOST_BITS = 60


@dataclass(frozen=True)
class Couplings:
    """A figure, and what it shows."""

    svg: Markup
    note: str


def couplings(usage: Usage, name: str) -> Couplings | None:
    """Draw the mean couplings over the test pictures, `[n, n]`; None where z has no couplings.

    Args:
        usage: what was measured.
        name: of the figure, unlike any other on the page.
    """
    if usage.edges is None or not len(usage.edges):
        return None
    n = usage.space.event_shape[0]
    own = usage.scores[:, n:].double()
    means, spread = own.mean(0), own.std(0, correction=0)
    strongest = int(means.abs().argmax())
    i, j = usage.edges[strongest].tolist()
    note = (
        "The mean coupling of each pair of bits over the test pictures: orange pulls both towards 1 together, blue "
        "keeps them from it, grey is no pair. The strongest is that of bits "
        f"{i} and {j}, {means[strongest]:+.2f}; from picture to picture a coupling changes by {spread.mean():.2f} "
        "(standard deviation, mean over pairs)."
    ).replace("-", "−")
    shown = min(n, _MOST_BITS)
    if shown < n:
        note += f" Shown are the first {shown} of {n} bits."
    matrix = _symmetric(means, usage.edges, n)[:shown, :shown]
    alt = f"Mean couplings of {shown} bits: between {means.min():.2f} and {means.max():.2f}"
    svg = heat_map(name, alt, matrix, rows="bit", columns="bit", scale="mean coupling", signed=True)
    return Couplings(svg, note)


def _symmetric(values: Tensor, edges: Tensor, n: int) -> Tensor:
    """Lay out a value per edge as a matrix; bits that do not interact leave NaN."""
    matrix = torch.full((n, n), float("nan"), dtype=values.dtype)
    i, j = edges.unbind(1)
    matrix[i, j] = values
    matrix[j, i] = values
    return matrix
