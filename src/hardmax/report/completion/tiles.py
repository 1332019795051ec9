"""Pictures of a completion model on a page: completions of test pictures, and what each component draws."""

import torch
from torch import Tensor

from hardmax.report.completion.run import CompletionRun
from hardmax.report.numbers import percent
from hardmax.report.tiles import Tile, Tiles, spread, tile
from hardmax.training.completion.pictures import Holed

_PICTURES, _COMPLETIONS, _MOST_COMPONENTS = 8, 8, 12


def completions(run: CompletionRun, generator: torch.Generator) -> Tiles:
    """Return rows of a test picture with its hole, itself, and completions of it."""
    index = spread(len(run.pictures), _PICTURES)
    some = run.pictures[torch.tensor(index)]
    found = run.model.complete(some.x, some.hidden, count=_COMPLETIONS, generator=generator)
    rows = []
    for row in range(len(index)):
        numbers, weights = found.component[:, row].tolist(), found.weight[:, row].tolist()
        drawn = [
            _tile(picture, f"completion of test picture {index[row]}", _component(run, number), percent(weight))
            for picture, number, weight in zip(found.pictures[:, row], numbers, weights, strict=True)
        ]
        rows.append(("", [*_before(some, row, index[row]), *drawn]))
    return Tiles(
        "A test picture with its hole, the picture itself, and completions. Beneath a completion: the component that "
        "it was drawn from, and the weight of that component.",
        rows,
    )


def components(run: CompletionRun, generator: torch.Generator) -> Tiles | None:
    """Return rows of a test picture and one completion from each component; None where there is but one."""
    if run.config.components < 2:
        return None
    index = spread(len(run.pictures), _PICTURES // 2)
    some = run.pictures[torch.tensor(index)]
    numbers = range(min(run.config.components, _MOST_COMPONENTS))
    found = [run.model.complete(some.x, some.hidden, count=1, component=j, generator=generator) for j in numbers]
    rows = []
    for row in range(len(index)):
        drawn = [
            _tile(one.pictures[0, row], f"component {j}", _component(run, j), percent(float(one.weight[0, row])))
            for j, one in zip(numbers, found, strict=True)
        ]
        rows.append(("", [*_before(some, row, index[row]), *drawn]))
    return Tiles("One completion from each component, with its weight for this picture.", rows)


def _before(some: Holed, row: int, index: int) -> list[Tile]:
    """Return the picture with its hole, and without."""
    holed = some.x[row].where(~some.hidden[row], 0.5)
    return [
        _tile(holed, f"test picture {index} with its hole", "hole"),
        _tile(some.x[row], f"test picture {index}", "truth"),
    ]


def _tile(picture: Tensor, alt: str, *caption: str) -> Tile:
    return tile(picture[None], alt, *caption)


def _component(run: CompletionRun, number: int) -> str:
    return f"{number} " if run.config.components else ""
