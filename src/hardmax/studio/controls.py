"""Controls that several pages use."""

from collections.abc import Awaitable, Callable

from nicegui import events, ui


def add_slider(
    label: str,
    value: float,
    on_change: Callable[[float], Awaitable[None] | None],
    *,
    least: float,
    most: float,
    step: float,
) -> ui.element:
    """Add a slider with its name and its value, and return the row of the three.

    Args:
        label: its name.
        value: the first value.
        on_change: gets each new value.
        least: lowest value.
        most: highest value.
        step: distance of two values.
    """

    async def change(event: events.ValueChangeEventArguments) -> None:
        number.text = f"{event.value:g}"
        if (result := on_change(event.value)) is not None:
            await result

    with ui.element("div").classes("studio-slider") as row:
        ui.label(label)
        slider = ui.slider(min=least, max=most, step=step, value=value, on_change=change)
        slider.props(f'aria-label="{label}"')
        number = ui.label(f"{value:g}").classes("number")
    return row
