"""The latent explorer of a mixed VAE: its class or attributes, and its continuous latent."""

from pathlib import Path
from typing import final

import torch
from torch import Tensor

from hardmax.applications.exploration import (
    AbstractExplorer,
    choose_image,
    format_tensor,
    show_decoded,
    to_floats,
    write_prelude,
)
from hardmax.applications.explorer_controls import (
    BarsView,
    ChoiceControl,
    ImageControl,
    ImagesView,
    SliderControl,
    State,
    View,
)
from hardmax.applications.mixed_vae.model import MixedVAE
from hardmax.applications.mixed_vae.report import MixedRun
from hardmax.applications.mixed_vae.report_labels import read_latent_names
from hardmax.report.sections import make_tile

_MAX_COLUMNS = 40  # classes or attributes whose image is decoded
_LIMIT = 3.0  # of a slider, in standard deviations of the prior


def spread_style(model: MixedVAE, style: Tensor) -> Tensor:
    """Return the Gaussians of a style: `[draws, c] -> [1, rows, c]`; rows that are never used together are equal."""
    return style[model.join.draw_of_row.to(style.device)][None]


def read_style(model: MixedVAE, z_d: Tensor, mean: Tensor) -> Tensor:
    """Return the style of an image: the means of the Gaussians that z_d uses, `[event]` and `[rows, c] -> [draws, c]`.

    `spread_style` of the result decodes to the same image, with this z_d.
    """
    index = model.join.draw_of_row
    style = mean.new_zeros(int(index.max()) + 1, mean.shape[-1])
    used = torch.ones(len(index)) if model.join.rows == 1 else model.join.weights(z_d[None])[0]
    return style.index_add(0, index, used[:, None] * mean)


@final
class MixedExplorer(AbstractExplorer[MixedRun]):
    """Turn the class or the attributes of an image, and its continuous latent."""

    about = "Choose a test image to see its latents; then change a class, an attribute or a slider."

    def __init__(self, run: MixedRun) -> None:
        super().__init__(run, run.test_examples.x)
        latent = self._latent = read_latent_names(run.config, run.model.space, run.facts)
        draws = int(run.model.join.draw_of_row.max()) + 1
        dimensions = range(run.model.join.c)
        sliders = [
            f"{latent.names[draw]} {i + 1}" if draws > 1 else str(i + 1) for draw in range(draws) for i in dimensions
        ]
        values = tuple(map(latent.get_value_name, range(latent.value_count)))
        self.controls = (
            ImageControl("image", "image to encode", len(run.test_examples)),
            ChoiceControl("code", "attributes" if latent.has_attributes else latent.names[0], latent.names, values),
            SliderControl("style", "continuous latent", tuple(sliders), -_LIMIT, _LIMIT),
        )

    def read_photo(self, path: Path) -> tuple[Tensor, Tensor]:
        """Return a photo as a target of the decoder, and as an input of the encoder."""
        return self._fit_photo(path, self._run.config.binarize), self._fit_photo(path, self._input_binarization)

    @property
    def _input_binarization(self) -> str:
        """How the pixels of the encoder's input are rounded."""
        config = self._run.config
        return "none" if config.encoder_input == "grey" else config.binarize

    def _choose(self, state: State, photo: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor]:
        """Return the chosen image as a target of the decoder, and as an input of the encoder, `[1, *shape]` each."""
        examples, value = self._run.test_examples, state["image"]
        x, encoder_input = (None, None) if photo is None else photo
        return choose_image(examples.x, value, x), choose_image(examples.encoder_input, value, encoder_input)

    @torch.no_grad()
    def update(self, state: State, changed: str, photo: tuple[Tensor, Tensor] | None, before: State) -> State:
        """Set both latents to those of the image, if this has changed."""
        if changed != "image":
            return state
        _, encoder_input = self._choose(state, photo)
        encoded = self._model.encode(encoder_input)
        z_d = self._model.space.argmax(encoded.scores)
        style = read_style(self._model, z_d[0], encoded.mean[0]).clamp(-_LIMIT, _LIMIT)
        code = self._latent.get_values(z_d)[0].tolist()
        return {**state, "code": code, "style": [round(value, 3) for value in to_floats(style)]}

    def _make_latents(self, state: State) -> tuple[Tensor, Tensor]:
        """Return z_d `[1, *event]` and the Gaussians `[1, rows, c]` of a state."""
        z_d = torch.zeros(1, *self._model.space.event_shape)
        z_d = self._latent.apply_setting(z_d, dict(enumerate(state["code"])))
        return z_d, spread_style(self._model, torch.tensor(state["style"]).view(-1, self._model.join.c))

    @torch.no_grad()
    def draw(self, state: State, photo: tuple[Tensor, Tensor] | None) -> list[View]:
        """Return the decoded image, the encoder's distribution, and the same style with every other value."""
        x, encoder_input = self._choose(state, photo)
        latent, model = self._latent, self._model
        z_d, z_c = self._make_latents(state)
        own = model.edit(encoder_input, model.predict(encoder_input))
        q = to_floats(model.space.marginals(model.scores(encoder_input))[0])
        if latent.has_attributes:
            count = min(len(latent.names), _MAX_COLUMNS)
            settings = [{i: 1 - state["code"][i]} for i in range(count)]
            captions = [f"{latent.names[i]} {1 - state['code'][i]}" for i in range(count)]
            heading, note, chosen = (
                "Change one attribute",
                "The same continuous latent. Click an image to keep it.",
                None,
            )
            names, marks = latent.names, [i for i, value in enumerate(state["code"]) if value]
        else:
            count = min(latent.value_count, _MAX_COLUMNS)
            settings = [{0: value} for value in range(count)]
            captions = [latent.get_value_name(value) for value in range(count)]
            heading = f"Every {latent.names[0]}"
            note = "The same continuous latent. Click an image to choose it."
            chosen = state["code"][0] if state["code"][0] < count else None
            names, marks = [latent.get_value_name(value) for value in range(latent.value_count)], state["code"]
        variants = torch.cat([latent.apply_setting(z_d, setting) for setting in settings])
        images = model.decode(variants, z_c.expand(count, -1, -1))
        changes = [make_tile(image[None], caption, caption) for image, caption in zip(images, captions, strict=True)]
        return [
            show_decoded(x, own, model.decode(z_d, z_c), "latents"),
            BarsView(
                "q(value = 1 | image)" if latent.has_attributes else f"q({latent.names[0]} | image)",
                names,
                q,
                control="code",
                chosen=marks,
            ),
            ImagesView(heading, changes, note, "code", chosen),
        ]

    def write_python(self, state: State) -> str:
        """Return code that encodes the image, and decodes the chosen latents."""
        z_d, _ = self._make_latents(state)
        shape = f"[{len(state['style']) // self._model.join.c}, {self._model.join.c}]"
        return (
            write_prelude(self._run, "from hardmax.drawing.images import make_grid")
            + self._write_image_choice(state, "run.test_examples.encoder_input", self._input_binarization)
            + "print(model.predict(x))  # the discrete latent of the image\n"
            + f"z_d = {format_tensor(z_d[0].tolist())}[None]\n"
            + f"style = {format_tensor(state['style'])}.view({shape[1:-1]})\n"
            + "z_c = style[model.join.draw_of_row][None]\n"
            + "image = model.decode(z_d, z_c)\n"
            + 'make_grid(image).save("decoded.png")\n'
        )
