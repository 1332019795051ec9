"""What a completion model makes of test pictures, and what its completions are worth."""

from functools import lru_cache

import torch
from torch import nn

from hardmax.data import load
from hardmax.experiments.exhibits.exhibit import Exhibit
from hardmax.models import CompletionModel
from hardmax.random import stream
from hardmax.report.pictures import data_uri, grid
from hardmax.report.tiles import spread
from hardmax.training.completion.config import CompletionConfig
from hardmax.training.completion.evaluate import evaluate
from hardmax.training.completion.pictures import holed
from hardmax.training.completion.quality import measure_completions, train_judge_of
from hardmax.training.restore import restore

_SEEN_BY_A_JUDGE = ("data", "data_dir", "size", "limit", "binarize", "seed")


def look_at_completions(
    config: CompletionConfig,
    *,
    rows: int,
    shown: int,
    images: int,
    samples: int,
    completions: int,
    judge_epochs: int,
    judge_images: int,
) -> Exhibit:
    """Complete test pictures, and measure: likelihoods, how near, how different, how real.

    Args:
        config: of the run, whose best model by validation is looked at.
        rows: of the grid: test pictures from all over the set, each with its hole, whole, and completed.
        shown: completions in a row.
        images: most test pictures that are measured.
        samples: of the latent, for importance weights.
        completions: of each picture, for the rest.
        judge_epochs: that the classifier is trained for which judges completions.
        judge_images: most training pictures that it learns from.
    """
    restored = restore(config.out, "best", kind=CompletionModel)
    data = restored.images(config.data_dir)
    pictures = holed(config, data, "test")
    some = pictures[torch.tensor(spread(len(pictures), rows))]
    generator = stream(config.seed, "gallery")
    found = restored.model.complete(some.x, some.hidden, count=shown, generator=generator).pictures
    holes = some.x.where(~some.hidden, 0.5)
    lines = torch.cat([torch.stack([holes, some.x], 1), found.transpose(0, 1)], 1)
    measured = pictures[:images]
    seen = CompletionConfig(**{name: getattr(config, name) for name in _SEEN_BY_A_JUDGE})
    judge = _judge_of(seen, judge_epochs, judge_images)
    bounds = evaluate(restored.model, measured, samples=samples, seed=config.seed)
    numbers = {
        "negative_elbo": -bounds["elbo"],
        "nll": bounds["nll"],
        "components": bounds["components"],
        **measure_completions(restored.model, measured, count=completions, seed=config.seed, judge=judge),
    }
    heads = ["hole", "true", *map(str, range(1, shown + 1))]
    return Exhibit(data_uri(grid(lines.flatten(0, 1), columns=len(heads), padding=1)), heads, rows, [numbers])


@lru_cache(maxsize=2)  # it takes as long as epochs of the run do, and all runs on the same pictures have the same one
def _judge_of(seen: CompletionConfig, epochs: int, most: int) -> nn.Module | None:
    images = load(seen.data, data_dir=seen.data_dir, size=seen.size, limit=seen.limit, seed=seen.seed)
    return train_judge_of(seen, images, epochs=epochs, most=most)
