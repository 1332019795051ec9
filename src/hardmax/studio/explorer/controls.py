"""The controls of the latent explorer as elements of a page: one function for each kind of control."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from nicegui import events, ui

from hardmax.applications.explorer_controls import (
    PHOTO,
    ChoiceControl,
    Control,
    ImageControl,
    NumberControl,
    PaintControl,
    SliderControl,
)
from hardmax.errors import HardmaxError
from hardmax.names import escape_control_characters
from hardmax.studio.frame import Widget, add_note, add_text, add_upload, show_message

# change(name, value) is called when the user has changed a control.
Change = Callable[[str, Any], Awaitable[None]]
# Shows the value of a control, which something else has changed.
ShowValue = Callable[[Any], None]

_MOST_BUTTONS = 12  # values of one variable; more are in a list
_MOST_VARIABLES = 64
_MOST_SLIDERS = 40
_LARGEST_RADIUS = 5


@dataclass(frozen=True)
class BuiltControl:
    """A control on the page.

    Attributes:
        show: shows a value.
        grid: the grid of a `PaintControl`; None for other controls.
    """

    show: ShowValue
    grid: Widget | None = None

    def set_property(self, name: str, value: Any) -> None:
        """Set a property of the grid: its `brush`, its `radius`, or its `backdrop`."""
        if self.grid is not None and self.grid._props.get(f".{name}") != value:
            self.grid._props[f".{name}"] = value
            self.grid.update()


def build_control(control: Control, change: Change, use_photo: Callable[[Path], Awaitable[None]]) -> BuiltControl:
    """Add a control to the page.

    Args:
        control: the control.
        change: called with its name and its value when the user has changed it.
        use_photo: called with the file of an uploaded photo.
    """
    if isinstance(control, ChoiceControl) and control.hidden:
        return BuiltControl(lambda value: None)
    add_text("h3", control.label[:1].upper() + control.label[1:])
    if isinstance(control, ImageControl):
        return BuiltControl(_build_image(control, change, use_photo))
    if isinstance(control, NumberControl):
        return BuiltControl(_build_number(control, change))
    if isinstance(control, SliderControl):
        return BuiltControl(_build_sliders(control, change))
    if isinstance(control, PaintControl):
        return _build_paint(control, change)
    if len(control.variables) == 1:
        return BuiltControl(_build_choice(control, change))
    return BuiltControl((_build_toggles if len(control.values) == 2 else _build_lists)(control, change))


def _build_number(control: ImageControl | NumberControl, change: Change) -> ShowValue:
    """Add a field with a number, and buttons for the previous and the next one."""
    low, high = (0, control.count - 1) if isinstance(control, ImageControl) else (control.low, control.high)
    current = control.default

    async def set_number(value: float | None) -> None:
        nonlocal current
        number = min(max(int(value), low), high) if value is not None else current
        if number != current:
            current = number
            await change(control.name, number)

    async def read(event: events.ValueChangeEventArguments) -> None:
        await set_number(event.value)

    async def step(by: int) -> None:
        field.value = min(max(current + by, low), high)

    with ui.element("div").classes("studio-row"):
        previous = ui.button("‹", on_click=lambda: step(-1)).props("outline dense")
        field = ui.number(value=current, min=low, max=high, precision=0, on_change=read)
        field.props(f'dense outlined debounce=200 aria-label="{control.label}"').style("width: 7rem")
        following = ui.button("›", on_click=lambda: step(1)).props("outline dense")
        add_note(f"of {high:,}")
    previous._props["aria-label"], following._props["aria-label"] = f"previous {control.label}", f"next {control.label}"

    def show(value: int) -> None:
        nonlocal current
        current = value
        field.value = None if value == PHOTO and isinstance(control, ImageControl) else value

    return show


def _build_image(control: ImageControl, change: Change, use_photo: Callable[[Path], Awaitable[None]]) -> ShowValue:
    """Add the number of an example, and a field for a photo."""
    show = _build_number(control, change)
    if control.accepts_photo:

        async def receive(path: Path) -> None:
            try:
                await use_photo(path)
            except HardmaxError as error:
                show_message(str(error).replace(str(path), "the file"))

        add_upload("or drop a photo here", receive)
    return show


def _build_choice(control: ChoiceControl, change: Change) -> ShowValue:
    """Add the values of one variable, as buttons or as a list."""
    names = {index: escape_control_characters(name) for index, name in enumerate(control.values)}
    current = 0

    async def read(event: events.ValueChangeEventArguments) -> None:
        nonlocal current
        if event.value is not None and event.value != current:
            current = event.value
            await change(control.name, [current])

    if len(names) <= _MOST_BUTTONS:
        field = ui.radio(names, value=0, on_change=read).props("inline dense")
    else:
        field = ui.select(names, value=0, on_change=read, with_input=True).props("dense outlined options-dense")
    field._props["aria-label"] = control.label

    def show(value: list[int]) -> None:
        nonlocal current
        current = value[0]
        field.value = current

    return show


def _build_toggles(control: ChoiceControl, change: Change) -> ShowValue:
    """Add a button for each variable, which is pressed while its value is the second one."""
    current = control.default
    buttons: list[ui.element] = []

    async def switch(index: int) -> None:
        show([*current[:index], 1 - current[index], *current[index + 1 :]])
        await change(control.name, [*current])

    with ui.element("div").classes("studio-row"):
        for index, name in enumerate(control.variables[:_MOST_VARIABLES]):
            button = add_text("button", escape_control_characters(name)).classes("explorer-toggle")
            buttons.append(button.props("type=button").on("click", partial(switch, index), args=[]))
    if len(control.variables) > _MOST_VARIABLES:
        add_note(f"The first {_MOST_VARIABLES} of {len(control.variables)} are shown.")

    def show(value: list[int]) -> None:
        current[:] = value
        for button, one in zip(buttons, current, strict=False):
            pressed = "true" if one else "false"
            if button._props.get("aria-pressed") != pressed:
                button._props["aria-pressed"] = pressed
                button.update()

    show(control.default)
    return show


def _build_lists(control: ChoiceControl, change: Change) -> ShowValue:
    """Add a list of values for each variable."""
    names = {index: escape_control_characters(name) for index, name in enumerate(control.values)}
    current = control.default
    fields: list[ui.select] = []

    async def read(index: int, event: events.ValueChangeEventArguments) -> None:
        if event.value is not None and event.value != current[index]:
            current[index] = event.value
            await change(control.name, [*current])

    with ui.element("div").classes("studio-row"):
        for index, name in enumerate(control.variables[:_MOST_VARIABLES]):
            field = ui.select(
                names, label=escape_control_characters(name), value=0,
                on_change=partial(read, index),
            )  # fmt: skip
            fields.append(field.props("dense outlined options-dense"))
    if len(control.variables) > _MOST_VARIABLES:
        add_note(f"The first {_MOST_VARIABLES} of {len(control.variables)} are shown.")

    def show(value: list[int]) -> None:
        current[:] = value
        for field, one in zip(fields, value, strict=False):
            field.value = one

    return show


def _build_sliders(control: SliderControl, change: Change) -> ShowValue:
    """Add a slider for each number."""
    current = control.default
    fields: list[ui.slider] = []
    labels: list[ui.label] = []

    async def read(index: int, event: events.ValueChangeEventArguments) -> None:
        value = event.value
        labels[index].text = _format(value)
        if abs(value - current[index]) > _STEP / 2:
            current[index] = value
            await change(control.name, [*current])

    with ui.element("div").classes("explorer-sliders"):
        for index, name in enumerate(control.sliders[:_MOST_SLIDERS]):
            label = escape_control_characters(name)
            ui.label(label if label != control.label else "")
            field = ui.slider(
                min=control.low, max=control.high, step=_STEP, value=control.start,
                on_change=partial(read, index),
            ).props("dense")  # fmt: skip
            field._props["aria-label"] = f"{control.label} {label}"
            fields.append(field)
            labels.append(ui.label(_format(control.start)).classes("value"))
    if len(control.sliders) > _MOST_SLIDERS:
        add_note(f"The first {_MOST_SLIDERS} of {len(control.sliders)} are shown.")

    def show(value: list[float]) -> None:
        current[:] = value
        for field, label, one in zip(fields, labels, value, strict=False):
            field.value = one
            label.text = _format(one)

    return show


_STEP = 0.01  # of a slider


def _format(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def _build_paint(control: PaintControl, change: Change) -> BuiltControl:
    """Add a grid to paint on; with a brush of its own, also what it paints, its size, and a button that clears it."""
    grid = Widget("paint-grid")
    data = {"height": control.height, "width": control.width, "colours": control.colours, "label": control.label}

    version = 0

    def show(value: list[int]) -> None:
        nonlocal version
        version += 1
        grid.show({**data, "values": value, "version": version})

    built = BuiltControl(show, grid)

    async def read(painted: Any) -> None:
        nonlocal version
        if not isinstance(painted, dict) or not isinstance(painted.get("version"), int):
            return
        value, version = control.check(painted.get("values")), painted["version"]
        grid._props[".data"] = {**data, "values": value, "version": version}  # not sent: the browser has it
        await change(control.name, value)

    async def clear() -> None:
        show(control.default)
        await change(control.name, control.default)

    grid.on_change(read)
    show(control.default)
    built.set_property("brush", 1)
    if control.brush:
        return built
    built.set_property("radius", 2)
    with ui.element("div").classes("studio-row"):
        ui.radio(
            {1: "paint", 0: "erase"}, value=1, on_change=lambda event: built.set_property("brush", event.value)
        ).props("inline dense")
        size = ui.number(
            "Brush", value=2, min=1, max=_LARGEST_RADIUS, precision=0,
            on_change=lambda event: built.set_property("radius", int(event.value or 1)),
        )  # fmt: skip
        size.props("dense outlined").style("width: 5rem")
        ui.button("Clear", on_click=clear).props("outline dense no-caps")
    return built
