"""The latent explorer: turn what the model of a run has learned, and see what it stands for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from nicegui import ui

from hardmax.applications.exploration import (
    AbstractExplorer,
)
from hardmax.applications.explorer_controls import (
    PHOTO,
    ImageControl,
    State,
    View,
    check_state,
    press,
)
from hardmax.errors import HardmaxError
from hardmax.names import escape_control_characters
from hardmax.studio.explorer.controls import build_control
from hardmax.studio.explorer.state import ExplorerCache, decode_state, encode_state, list_explorable
from hardmax.studio.explorer.views import ViewList
from hardmax.studio.folders import Folders
from hardmax.studio.frame import (
    Studio,
    add_code_button,
    add_link_button,
    add_note,
    load_script,
    load_style,
    save_state_in_address,
    show_message,
    show_problem,
)
from hardmax.studio.page_state import read_state, write_state
from hardmax.studio.runs.run_list import find_runs, name_run
from hardmax.studio.work import CheckCancelled, LatestWork

_CACHE = ExplorerCache()


@dataclass(frozen=True)
class LatentsState:
    """What the latent explorer shows."""

    run: str = ""
    """Folder of the run; empty: the first one."""
    state: str = ""
    """Values of its controls, as `encode_state` writes them."""


async def build_page(studio: Studio, query: Mapping[str, str]) -> None:
    """Build the page."""
    load_style("explorer.css")
    load_script("explorer.js")
    load_script("paint-grid.js")
    address = read_state(LatentsState, query)
    if not studio.folders.roots:
        show_problem("No folder was given: restart with the folder of your runs, such as hardmax studio runs")
        return
    work = LatestWork()
    ui.context.client.on_delete(work.cancel)
    folders = await work.run(_list_runs, studio.folders) or []
    if not folders and not address.run:
        add_note("No run here has latents to explore. Make one with: hardmax train --out FOLDER")
        return
    folder = studio.folders.resolve_path(address.run or folders[0])
    _add_run_list(folders, folder)
    content = ui.element("div")
    with content:
        add_note("Loading the model and its data ...")

    async def load() -> None:
        problem, loaded = None, None
        try:
            loaded = await work.run(_load, folder, address.state)
        except HardmaxError as error:
            problem = str(error)
        content.clear()
        with content:
            if problem is not None:
                show_problem(problem)
            elif loaded is not None:
                explorer, state, views = loaded
                _ExplorerPage(folder, explorer, state, work).show(state, views)

    # After the page is shown: a large data set takes seconds to load.
    ui.timer(0, load, once=True)


def _list_runs(check: CheckCancelled, folders: Folders) -> list[Path]:
    return list_explorable(find_runs(folders.roots))


def _add_run_list(folders: Sequence[Path], current: Path) -> None:
    """Add the list of runs; another one is another page."""
    names = {name_run(folder): escape_control_characters(name_run(folder)) for folder in [*folders, current]}
    with ui.element("div").classes("studio-row"):
        ui.select(
            names,
            label="Run",
            value=name_run(current),
            on_change=lambda event: ui.navigate.to(f"/latents?{write_state(LatentsState(event.value))}"),
        ).props("dense outlined options-dense").style("min-width: 14rem; max-width: 100%")
        add_link_button()


def _load(check: CheckCancelled, folder: Path, text: str) -> tuple[AbstractExplorer[Any], State, list[View]]:
    """Return the explorer of a run, the state in the address or the first one, and what it shows."""
    wanted = decode_state(text) if text else None
    explorer = _CACHE.load(folder)
    check()
    state = explorer.start() if wanted is None else check_state(explorer.controls, wanted)
    return explorer, state, explorer.draw(state, None)


def _explore(
    check: CheckCancelled,
    explorer: AbstractExplorer[Any],
    state: State,
    changes: Sequence[tuple[str, Any]],
    photo: Any,
) -> tuple[State, list[View]]:
    """Return the state after some changes, and what it shows."""
    for name, value in changes:
        state = explorer.update({**state, name: value}, name, photo, state)
        check()
    return state, explorer.draw(state, photo)


@final
class _ExplorerPage:
    """The controls and views of one run in one browser.

    Args:
        folder: folder of the run.
        explorer: its explorer, which other pages share.
        state: the values of the controls at first.
        work: runs what is computed for this page.
    """

    def __init__(self, folder: Path, explorer: AbstractExplorer[Any], state: State, work: LatestWork) -> None:
        self._explorer, self._work = explorer, work
        self._address = LatentsState(name_run(folder))
        self._state, self._photo = state, None
        self._changes: list[tuple[str, Any]] = []  # that are not in the state yet
        self._controls = {control.name: control for control in explorer.controls}
        add_note(explorer.about)
        with ui.element("div").classes("explorer"):
            with ui.element("div").classes("explorer-controls"):
                self._built = {
                    control.name: build_control(control, self._change, self._use_photo) for control in explorer.controls
                }
                with ui.element("div").classes("studio-row").style("margin-top: 1rem"):
                    add_code_button("Copy as Python", lambda: explorer.write_python(self._state))
            self._views = ViewList(self._press, self._set_backdrop)

    def show(self, state: State, views: Sequence[View]) -> None:
        """Show a state, and what it gives."""
        for name, value in state.items():
            self._built[name].show(value)
        self._show_brushes(state)
        self._views.show(views)

    def _show_brushes(self, state: State) -> None:
        for control in self._explorer.controls:
            if brush := getattr(control, "brush", ""):
                self._built[control.name].set_property("brush", state[brush][0])

    def _set_backdrop(self, name: str, source: str) -> None:
        self._built[name].set_property("backdrop", source)

    async def _press(self, name: str, number: int) -> None:
        """Change a control after a click on a view."""
        if (control := self._controls.get(name)) is not None:
            latest = {**self._state, **dict(self._changes)}
            value = control.check(press(control, latest[name], number))
            self._built[name].show(value)
            await self._change(name, value)

    async def _use_photo(self, path: Path) -> None:
        photo = self._explorer.read_photo(path)
        self._photo = photo
        name = next(control.name for control in self._explorer.controls if isinstance(control, ImageControl))
        self._built[name].show(PHOTO)
        await self._change(name, PHOTO)

    async def _change(self, name: str, value: Any) -> None:
        """Compute and show what follows from a change; of changes that arrive meanwhile none is lost."""
        self._changes = [change for change in self._changes if change[0] != name] + [(name, value)]
        changes = [*self._changes]
        self._views.set_busy(True)
        try:
            result = await self._work.run(_explore, self._explorer, self._state, changes, self._photo)
        except HardmaxError as error:
            self._changes = []
            self._views.set_busy(False)
            show_message(str(error))
            return
        if result is None:
            return
        self._changes = []
        before = {**self._state, **dict(changes)}
        self._state, views = result
        for name, value in self._state.items():
            if value != before[name]:
                self._built[name].show(value)
        self._show_brushes(self._state)
        self._views.show(views)
        self._views.set_busy(False)
        self._address = replace(self._address, state=encode_state(self._state))
        save_state_in_address(self._address)
