"""What the decoder makes of codes: those of test pictures, and those drawn from the prior."""

import torch

from hardmax.report.discrete.run import DiscreteRun
from hardmax.report.discrete.usage import Usage
from hardmax.report.tiles import Tiles, spread, tile

_RECONSTRUCTIONS, _SAMPLES = 12, 64


def reconstructions(run: DiscreteRun, usage: Usage) -> Tiles:
    """Return test pictures, from all over the test set, above the decodings of their best codes."""
    index = spread(len(run.pictures), _RECONSTRUCTIONS)
    pairs = torch.stack([run.pictures[index], run.model.decode(usage.codes[index])], 1)
    tiles = [tile(pair, f"test picture {i} above its reconstruction") for i, pair in zip(index, pairs, strict=True)]
    return Tiles("Above, a test picture; below, what the decoder makes of its best code.", [("", tiles)])


def samples(run: DiscreteRun, generator: torch.Generator) -> Tiles:
    """Return one tile: the mean pictures of codes drawn from the prior."""
    pictures = run.model.sample(_SAMPLES, generator=generator)[0]
    prior = "uniform" if run.model.prior is None else "learned"
    note = f"Codes drawn from the {prior} prior; each picture is the mean of p(x | z)."
    return Tiles(note, [("", [tile(pictures, f"{_SAMPLES} pictures drawn from the model", columns=8)])])
