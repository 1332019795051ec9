"""Samples of a completion model: test pictures with their holes, and completions of each."""

import torch

from hardmax.cli.by_model import refuse
from hardmax.cli.sample import Options, write_picture
from hardmax.models import CompletionModel
from hardmax.random import stream
from hardmax.report.sheet import sheet
from hardmax.report.tiles import spread
from hardmax.training.completion.pictures import holed
from hardmax.training.restore import restore

_ROWS, _COMPLETIONS = 8, 8


def sample(options: Options) -> None:
    """Write a sheet of completed test pictures.

    Raises:
        ArgumentError: something is asked for that only other models have.
    """
    refuse(options, "attributes", "vary")
    restored = restore(options.run, options.checkpoint, kind=CompletionModel)
    pictures = holed(restored.config, restored.images(), "test")
    some = pictures[torch.tensor(spread(len(pictures), options.count or _ROWS))]
    generator = stream(options.seed, "sample")
    found = restored.model.complete(some.x, some.hidden, count=_COMPLETIONS, generator=generator).pictures
    rows = torch.cat([torch.stack([some.x.where(~some.hidden, 0.5), some.x], 1), found.transpose(0, 1)], 1)
    heads = [["hole"], ["true"], *([str(i + 1)] for i in range(_COMPLETIONS))]
    drawn = sheet(rows, names=["completion"], heads=heads)
    write_picture(options, drawn, f"{len(some)} test pictures with {_COMPLETIONS} completions of each")
