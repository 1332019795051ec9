"""Controls and views of the latent explorer, as plain data: what one can turn, and what it shows.

Explorers of applications list controls and return views (`hardmax.applications.exploration`); the studio draws both.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
