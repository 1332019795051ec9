"""How far codes are apart: of one class, and of different ones."""

import numpy as np
from markupsafe import Markup
from torch import Tensor

from hardmax.data import Images
from hardmax.report.figure import COLOURS, drawing
from hardmax.search.codes import hamming
from hardmax.training.hashing.evaluate import packed

_MOST = 500  # queries


def draw_distances(name: str, images: Images, queries: Tensor, codes: Tensor) -> tuple[Markup, str]:
    """Draw what share of pairs has which distance; return the figure, and how to read it.

    Args:
        name: of the figure, unlike any other on the page.
        images: for their labels.
        queries: codes of test pictures.
        codes: those of training pictures.
    """
    some = queries[:_MOST]
    found, bits = hamming(packed(some), packed(codes)), queries.shape[1]
    groups = {"all": np.ones(found.shape, dtype=bool)}
    if images.labels is not None:
        same = images.labels["test"][: len(some), None].numpy() == images.labels["train"].numpy()
        groups = {"same class": same, "other class": ~same}
    means = {group: float(found[mask].mean()) for group, mask in groups.items() if mask.any()}
    told = "; ".join(f"{group}: {mean:.1f} bits in the mean" for group, mean in means.items())
    with drawing(name, f"Distances between codes. {told}") as drawn:
        for (group, mask), colour in zip(groups.items(), COLOURS, strict=False):
            counts = np.bincount(found[mask], minlength=bits + 1)
            drawn.axes.plot(np.arange(bits + 1), 100 * counts / max(counts.sum(), 1), color=colour, label=group)
        drawn.axes.set(xlabel="bits that differ", ylabel="pairs (%)")
        drawn.axes.set_ylim(bottom=0)
        drawn.axes.legend()
    return drawn.svg, f"Between {len(some):,} test pictures and all training pictures. {told[:1].upper()}{told[1:]}."
