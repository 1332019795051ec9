"""The latent explorer of a hash encoder: the code of an image, and the images with the nearest codes."""

from typing import final

import torch
from torch import Tensor

from hardmax.applications.exploration import (
    AbstractExplorer,
    format_tensor,
    to_floats,
    write_prelude,
)
from hardmax.applications.explorer_controls import (
    BarsView,
    ChoiceControl,
    ImageControl,
    ImagesView,
    State,
    View,
)
from hardmax.applications.hashing.report import HashingRun
from hardmax.applications.hashing.search import find_nearest
from hardmax.applications.hashing.task import encode_bits, pack_codes
from hardmax.report.sections import make_tile
from hardmax.training.task import prepare_split

_NEAREST = 12


@final
class HashingExplorer(AbstractExplorer[HashingRun]):
    """Search for the images whose codes are nearest to that of an image, and flip its bits."""

    about = "Choose or drop an image to see those with the nearest codes; then flip a bit of its code."

    def __init__(self, run: HashingRun) -> None:
        super().__init__(run, run.test_examples)
        self._codes = pack_codes(encode_bits(run.model, prepare_split(run.config, run.images, "train")))
        self._classes = tuple(run.facts.get("data", {}).get("classes", ()))
        bits = tuple(map(str, range(run.model.space.n)))
        self.controls = (
            ImageControl("image", "image to search for", len(run.test_examples)),
            ChoiceControl("code", "bits", bits, ("0", "1")),
        )

    def update(self, state: State, changed: str, photo: Tensor | None, before: State) -> State:
        """Set the code to that of the image, if this has changed."""
        if changed != "image":
            return state
        x = self._choose_image(state, photo)
        return {**state, "code": self._model.codes(x)[0].int().tolist()}

    @torch.no_grad()
    def draw(self, state: State, photo: Tensor | None) -> list[View]:
        """Return the image, the training images with the nearest codes, and the probability of each bit."""
        x = self._choose_image(state, photo)
        code = torch.tensor([state["code"]], dtype=torch.float32)
        positions, distances = find_nearest(pack_codes(code)[0], self._codes, _NEAREST)
        labels = None if self._run.images.labels is None else self._run.images.labels["train"]
        tiles = [make_tile(x, "the image to search for", "query")]
        for position, distance in zip(positions.tolist(), distances.tolist(), strict=True):
            label = -1 if labels is None else int(labels[position])
            name = self._classes[label] if label < len(self._classes) else f"class {label}"
            captions = [f"{distance} bit{'s' * (distance != 1)}", *([name] if label >= 0 else [])]
            image = self._run.images.train[position, None].float() / 255
            tiles.append(make_tile(image, f"training image {position}", *captions))
        note = (
            f"The query, and the nearest of {len(self._codes):,} training images: below each, the number of bits in "
            "which its code differs."
        )
        probabilities = to_floats(self._model.space.marginals(self._model.scores(x))[0])
        chosen = [i for i, value in enumerate(state["code"]) if value]
        return [
            ImagesView("Nearest images", tiles, note, chosen=0),
            BarsView(
                "q(bit = 1 | image)",
                [str(i) for i in range(len(probabilities))],
                probabilities,
                "Click a bar to flip the bit of the code that is searched for.",
                "code",
                chosen,
            ),
        ]

    def write_python(self, state: State) -> str:
        """Return code that searches for the chosen code."""
        return (
            write_prelude(
                self._run,
                "from hardmax.applications.hashing.search import find_nearest",
                "from hardmax.applications.hashing.task import encode_bits, pack_codes",
                "from hardmax.training.task import prepare_split",
            )
            + self._write_image_choice(state)
            + "print(model.codes(x))  # the code of the image\n"
            + f"code = {format_tensor(state['code'])}[None]\n"
            + 'train = prepare_split(run.config, run.images, "train")\n'
            + "codes = pack_codes(encode_bits(model, train))\n"
            + f"positions, distances = find_nearest(pack_codes(code)[0], codes, {_NEAREST})\n"
            + "print(positions, distances)\n"
        )
