"""The views of the latent explorer as elements of a page; only what has changed is sent to the browser."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, final

from nicegui import ui

from hardmax.applications.explorer_controls import (
    BackdropView,
    BarsView,
    ImagesView,
    TextView,
    TokensView,
    View,
)
from hardmax.names import escape_control_characters
from hardmax.studio.frame import Widget, add_note, add_text

# press(name of the control, number) is called when the user presses an image, a bar or a token.
Press = Callable[[str, int], Awaitable[None]]

_TAGS = {ImagesView: "image-tiles", BarsView: "probability-bars", TokensView: "token-row"}


def describe_items(view: ImagesView | BarsView | TokensView) -> dict[str, Any]:
    """Return what the custom element of a view draws: its items, and whether they can be pressed."""
    if isinstance(view, ImagesView):
        size, count = view.size, len(view.tiles)
        items = [
            {
                "source": tile.source,
                "width": tile.width,
                "height": tile.height,
                "alt": tile.alt,
                "caption": [escape_control_characters(line) for line in tile.caption],
                "mark": tile.mark,
            }
            for tile in view.tiles
        ]
        chosen, numbers = {view.chosen}, view.numbers or range(count)
    elif isinstance(view, BarsView):
        size, names = 0, map(escape_control_characters, view.names)
        items = [{"name": name, "value": value} for name, value in zip(names, view.values, strict=True)]
        chosen, numbers = {*view.chosen}, view.numbers or range(len(items))
    else:
        size, names = 0, map(escape_control_characters, view.tokens)
        items = [{"name": name, "value": value} for name, value in zip(names, view.probabilities, strict=True)]
        chosen, numbers = {view.chosen}, range(len(items))
    described = [
        {**item, "number": number, "chosen": number in chosen} for item, number in zip(items, numbers, strict=True)
    ]
    return {"items": described, "pressable": bool(view.control), "size": size}


@final
class ViewList:
    """The views of a page.

    Args:
        press: called when the user presses an item.
        set_backdrop: called with the name of a control and the image below its cells.
    """

    def __init__(self, press: Press, set_backdrop: Callable[[str, str], None]) -> None:
        self._press, self._set_backdrop = press, set_backdrop
        self._container = ui.element("div").classes("explorer-views").props('aria-live="polite"')
        self._kinds: Sequence[object] = ()
        self._updates: list[Callable[[Any], None]] = []
        self._shown: Sequence[View] = ()

    def show(self, views: Sequence[View]) -> None:
        """Show views; elements are created again only if there are other kinds of views than before."""
        for view in views:
            if isinstance(view, BackdropView):
                self._set_backdrop(view.control, view.source)
        views = [view for view in views if not isinstance(view, BackdropView)]
        kinds = [(type(view), getattr(view, "control", "")) for view in views]
        if kinds != self._kinds:
            self._container.clear()
            with self._container:
                self._updates = [self._build(view) for view in views]
            self._kinds, self._shown = kinds, ()
        for index, (view, update) in enumerate(zip(views, self._updates, strict=True)):
            if index >= len(self._shown) or self._shown[index] != view:
                update(view)
        self._shown = views

    def set_busy(self, busy: bool) -> None:
        """Mark the views as out of date."""
        self._container.classes(add="explorer-busy" if busy else "", remove="" if busy else "explorer-busy")

    def _build(self, view: View) -> Callable[[Any], None]:
        """Add the elements of a view, and return the function that shows another view of its kind."""
        with ui.element("div"):
            if isinstance(view, TextView):
                text = add_text("p", "")
                return lambda view: setattr(text, "text", escape_control_characters(view.text))
            assert not isinstance(view, BackdropView)
            heading, note = add_text("h3", ""), add_note("")
            widget = Widget(_TAGS[type(view)])
            if view.control:
                control = view.control

                async def press(number: Any) -> None:
                    if isinstance(number, int):
                        await self._press(control, number)

                widget.on_change(press)

        def update(view: ImagesView | BarsView | TokensView) -> None:
            heading.text, note.text = escape_control_characters(view.heading), escape_control_characters(view.note)
            note.set_visibility(bool(view.note))
            widget.show(describe_items(view))

        return update
