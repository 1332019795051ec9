"""The latent explorer of a dVAE: tokens to paint on the grid of an image, and the codebook with its usage."""

from typing import final

import torch
from torch import Tensor

from hardmax.applications.exploration import (
    AbstractExplorer,
    show_decoded,
    write_prelude,
)
from hardmax.applications.explorer_controls import (
    BackdropView,
    ChoiceControl,
    ImageControl,
    ImagesView,
    PaintControl,
    State,
    TextView,
    View,
)
from hardmax.applications.tokens.report import DvaeRun, average_patches, colour_codes, measure_usage
from hardmax.drawing.images import encode_data_uri, make_grid
from hardmax.report.sections import Tile, make_tile
from hardmax.report.tables import format_percent

_MAX_CODES = 128  # codes of the codebook that are shown


def format_colour(colour: Tensor) -> str:
    """Return a colour `[3]` of values from 0 to 1 as "#rrggbb"."""
    return "#" + "".join(f"{round(255 * value):02x}" for value in colour.tolist())


@final
class DvaeExplorer(AbstractExplorer[DvaeRun]):
    """Paint tokens on the grid of an image, and see the image that they stand for."""

    about = "Choose a code of the codebook, paint it on the grid of tokens, and see the image change."

    def __init__(self, run: DvaeRun) -> None:
        super().__init__(run, run.test_examples)
        self._usage = measure_usage(run)
        height, width = run.model.grid
        codes = run.model.space.k
        colours = [format_colour(colour) for colour in colour_codes(run)]
        self._shown = self._usage.ranking[:_MAX_CODES].tolist()
        self._codebook = self._tile_codes()
        self.controls = (
            ImageControl("image", "image to encode", len(run.test_examples)),
            PaintControl("tokens", "tokens", height, width, tuple(colours), brush="brush"),
            ChoiceControl("brush", "code to paint", ("code",), tuple(map(str, range(codes)))),
        )

    def _tile_codes(self) -> list[Tile]:
        """Return the most used codes, each as the mean image patch around its tokens, with its share of all tokens."""
        patches, share = average_patches(self._run, self._usage), self._usage.share.tolist()
        return [
            make_tile(
                patches[code, None],
                f"code {code}",
                str(code),
                format_percent(share[code]),
                mark="" if share[code] else "dead",
            )
            for code in self._shown
        ]

    def update(self, state: State, changed: str, photo: Tensor | None, before: State) -> State:
        """Set the tokens to those of the image, if this has changed."""
        if changed != "image":
            return state
        x = self._choose_image(state, photo)
        return {**state, "tokens": self._model.tokenize(x).flatten().tolist()}

    @torch.no_grad()
    def draw(self, state: State, photo: Tensor | None) -> list[View]:
        """Return the image of the tokens, and the codebook with its usage."""
        x = self._choose_image(state, photo)
        tokens = torch.tensor(state["tokens"]).view(1, *self._model.grid)
        own = self._model.tokenize(x)
        decoded = self._model.detokenize(torch.cat([own, tokens]))
        changed = int((own != tokens).sum())
        brush = state["brush"][0]
        note = (
            "For each code, the mean image patch around its tokens, and its share of the tokens of the test images, "
            "the most used first. Click one to paint with it."
        )
        if len(self._shown) < self._model.space.k:
            note += f" The {len(self._shown)} most used of {self._model.space.k:,} are shown."
        return [
            BackdropView("tokens", encode_data_uri(make_grid(decoded[1:], padding=0))),
            show_decoded(
                x, decoded[:1], decoded[1:], "tokens", f"{changed} of {tokens.numel()} tokens differ from its own."
            ),
            TextView(self._usage.describe()),
            ImagesView("Codebook", self._codebook, note, "brush", brush, size=40, numbers=self._shown),
        ]

    def write_python(self, state: State) -> str:
        """Return code that tokenizes the image, and decodes the painted tokens."""
        tokens = torch.tensor(state["tokens"]).view(self._model.grid).tolist()
        rows = ",\n    ".join(map(str, tokens))
        return (
            write_prelude(self._run, "from hardmax.drawing.images import make_grid")
            + self._write_image_choice(state)
            + "print(model.tokenize(x))  # the tokens of the image\n"
            + f"tokens = torch.tensor([\n    {rows},\n])\n"
            + "image = model.detokenize(tokens[None])\n"
            + 'make_grid(image).save("decoded.png")\n'
        )
