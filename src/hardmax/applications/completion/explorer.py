"""The latent explorer of a completion model: a hole to paint, and several completions of it."""

from typing import final

import torch
from torch import Tensor

from hardmax.applications.completion.report import CompletionRun
from hardmax.applications.exploration import (
    AbstractExplorer,
    to_floats,
    write_prelude,
)
from hardmax.applications.explorer_controls import (
    BackdropView,
    BarsView,
    ImageControl,
    ImagesView,
    NumberControl,
    PaintControl,
    SliderControl,
    State,
    TextView,
    View,
)
from hardmax.drawing.images import encode_data_uri, make_grid
from hardmax.random import make_generator
from hardmax.report.sections import make_tile
from hardmax.report.tables import format_percent

_COMPLETIONS = 8
_LEAST_TEMPERATURE, _MOST_TEMPERATURE = 0.05, 1.5
_HOLE = "#d97b29"


@final
class CompletionExplorer(AbstractExplorer[CompletionRun]):
    """Paint a hole into an image, and see eight completions of it."""

    about = "Paint the hole, and see eight completions, each with the weight of its component."

    def __init__(self, run: CompletionRun) -> None:
        super().__init__(run, run.test_examples.x)
        height, width = run.test_examples.x.shape[-2:]
        self.controls = (
            ImageControl("image", "image to complete", len(run.test_examples)),
            PaintControl("hole", "hole", height, width, ("", _HOLE)),
            SliderControl(
                "temperature", "temperature", ("temperature",), _LEAST_TEMPERATURE, _MOST_TEMPERATURE, start=1.0
            ),
            NumberControl("seed", "seed"),
        )

    def update(self, state: State, changed: str, photo: Tensor | None, before: State) -> State:
        """Set the hole to that of the test image, if none is painted."""
        if changed != "image" or any(state["hole"]):
            return state
        hidden = self._run.test_examples.hidden[max(state["image"], 0), 0]
        return {**state, "hole": hidden.flatten().int().tolist()}

    @torch.no_grad()
    def draw(self, state: State, photo: Tensor | None) -> list[View]:
        """Return completions of the image with its hole, and the weights of the components."""
        x = self._choose_image(state, photo)
        hidden = torch.tensor(state["hole"], dtype=torch.bool).view(1, 1, *x.shape[-2:])
        backdrop = BackdropView("hole", encode_data_uri(make_grid(x, padding=0)))
        if not hidden.any():
            return [backdrop, TextView("No pixel is hidden: paint a hole, and see how the model completes it.")]
        if hidden.all():
            return [backdrop, TextView("Every pixel is hidden, so there is nothing to start from: erase some.")]
        completed = self._model.complete(
            x,
            hidden,
            count=_COMPLETIONS,
            temperature=state["temperature"][0],
            generator=make_generator(state["seed"], "sample"),
        )
        tiles = [
            make_tile(image, f"completion from component {number}", f"component {number}", format_percent(weight))
            for image, number, weight in zip(
                completed.images[:, 0, None],
                completed.component[:, 0].tolist(),
                completed.weight[:, 0].tolist(),
                strict=True,
            )
        ]
        weights = to_floats(self._model.encode_visible(x, hidden).mixture.log_weights.exp()[0])
        note = "Below each completion: the component that it was sampled from, and the weight of that component."
        views: list[View] = [backdrop, ImagesView("Completions", tiles, note, size=112)]
        if len(weights) > 1:
            names = [str(i) for i in range(len(weights))]
            used = sorted(set(completed.component[:, 0].tolist()))
            views.append(BarsView("Weight of each component", names, weights, "Marked: sampled above.", chosen=used))
        return views

    def write_python(self, state: State) -> str:
        """Return code that completes the image."""
        height, width = self._run.test_examples.x.shape[-2:]
        rows = ["".join(map(str, state["hole"][row * width : (row + 1) * width])) for row in range(height)]
        hole = "\n".join(f'    "{row}",' for row in rows)
        return (
            write_prelude(
                self._run, "from hardmax.drawing.images import make_grid", "from hardmax.random import make_generator"
            )
            + self._write_image_choice(state, "run.test_examples.x")
            + f"hole = [\n{hole}\n]\n"
            + 'hidden = torch.tensor([[pixel == "1" for pixel in row] for row in hole])[None, None]\n'
            + f'generator = make_generator({state["seed"]}, "sample")\n'
            + f"completed = model.complete(x, hidden, count={_COMPLETIONS}, temperature={state['temperature'][0]}, "
            + "generator=generator)\n"
            + "print(completed.component[:, 0], completed.weight[:, 0])\n"
            + 'make_grid(completed.images[:, 0]).save("completions.png")\n'
        )
