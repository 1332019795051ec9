"""Pictures of a mixed VAE on a page: what it makes of test pictures, and what it draws."""

import torch

from hardmax.report.mixed.columns import columns_of
from hardmax.report.mixed.meaning import Meaning
from hardmax.report.mixed.predictions import Predictions
from hardmax.report.mixed.run import MixedRun
from hardmax.report.mixed.samples import draw_samples
from hardmax.report.tiles import Tiles, spread, tile

_RECONSTRUCTIONS, _ROWS = 12, 6
_MOST_NAMED = 3  # attributes beneath a picture


def reconstructions(run: MixedRun, meaning: Meaning, predictions: Predictions) -> Tiles:
    """Return test pictures, from all over the test set, above what the decoder makes of their latents."""
    index = spread(len(run.pictures), _RECONSTRUCTIONS)
    some = run.pictures[torch.tensor(index)]
    pairs = torch.stack([some.x, run.model.edit(some.shown, run.model.predict(some.shown))], 1)
    wrong = (predictions.counted & ~predictions.right).any(1) & bool(run.config.labels)
    tiles = [
        tile(
            pair,
            f"test picture {i} above its reconstruction",
            *_caption(meaning, predictions, i),
            mark="wrong" if wrong[i] else "",
        )
        for i, pair in zip(index, pairs, strict=True)
    ]
    latents = "best bits and the mean of the Gaussian" if meaning.attributes else "best category and its mean Gaussian"
    told = "; then its label" if predictions.counted.any() else ""
    note = (
        f"Above, a test picture; below, what the decoder makes of its {latents}. Beneath: what the encoder takes it "
        f"for{told}."
    )
    return Tiles(note, [("", tiles)])


def samples(run: MixedRun, meaning: Meaning, generator: torch.Generator) -> Tiles:
    """Return a tile for every class, or for every setting of attributes: the same continuous latents in each."""
    columns = columns_of(meaning)
    found = draw_samples(run.model, meaning, columns, _ROWS, generator)
    tiles = []
    for column, head in enumerate(columns.heads):
        words = [f"{meaning.names[variable]} {value}" for variable, value in zip(columns.variables, head, strict=True)]
        alt = f"{_ROWS} pictures drawn with {', '.join(words)}"
        tiles.append(tile(found.pictures[:, column], alt, *(words if meaning.attributes else head)))
    what = "setting of the attributes" if meaning.attributes else meaning.names[0]
    note = f"Drawn from the model: a column is a {what}, a row has one continuous latent, drawn from the prior."
    return Tiles(
        f"{note} {columns.note[:1].upper()}{columns.note[1:]}{'.' * bool(columns.note)}".strip(), [("", tiles)]
    )


def _caption(meaning: Meaning, predictions: Predictions, index: int) -> list[str]:
    """Say what a picture is taken for, and what it is."""
    found, labels = predictions.found[index].tolist(), predictions.labels[index].tolist()
    known = bool(predictions.counted[index].any())
    if not meaning.attributes:
        label = [f"label {meaning.value_name(labels[0])}"] if known else []
        return [meaning.value_name(found[0]), *label]
    if len(meaning.names) > _MOST_NAMED:
        counted, right = predictions.counted[index], predictions.right[index]
        return [f"{int(right.sum())} of {int(counted.sum())} right"] if known else []
    return [_on(meaning, found), *([f"label: {_on(meaning, labels)}"] if known else [])]


def _on(meaning: Meaning, values: list[int]) -> str:
    """Name the attributes that are on."""
    return ", ".join(name for name, value in zip(meaning.names, values, strict=True) if value == 1) or "none"
