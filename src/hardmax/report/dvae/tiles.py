"""Pictures of a dVAE on a page: what is drawn again from tokens, and what the codes look like."""

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import interpolate, unfold

from hardmax.report.dvae.run import DvaeRun
from hardmax.report.dvae.usage import Usage
from hardmax.report.tiles import Tiles, spread, tile

_RECONSTRUCTIONS, _LOOKED_AT = 10, 500  # pictures


def reconstructions(run: DvaeRun, usage: Usage) -> Tiles:
    """Return test pictures, from all over the test set, above what is drawn from their tokens, and the tokens."""
    index = spread(len(run.pictures), _RECONSTRUCTIONS)
    pictures, tokens = run.pictures[index], usage.tokens[index]
    drawn = run.model.detokenize(tokens)
    colours = interpolate(code_colours(run)[tokens].movedim(-1, 1), size=pictures.shape[2:], mode="nearest")
    triples = torch.stack([pictures.expand_as(colours), drawn.expand_as(colours), colours], 1)
    tiles = [
        tile(triple, f"test picture {i}, drawn again from its tokens, and the tokens as colours")
        for i, triple in zip(index, triples, strict=True)
    ]
    note = (
        "A test picture, what the decoder makes of its tokens, and the tokens: codes that are near each other have "
        "colours that are."
    )
    return Tiles(note, [("", tiles)])


def codes(run: DvaeRun, usage: Usage) -> Tiles:
    """Return one tile: what is seen in the mean around the places where each code is the best, the most used first."""
    some = usage.tokens[:_LOOKED_AT]
    patches, cell = _patches(run.pictures[:_LOOKED_AT], run.model.grid)
    sums = torch.zeros(run.model.space.k, patches.shape[-1])
    sums.index_add_(0, some.flatten(), patches.flatten(0, 1))
    counts = some.flatten().bincount(minlength=len(sums))
    channels = run.pictures.shape[1]
    pictures = (sums / counts.clamp_min(1)[:, None]).unflatten(1, (channels, 3 * cell, 3 * cell))[usage.order]
    note = (
        "The mean of what is seen around each code, from the most used to the least: the part of the picture that a "
        "token stands for, and one such part on each side of it. Black where the first 500 test pictures have none."
    )
    columns = math.ceil(math.sqrt(2 * len(pictures)))
    return Tiles(note, [("", [tile(pictures, f"{len(pictures)} codes, each as a mean patch", columns=columns)])])


def code_colours(run: DvaeRun) -> Float[Tensor, "K 3"]:
    """Return a colour for each code: its first three principal components, each spread evenly from 0 to 1."""
    vectors = run.model.codebook.vectors.detach().double()
    _, _, axes = torch.linalg.svd(vectors - vectors.mean(0), full_matrices=False)
    axes = axes[:3] * axes[:3].sum(1, keepdim=True).sign()  # or the sign would be up to the library
    ranks = ((vectors - vectors.mean(0)) @ axes.mT).argsort(0).argsort(0)
    colours = ranks.float() / max(len(vectors) - 1, 1)
    return torch.nn.functional.pad(colours, (0, 3 - colours.shape[1]))  # codes of fewer than three dimensions


def _patches(pictures: Tensor, grid: tuple[int, int]) -> tuple[Float[Tensor, "N n D"], int]:
    """Return what is around each place of the grid, three cells wide, and the pixels of a cell's side."""
    cell = max(-(-side // places) for side, places in zip(pictures.shape[2:], grid, strict=True))
    fitted = interpolate(pictures, size=[cell * places for places in grid], mode="nearest")
    return unfold(fitted, 3 * cell, padding=cell, stride=cell).mT, cell
