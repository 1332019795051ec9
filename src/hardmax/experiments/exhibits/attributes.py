"""What each setting of attributes draws, and what a judge that was trained on real pictures says to it."""

from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.experiments.exhibits.categories import draw_settings
from hardmax.experiments.exhibits.exhibit import Exhibit
from hardmax.metrics.components import Components
from hardmax.metrics.recogniser import recognise, shares_right, train_recogniser
from hardmax.models import MixedVAE
from hardmax.random import stream
from hardmax.report.pictures import data_uri, grid
from hardmax.spaces import Binary
from hardmax.training.mixed.config import MixedConfig
from hardmax.training.mixed.pictures import seen
from hardmax.training.restore import restore


def look_at_attributes(config: MixedConfig, *, rows: int, samples: int, judge_epochs: int) -> Exhibit:
    """Draw every setting with the same Gaussians; count how often a judge sees what was set, and what else changes.

    Numbers have a line for each attribute, one for all of them at once, and one for two samples that share nothing,
    which the flip of an attribute is compared with.

    Args:
        config: of the run, whose latest model is looked at.
        rows: of the grid, each with Gaussians of its own.
        samples: Gaussians that the numbers are of, each with every setting.
        judge_epochs: that the judge is trained for.

    Raises:
        ArgumentError: the model has no attributes.
    """
    restored = restore(config.out, "latest", kind=MixedVAE)
    images, space = restored.images(config.data_dir), restored.model.space
    if not isinstance(space, Binary):
        raise ArgumentError(f"a picture for each setting needs attributes, got {space}")
    (train, taught), (validation, known), (test, wanted) = (
        (pictures.x, torch.empty(0) if pictures.labels is None else pictures.labels)
        for pictures in (seen(config, images, split) for split in ("train", "validation", "test"))
    )
    judge = train_recogniser(train, taught, (validation, known), epochs=judge_epochs, seed=config.seed)
    settings = torch.tensor(list(product((0, 1), repeat=space.n)))
    pictures = draw_settings(restored.model, settings.float(), max(samples, rows), seed=config.seed)
    drawn = Drawn(pictures, recognise(judge, pictures.flatten(0, 1)).view(*pictures.shape[:2], space.n), settings)
    names = [name.replace("_", " ") for name in images.attribute_names]
    heads = [", ".join(name for name, bit in zip(names, row, strict=True) if bit) or "none" for row in settings]
    return Exhibit(
        data_uri(grid(pictures[:rows].flatten(0, 1), columns=len(heads), padding=1)),
        heads,
        rows,
        numbers_of(names, drawn, (recognise(judge, test), wanted), Components.of(train), seed=config.seed),
    )


@dataclass(frozen=True, eq=False)
class Drawn:
    """Generated pictures, and what a judge sees in them.

    Attributes:
        pictures: `[N, K, *shape]`, of N Gaussians and K settings.
        judged: `[N, K, A]`, the attributes that are seen.
        settings: `[K, A]`, those that were set, from all off to all on as one counts.
    """

    pictures: Tensor
    judged: Tensor
    settings: Tensor


def numbers_of(
    names: list[str], drawn: Drawn, test: tuple[Tensor, Tensor], components: Components, *, seed: int
) -> list[dict[str, Any]]:
    """Return a line for each attribute, one for all at once, and one for two samples.

    - `real`: how often the judge is right on real test pictures.
    - `recognised`: how often it sees in a generated one what was set.
    - `others`: how often another attribute looks changed when this one is flipped.
    - `pixels` and `features`: how much the picture then changes, by pixels and by principal components.

    Args:
        names: of the attributes.
        drawn: generated pictures.
        test: `[M, A]`, what the judge sees in real pictures, and what they have.
        components: of real pictures.
        seed: of the settings that two samples have.
    """
    (found, wanted), judged, settings = test, drawn.judged, drawn.settings
    right, seen_right = shares_right(found, wanted), judged == settings
    pictures, bits = drawn.pictures, drawn.judged
    lines: list[dict[str, Any]] = []
    for place, name in enumerate(names):
        off, on = ((settings[:, place] == bit).nonzero().squeeze(1) for bit in (0, 1))  # the others in the same order
        rest = [other for other in range(len(names)) if other != place]
        unlike = (bits[:, off] != bits[:, on])[..., rest].double()
        lines.append({
            "of": name,
            "real": float(right[place]),
            "recognised": float(seen_right[..., place].double().mean()),
            "others": float(unlike.mean()) if rest else None,
            **_apart(pictures[:, off].flatten(0, 1), pictures[:, on].flatten(0, 1), components),
        })  # fmt: skip
    known = (wanted >= 0).all(1)
    everything = {
        "of": "all at once",
        "real": float((found == wanted)[known].all(1).double().mean()),
        "recognised": float(seen_right.all(-1).double().mean()),
    }
    index = torch.arange(len(pictures))
    chosen = torch.randint(len(settings), (len(index),), generator=stream(seed, "settings"))
    alone, said = pictures[index, chosen], bits[index, chosen]
    two = {
        "of": "two samples",
        "others": float((said != said.roll(1, 0)).double().mean()),
        **_apart(alone, alone.roll(1, 0), components),
    }
    return [*lines, everything, two]


def _apart(first: Tensor, second: Tensor, components: Components) -> dict[str, float]:
    """Return how much pictures differ, pair by pair."""
    return {
        "pixels": float((first - second).abs().mean()),
        "features": float(components.distance(first, second).mean()),
    }
