"""What all pages of the studio share: header, navigation, theme, and the elements that several pages need."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import isawaitable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, final

from nicegui import events, ui
from nicegui.elements.mixins.text_element import TextElement

from hardmax.errors import HardmaxError
from hardmax.names import escape_control_characters
from hardmax.studio.folders import Folders
from hardmax.studio.page_state import make_address_script, write_state
from hardmax.studio.registry import PAGES, PageRecord

STATIC = Path(__file__).parent / "static"
STATIC_ADDRESS = "/static"
LARGEST_UPLOAD = 20 * 2**20  # bytes


@dataclass(frozen=True)
class Studio:
    """What a page knows of the server.

    Attributes:
        folders: the folders that pages may read.
    """

    folders: Folders


async def show_page(record: PageRecord, studio: Studio, query: Mapping[str, str]) -> None:
    """Build one page inside of the frame; an error of hardmax becomes a sentence in the page."""
    _add_head()
    ui.context.client.on_exception(lambda error: show_message(describe_error(error)))  # of buttons and timers
    _build_header(record.path)
    with ui.element("main").classes("studio-main"):
        add_text("h1", record.title)
        try:
            result = record.load()(studio, query)
            if isawaitable(result):
                await result
        except HardmaxError as error:
            show_problem(str(error))


def describe_error(error: Exception) -> str:
    """Return the sentence for the page; NiceGUI writes the traceback to the terminal."""
    if isinstance(error, HardmaxError):
        return str(error)
    return "This failed; the terminal of hardmax studio shows the error."


def show_home(studio: Studio) -> None:
    """Build the first page: a list of the others."""
    _add_head()
    _build_header("/")
    with ui.element("main").classes("studio-main"):
        add_text("h1", "hardmax studio")
        with ui.element("div").classes("studio-cards"):
            for page in PAGES:
                with ui.link(target=page.path).classes("studio-card"):
                    add_text("h2", page.title)
                    add_text("p", page.about)
        if studio.folders.roots:
            add_note("Folders: " + ", ".join(escape_control_characters(str(root)) for root in studio.folders.roots))


def show_problem(message: str) -> ui.label:
    """Add a sentence that says what is wrong."""
    return ui.label(escape_control_characters(message)).classes("studio-problem").props("role=alert")


def add_note(text: str) -> ui.label:
    """Add a small grey sentence."""
    return ui.label(text).classes("studio-note")


def add_text(tag: str, text: str) -> TextElement:
    """Add an element with a text, such as "h2" or "p"; set its `text` to change it."""
    return TextElement(tag=tag, text=text)


def load_script(name: str) -> None:
    """Load a script of `hardmax/studio/static` into the page, such as "bars.js", before the page is drawn."""
    ui.add_head_html(f'<script defer src="{STATIC_ADDRESS}/{name}"></script>')


def load_style(name: str) -> None:
    """Load a style sheet of `hardmax/studio/static` into the page, such as "runs.css"."""
    ui.add_head_html(f'<link rel="stylesheet" href="{STATIC_ADDRESS}/{name}">')


@final
class Widget(ui.element):
    """A custom element of a script in `hardmax/studio/static`, which draws the object in its property `data`.

    Args:
        tag: name of the element, such as "drag-bars".
        data: what it draws.
    """

    def __init__(self, tag: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(tag)
        if data is not None:
            self.show(data)

    def show(self, data: Mapping[str, Any]) -> None:
        """Draw other data."""
        self._props[".data"] = data
        self.update()

    def on_change(self, handler: Callable[[Any], Any], seconds: float = 0.05) -> "Widget":
        """Call a function with the detail of the event "change"; of several within `seconds`, with the last one."""
        self.on("change", lambda event: handler(event.args), js_handler="(e) => emit(e.detail)", throttle=seconds)
        return self


def save_state_in_address(state: Any) -> None:
    """Put the state of the page into its address, so that the link restores it; see `hardmax.studio.page_state`."""
    ui.run_javascript(make_address_script(write_state(state)))


def add_code_button(label: str, make_code: Callable[[], str]) -> ui.button:
    """Add a button that copies code and shows it: "Copy as Python", or "Copy command".

    Args:
        label: text of the button.
        make_code: returns the code for the current state of the page.
    """
    with ui.dialog() as dialog, ui.element("div").classes("studio-dialog"):
        code = add_text("pre", "").classes("studio-code").props("tabindex=0")
        with ui.element("div").classes("studio-row"):
            ui.button("Close", on_click=dialog.close).props("flat no-caps")

    def show() -> None:
        code.text = make_code()
        dialog.open()
        # The clipboard needs a secure address: elsewhere the code is selected, to be copied by hand.
        ui.run_javascript(f"copyCode('c{code.id}')")

    return ui.button(label, on_click=show).props("outline no-caps")


def add_link_button() -> ui.button:
    """Add a button that copies the address of the page with its state."""
    return ui.button("Copy link", on_click=lambda: ui.run_javascript("copyAddress()")).props("outline no-caps")


def add_upload(
    label: str, use_file: Callable[[Path], Any], *, accept: str = "image/*", largest: int = LARGEST_UPLOAD
) -> ui.upload:
    """Add a field to which one file is dropped, or chosen.

    The file lies in a temporary folder while `use_file` runs, under a name of ours, and is then deleted. A larger file
    is refused. Read images with `hardmax.data.image_files.fit_photo`, which refuses image bombs.

    Args:
        label: text of the field.
        use_file: gets the path; may be async. A `HardmaxError` becomes a message on the page.
        accept: types of files that the dialog offers.
        largest: maximum size in bytes.
    """

    async def receive(event: events.UploadEventArguments) -> None:
        field.reset()
        if event.file.size() > largest:  # the browser's own limit can be bypassed
            show_message(f"a file has at most {largest / 2**20:.0f} MB")
            return
        with TemporaryDirectory(prefix="hardmax-studio-") as folder:
            suffix = Path(event.file.name).suffix[:8]
            path = Path(folder) / f"upload{suffix if suffix[1:].isalnum() else ''}"
            await event.file.save(path)
            try:
                result = use_file(path)
                if isawaitable(result):
                    await result
            except HardmaxError as error:
                show_message(str(error))

    field = ui.upload(
        label=label,
        auto_upload=True,
        max_file_size=largest,
        on_upload=receive,
        on_rejected=lambda: show_message(f"the file is refused: at most {largest / 2**20:.0f} MB, and {accept}"),
    ).props(f'accept="{accept}" flat bordered')
    return field


def show_message(message: str) -> None:
    """Show a sentence at the edge of the page for some seconds."""
    ui.notify(escape_control_characters(message), position="bottom", close_button="Close")


def _add_head() -> None:
    load_style("studio.css")
    ui.add_head_html(f'<script src="{STATIC_ADDRESS}/studio.js"></script>')


def _build_header(current: str) -> None:
    ui.link("Skip to the page", "#main").classes("studio-skip")
    with ui.element("header").classes("studio-header"):
        ui.link("hardmax studio", "/").classes("studio-brand")
        with ui.element("nav").props('aria-label="Pages"'):
            for page in PAGES:
                link = ui.link(page.title, page.path)
                if page.path == current:
                    link.props("aria-current=page")
        ui.button("Theme").props('flat no-caps dense aria-label="Switch between light and dark"').on(
            "click", js_handler="() => switchTheme()"
        )
