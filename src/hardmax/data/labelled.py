"""Drawing the few images whose labels a semi-supervised model is told."""

import random

import torch
from jaxtyping import Int64
from torch import Tensor

from hardmax.data.images import UNKNOWN
from hardmax.data.split import rank
from hardmax.errors import ArgumentError


def draw_labelled(labels: Int64[Tensor, "N *A"], count: int, seed: int = 0) -> Int64[Tensor, "count"]:
    """Draw images to be labelled, as many of every class, or of every combination of attributes that occurs.

    What is left over after equal shares goes to classes by chance; a class with too few images gives all it has, and
    the others give more. The same seed gives the same order whatever the count: the first 50 of 100 are the draw
    of 50.

    Args:
        labels: `[N]`, classes, or `[N, A]`, attributes, of the images to draw from: those to train with. Images with
            a -1 are not drawn.
        count: how many.
        seed: of the draw.

    Returns:
        `[count]`, indices into `labels`, in the order in which they were drawn.

    Raises:
        ArgumentError: fewer images than that are labelled, or so few are asked for that a class, or an attribute being
            on or off, is not among them.

    Example:
        >>> import torch
        >>> labels = torch.arange(1000) % 10
        >>> labels[draw_labelled(labels, 30, seed=1)].bincount()
        tensor([3, 3, 3, 3, 3, 3, 3, 3, 3, 3])
    """
    rows = labels.unsqueeze(1) if labels.ndim == 1 else labels
    known = (rows != UNKNOWN).all(1).nonzero().squeeze(1)
    if not len(known):
        raise ArgumentError(f"none of the {len(labels):,} images has a label that is known; {count:,} were asked for")
    if not 1 <= count <= len(known):
        said = f"{len(known):,} of the {len(labels):,} images have a label that is known"
        raise ArgumentError(f"count is {count:,}, expected 1 to {len(known):,}: {said}")
    # A stream of its own: the one of the plain seed has dealt the images to the parts.
    stream = random.Random(f"labelled/{seed}")
    strata = [tuple(row) for row in rows[known].tolist()]
    # Round by round, one of each stratum; within a round by chance.
    turns = [(place, stream.random()) for place in rank(strata, stream)]
    order = sorted(range(len(strata)), key=turns.__getitem__)
    drawn = known[torch.tensor(order[:count])]
    for column, (there, here) in enumerate(zip(rows[known].T, rows[drawn].T, strict=True)):
        if missing := sorted(set(there.tolist()) - set(here.tolist())):
            classes = f"{len(missing)} of the {len(there.unique())} classes"
            what = classes if labels.ndim == 1 else f"attribute {column} = {missing[0]}"
            raise ArgumentError(f"{count:,} labelled images leave out {what}; ask for more")
    return drawn
