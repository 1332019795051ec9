"""The latent explorer of a discrete VAE: the code of an image, and what each of its values changes."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from hardmax.applications.discrete_vae.model import DiscreteVAE
from hardmax.applications.discrete_vae.report_codes import (
    DiscreteRun,
    Usage,
    compute_mean,
    has_bits,
    is_unconstrained,
    measure_usage,
)
from hardmax.applications.exploration import (
    AbstractExplorer,
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
    State,
    View,
)
from hardmax.report.sections import Tile, make_tile
from hardmax.report.tables import format_percent
from hardmax.spaces import AbstractSpace

_MAX_CATEGORIES, _MAX_BITS, _MAX_VARIABLES, _MAX_VALUES = 100, 64, 8, 16  # that are decoded for one page


def read_code(space: AbstractSpace, z: Tensor) -> list[int]:
    """Return the value of each variable of one z, `[*event]`: its bits, or the number of its category."""
    return (z.round().long() if has_bits(space) else z.argmax(-1)).flatten().tolist()


def make_code(space: AbstractSpace, values: Sequence[int]) -> Tensor:
    """Return the z `[*event]` whose variables have these values, whether the space contains it or not."""
    numbers = torch.tensor(values)
    if has_bits(space):
        return numbers.float()
    one_hot = (numbers[:, None] == torch.arange(space.event_shape[-1])).float()
    return one_hot.view(space.event_shape)


def find_nearest_code(space: AbstractSpace, values: Sequence[int], before: Sequence[int]) -> list[int]:
    """Return the values of the z in a space that has as many of the wanted values as possible.

    Where some z are not in the space, such as a subset of one item too many, the variables that were changed last keep
    their values, and as many of the others as possible: the arg max of scores that reward each wanted value.

    Args:
        space: the space.
        values: the wanted value of each variable.
        before: the values before the last change.
    """
    if is_unconstrained(space):
        return list(values)
    rewards = 2 * make_code(space, values) - 1
    changed = torch.tensor([value != old for value, old in zip(values, before, strict=True)])
    weights = 1 + 2 * len(values) * changed.float()  # one changed variable counts more than all others together
    return read_code(space, space.argmax(rewards * (weights if has_bits(space) else weights[:, None])))


@final
class DiscreteExplorer(AbstractExplorer[DiscreteRun]):
    """Turn the code of a discrete VAE, and see the image that the decoder makes of it."""

    about = "Choose a test image to see its code; then change the code, and see the image that it stands for."

    def __init__(self, run: DiscreteRun) -> None:
        super().__init__(run, run.test_examples)
        self._space = run.model.space
        self._usage = measure_usage(run)
        record, names = self._usage.record, self._usage.names
        if self._space.categories is not None:
            label, variables, count = "category", ("category",), self._space.categories
        elif has_bits(self._space):
            label, variables, count = f"{record.variable}s", tuple(names), 2
        else:
            label, variables, count = (
                f"{record.value} of each {record.variable}",
                tuple(names),
                len(self._usage.share.T),
            )
        self.controls = (
            ImageControl("image", "image to encode", len(run.test_examples)),
            ChoiceControl("code", label, variables, tuple(map(str, range(count)))),
        )

    def update(self, state: State, changed: str, photo: Tensor | None, before: State) -> State:
        """Set the code to that of the image, if this has changed; else to the nearest one that is in the space."""
        if changed == "image":
            x = self._choose_image(state, photo)
            return {**state, "code": read_code(self._space, self._model.predict(x)[0])}
        return {**state, "code": find_nearest_code(self._space, state["code"], before["code"])}

    @torch.no_grad()
    def draw(self, state: State, photo: Tensor | None) -> list[View]:
        """Return the image of the code, the encoder's distribution, and what a change of each variable gives."""
        x = self._choose_image(state, photo)
        scores = self._model.scores(x)
        own = self._space.argmax(scores)
        z = make_code(self._space, state["code"])
        decoded = self._model.decode(torch.stack([own[0], z]))
        return [
            show_decoded(x, decoded[:1], decoded[1:], "code"),
            *_draw_distribution(self._usage, compute_mean(self._space, scores), z),
            *_draw_changes(self._model, self._usage, z, state["code"]),
        ]

    def write_python(self, state: State) -> str:
        """Return code that encodes the image, and decodes the chosen code."""
        shape = "" if self._space.categories is not None or has_bits(self._space) else ".view(model.space.event_shape)"
        values = make_code(self._space, state["code"]).flatten().tolist()
        return (
            write_prelude(self._run, "from hardmax.drawing.images import make_grid")
            + self._write_image_choice(state)
            + "print(model.predict(x))  # the code of the image\n"
            + f"z = {format_tensor(values)}{shape}\n"
            + "image = model.decode(z[None])\n"
            + 'make_grid(image).save("decoded.png")\n'
        )


def _draw_distribution(usage: Usage, mean: Tensor | None, z: Tensor) -> list[View]:
    """Return the encoder's distribution as bars; nothing where the space cannot compute it, or for many variables."""
    if mean is None or (not has_bits(usage.space) and usage.space.categories is None):
        return []
    values, what = to_floats(mean), usage.record.variable
    if has_bits(usage.space):
        chosen = z.nonzero().flatten().tolist()
        note = f"Click a bar to change the {what}."
        return [BarsView(f"q({what} = 1 | image)", usage.names, values, note, "code", chosen)]
    if len(values) > _MAX_CATEGORIES:
        return []
    names = [str(i) for i in range(len(values))]
    return [BarsView("q(category | image)", names, values, "Click a bar to decode it.", "code", [int(z.argmax())])]


def _draw_changes(model: DiscreteVAE, usage: Usage, z: Tensor, code: Sequence[int]) -> list[View]:
    """Return the images of all categories, or those of the code with one variable changed."""
    space, what = usage.space, usage.record.variable
    if space.categories is not None:
        count = space.categories
        numbers = list(range(min(count, _MAX_CATEGORIES)))
        images = model.decode(torch.eye(count)[numbers])
        tiles = [_tile(image, f"category {i}", str(i), usage, (i,)) for i, image in zip(numbers, images, strict=True)]
        note = "Below each category: the share of test images for which it is the best one. Click one to choose it."
        if count > len(numbers):
            note += f" Only the first {len(numbers)} of {count:,} are shown."
        chosen = code[0] if code[0] < len(numbers) else None
        return [ImagesView("Every category", tiles, note, "code", chosen)]
    if has_bits(space):
        count = min(len(code), _MAX_BITS)
        codes = []
        for bit in range(count):
            changed = [*code[:bit], 1 - code[bit], *code[bit + 1 :]]
            codes.append(make_code(space, find_nearest_code(space, changed, code)))
        images = model.decode(torch.stack(codes))
        tiles = [
            make_tile(image[None], f"the image with {what} {usage.names[bit]} changed", usage.names[bit])
            for bit, image in enumerate(images)
        ]
        note = f"The chosen code with one {what} changed. Click an image to change that {what}."
        if len(code) > count:
            note += f" Only the first {count} of {len(code)} are shown."
        return [ImagesView(f"Change one {what}", tiles, note, "code")]
    return [_draw_variable(model, usage, code, variable) for variable in range(min(len(code), _MAX_VARIABLES))]


def _draw_variable(model: DiscreteVAE, usage: Usage, code: Sequence[int], variable: int) -> ImagesView:
    """Return the images of the code with every value of one variable."""
    space, record = usage.space, usage.record
    values = range(min(space.event_shape[-1], _MAX_VALUES))
    codes = [
        make_code(space, find_nearest_code(space, [*code[:variable], value, *code[variable + 1 :]], code))
        for value in values
    ]
    images = model.decode(torch.stack(codes))
    tiles = [
        _tile(image, f"{record.variable} {variable} at {value}", str(value), usage, (variable, value))
        for value, image in zip(values, images, strict=True)
    ]
    chosen = code[variable] if code[variable] < len(values) else None
    return ImagesView(f"{record.variable.capitalize()} {usage.names[variable]}", tiles, chosen=chosen)


def _tile(image: Tensor, alt: str, name: str, usage: Usage, index: tuple[int, ...]) -> Tile:
    """Return the image of one value, with its share of the test images below it."""
    unused = bool(usage.is_unused[index])
    return make_tile(image[None], alt, name, format_percent(float(usage.share[index])), mark="unused" if unused else "")
