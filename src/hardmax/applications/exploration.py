"""What an application offers to the latent explorer of the studio: controls, and what they show.

An explorer has no page: it lists its controls, turns a state (a value for each control) into views, and writes the
Python code that does the same. The studio draws controls and views, and knows no application.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import torch
from jaxtyping import UInt8
from torch import Tensor

from hardmax.data import binarize
from hardmax.data.image_files import fit_photo
from hardmax.random import make_generator
from hardmax.report.run import Run
from hardmax.report.sections import Tile

PHOTO = -1
"""The value of an `ImageControl` for the photo that the user has uploaded."""

# The value of each control, by its name. All values are plain JSON, so that a link can contain them.
State = dict[str, Any]


@dataclass(frozen=True)
class ImageControl:
    """Choose one of the examples of a data set, by its number, or upload a photo.

    Attributes:
        name: key of its value in the state: a number, or `PHOTO`.
        label: what it is, for the user.
        count: number of examples.
        accepts_photo: whether the user may upload a photo instead.
    """

    name: str
    label: str
    count: int
    accepts_photo: bool = True

    @property
    def default(self) -> int:
        """The first example."""
        return 0

    def check(self, value: Any) -> int:
        """Return a value that may come from a link, or the default if it is not valid; a link holds no photo."""
        return value if _is_whole(value, 0, self.count - 1) else self.default


@dataclass(frozen=True)
class NumberControl:
    """A whole number between two limits, such as a seed.

    Attributes:
        name: key of its value in the state.
        label: what it is, for the user.
        low: the smallest value, which is also the default.
        high: the largest value.
    """

    name: str
    label: str
    low: int = 0
    high: int = 9999

    @property
    def default(self) -> int:
        """The smallest value."""
        return self.low

    def check(self, value: Any) -> int:
        """Return a value that may come from a link, or the default if it is not valid."""
        return value if _is_whole(value, self.low, self.high) else self.default


@dataclass(frozen=True)
class ChoiceControl:
    """One of a few values for each of several variables: bits, categories, attributes.

    Attributes:
        name: key of its value in the state: a list of numbers of values, one for each variable.
        label: what it is, for the user.
        variables: name of each variable.
        values: name of each value.
        hidden: whether it only is part of the state, and is set by clicks on views.
    """

    name: str
    label: str
    variables: tuple[str, ...]
    values: tuple[str, ...]
    hidden: bool = False

    @property
    def default(self) -> list[int]:
        """The first value of each variable."""
        return [0] * len(self.variables)

    def check(self, value: Any) -> list[int]:
        """Return a value that may come from a link, or the default if it is not valid."""
        return _check_list(value, len(self.variables), lambda item: _is_whole(item, 0, len(self.values) - 1), self)


@dataclass(frozen=True)
class SliderControl:
    """Real numbers between two limits, each with a slider.

    Attributes:
        name: key of its value in the state: a list of numbers.
        label: what they are, for the user.
        sliders: name of each slider.
        low: smallest value.
        high: largest value.
        start: value of all sliders at first.
    """

    name: str
    label: str
    sliders: tuple[str, ...]
    low: float
    high: float
    start: float = 0.0

    @property
    def default(self) -> list[float]:
        """The same value for all sliders."""
        return [self.start] * len(self.sliders)

    def check(self, value: Any) -> list[float]:
        """Return a value that may come from a link, or the default if it is not valid."""
        return _check_list(value, len(self.sliders), self._is_within, self)

    def _is_within(self, value: Any) -> bool:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and math.isfinite(value) and self.low <= value <= self.high


@dataclass(frozen=True)
class PaintControl:
    """A grid of cells to paint on: tokens, or the pixels of a hole.

    Attributes:
        name: key of its value in the state: a list of numbers, row by row.
        label: what it is, for the user.
        height: number of rows.
        width: number of columns.
        colours: colour of each value, as "#rrggbb"; an empty one is transparent and shows the backdrop.
        brush: name of the `ChoiceControl` whose value is painted; empty: 1 is painted, and 0 erases.
    """

    name: str
    label: str
    height: int
    width: int
    colours: tuple[str, ...]
    brush: str = ""

    @property
    def default(self) -> list[int]:
        """The first value everywhere."""
        return [0] * (self.height * self.width)

    def check(self, value: Any) -> list[int]:
        """Return a value that may come from a link, or the default if it is not valid."""
        most = len(self.colours) - 1
        return _check_list(value, self.height * self.width, lambda item: _is_whole(item, 0, most), self)


Control = ImageControl | NumberControl | ChoiceControl | SliderControl | PaintControl


def _is_whole(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _check_list(value: Any, length: int, is_valid: Any, control: ChoiceControl | SliderControl | PaintControl) -> Any:
    if isinstance(value, list) and len(value) == length and all(map(is_valid, value)):
        return list(value)
    return control.default


def check_state(controls: Sequence[Control], state: Mapping[str, Any]) -> State:
    """Return a valid value for each control: a link may come from anyone, and from another version of a run.

    Example:
        >>> (
        ...     check_state([NumberControl("seed", "seed")], {"seed": 3, "other": 1}),
        ...     check_state([NumberControl("seed", "seed")], {"seed": "x"}),
        ... )
        ({'seed': 3}, {'seed': 0})
    """
    return {control.name: control.check(state.get(control.name)) for control in controls}


@dataclass(frozen=True)
class ImagesView:
    """Images with captions.

    Attributes:
        heading: what they are.
        tiles: the images.
        note: how to read them.
        control: name of a control that a click on an image sets to its number, as for `press`; empty if a click does
            nothing.
        chosen: number of the image to mark as chosen; None for no image.
        size: height in pixels at which the images are shown, at least.
        numbers: number of each image; empty if they are counted from zero.
    """

    heading: str
    tiles: Sequence[Tile]
    note: str = ""
    control: str = ""
    chosen: int | None = None
    size: int = 84
    numbers: Sequence[int] = ()


@dataclass(frozen=True)
class BarsView:
    """Probabilities, or other numbers from 0 to 1, as bars.

    Attributes:
        heading: what they are.
        names: name of each bar.
        values: length of each bar, from 0 to 1.
        note: how to read them.
        control: name of a control that a click on a bar sets to its number, as for `press`; empty if a click does
            nothing.
        chosen: numbers of the bars to mark.
        numbers: number of each bar; empty if they are counted from zero.
    """

    heading: str
    names: Sequence[str]
    values: Sequence[float]
    note: str = ""
    control: str = ""
    chosen: Sequence[int] = ()
    numbers: Sequence[int] = ()


@dataclass(frozen=True)
class TokensView:
    """A sequence of tokens, each with its probability.

    Attributes:
        heading: what it is.
        tokens: text of each token.
        probabilities: probability of each token, given those before it.
        note: how to read them.
        control: name of a control that a click on a token sets to its position, as for `press`; empty if a click does
            nothing.
        chosen: position of the token to mark; None for none.
    """

    heading: str
    tokens: Sequence[str]
    probabilities: Sequence[float]
    note: str = ""
    control: str = ""
    chosen: int | None = None


@dataclass(frozen=True)
class BackdropView:
    """The image below the cells of a `PaintControl`.

    Attributes:
        control: name of the control.
        source: the image, as a data URI.
    """

    control: str
    source: str


@dataclass(frozen=True)
class TextView:
    """A sentence or two."""

    text: str


def press(control: Control, value: Any, number: int) -> Any:
    """Return the value of a control after a click on the image, bar or token of a number.

    A number becomes this number. One variable takes the value of this number. Of several variables, that of this number
    takes the next value: a bit is flipped.

    Example:
        >>> press(ChoiceControl("code", "bits", ("0", "1", "2"), ("0", "1")), [0, 0, 1], 2)
        [0, 0, 0]
    """
    if not isinstance(control, ChoiceControl):
        return number
    if len(control.variables) == 1:
        return [number]
    changed = list(value)
    changed[number] = (changed[number] + 1) % len(control.values)
    return changed


View = ImagesView | BarsView | TokensView | BackdropView | TextView

R = TypeVar("R", bound=Run)


class AbstractExplorer(ABC, Generic[R]):
    """What the latent explorer shows of one run; the application's record names its class.

    One instance serves all browsers, from several threads: its methods change nothing in it.

    Args:
        run: the run, with its model in evaluation mode and its data.

    Attributes:
        about: one sentence for the user: what to do here.
        controls: what the user can turn.
    """

    about: ClassVar[str]
    controls: tuple[Control, ...]

    @abstractmethod
    def __init__(self, run: R) -> None:
        pass

    def start(self) -> State:
        """Return the state at first: by default every control at its default, then the first one changed."""
        defaults = check_state(self.controls, {})
        return self.update(defaults, self.controls[0].name, None, defaults)

    def read_photo(self, path: Path) -> Any:
        """Read a photo that the user has uploaded, as an input of the model; the file may come from anyone.

        Raises:
            DataError: the file is not an image, or is too large.
        """
        raise NotImplementedError(f"{type(self).__name__} has no control for photos")

    def update(self, state: State, changed: str, photo: Any, before: State) -> State:
        """Return the state after the user has changed one control, such as the code of an image that was chosen.

        Args:
            state: the values of all controls, that of the changed one included.
            changed: name of the control.
            photo: the result of `read_photo`; None if there is no photo.
            before: the values before the change.
        """
        return state

    @abstractmethod
    def draw(self, state: State, photo: Any) -> list[View]:
        """Return what a state shows.

        Args:
            state: the values of all controls.
            photo: the result of `read_photo`; None if there is no photo.
        """

    @abstractmethod
    def write_python(self, state: State) -> str:
        """Return Python code that computes what a state shows: it runs as it is."""


def fit_image(path: Path, run: Run, shape: Sequence[int], binarization: str) -> Tensor:
    """Read a photo as an input of the model of a run, `[1, *shape]`.

    Args:
        path: the file.
        run: the run, for the seed of sampled pixels.
        shape: channels, H and W.
        binarization: how its pixels are rounded to zeros and ones.

    Raises:
        DataError: the file is not an image, or is too large.
    """
    channels, height, width = shape
    pixels: UInt8[Tensor, "1 channels H W"] = fit_photo(path, (channels, height, width)).pixels
    return binarize(pixels, binarization, make_generator(run.config.seed, "binarize", "photo"))  # pyright: ignore[reportArgumentType]


def write_prelude(run: Run, *imports: str) -> str:
    """Return the first lines of the code of an explorer: imports, and the run."""
    lines = ["import torch", *imports, "from hardmax.applications.runs import read_run", ""]
    lines += ["torch.set_grad_enabled(False)  # nothing is trained here"]
    return "\n".join([*lines, f"run = read_run({str(run.folder.resolve())!r})", "model = run.model", ""])


def write_image_choice(state: State, name: str, examples: str = "run.test_examples") -> str:
    """Return the lines of code that choose the image x of an `ImageControl`.

    Args:
        state: the values of all controls.
        name: name of the control.
        examples: expression for all examples.
    """
    if state[name] == PHOTO:
        return f"x = {examples}[0:1]  # your photo: hardmax.data.image_files.fit_photo reads one\n"
    return f"x = {examples}[{state[name]}:{state[name] + 1}]\n"


def choose_image(images: Tensor, value: int, photo: Tensor | None) -> Tensor:
    """Return the image of an `ImageControl`, `[1, *shape]`: one of the examples, or the photo if there is one."""
    if value == PHOTO and photo is not None:
        return photo
    return images[max(value, 0)][None]


def format_tensor(values: Sequence[Any]) -> str:
    """Return Python code for a tensor of floats."""
    return f"torch.tensor({list(values)}, dtype=torch.float32)"


def to_floats(values: Tensor) -> list[float]:
    """Return the values of a tensor as finite floats, for bars and states."""
    return torch.nan_to_num(values.detach().double()).flatten().tolist()
