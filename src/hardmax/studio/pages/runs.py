"""The page of runs: every run below the folders of the studio, live; several side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final
from urllib.parse import quote, unquote

from nicegui import events, ui

from hardmax.applications.runs import read_run, render_report
from hardmax.errors import HardmaxError
from hardmax.names import escape_control_characters
from hardmax.studio.folders import Folders
from hardmax.studio.frame import (
    Studio,
    add_link_button,
    add_note,
    add_text,
    load_style,
    save_state_in_address,
    show_problem,
)
from hardmax.studio.page_state import read_state
from hardmax.studio.runs.comparison import Split
from hardmax.studio.runs.run_list import MOST_RUNS, WatchedRun, find_runs, name_run
from hardmax.studio.runs.section import build_section, compare_runs
from hardmax.studio.work import CheckCancelled, LatestWork

_SECONDS = 1.0  # between two looks at the runs
_RESCAN = 5  # looks between two searches for new runs
_MOST_ROWS = 100  # of the table
_MOST_COMPARED = 12


@dataclass(frozen=True)
class RunsState:
    """What the page of runs shows."""

    runs: tuple[str, ...] = ()
    """Runs to compare; a comma in a path is written as %2C."""
    quantity: str = ""
    """Quantity of the curves; empty: the first one."""
    split: Split = "validation"
    """Examples of the curves of several runs."""
    filter: str = ""
    """Words that the path of a run in the table contains."""


def write_report(studio: Studio, query: Mapping[str, str]) -> str:
    """Return the report of a run, as `hardmax report` writes it.

    Raises:
        DataError: there is no such run below the folders, or none of its epochs has finished.
    """
    return render_report([read_run(studio.folders.resolve_path(query.get("run", "")))])


def build_page(studio: Studio, query: Mapping[str, str]) -> None:
    """Build the page."""
    load_style("runs.css")
    state = read_state(RunsState, query)
    if not studio.folders.roots:
        show_problem("No folder was given: restart with the folder of your runs, such as hardmax studio runs")
        return
    ui.timer(_SECONDS, _RunsPage(studio.folders, state).refresh)  # the first time as soon as the page is shown


@dataclass(frozen=True)
class _TableRow:
    """The elements of one run in the table."""

    element: ui.element
    cells: Sequence[ui.label]


@final
class _RunsPage:
    """The elements of the page, and the runs that it watches."""

    def __init__(self, folders: Folders, state: RunsState) -> None:
        self._folders, self._state = folders, state
        self._watched: dict[Path, WatchedRun] = {}
        self._rows: dict[Path, _TableRow] = {}
        self._looks, self._section_of, self._drawn = 0, None, None
        self._look, self._draw = LatestWork(), LatestWork()
        ui.context.client.on_delete(self._look.cancel)
        ui.context.client.on_delete(self._draw.cancel)
        self._chosen = [Path.cwd() / unquote(name) for name in state.runs]
        with ui.element("div").classes("studio-row"):
            words = ui.input("Filter by path", value=state.filter, on_change=self._change_filter)
            words.props("dense outlined clearable")
            add_link_button()
        self._note = add_note("Reading the runs ...")
        with ui.element("div").classes("studio-scroll"), ui.element("table").classes("plain"):
            with ui.element("thead"), ui.element("tr"):
                for heading in ("", "run", "state", "epochs", "best", "model", "data"):
                    add_text("th", heading)
            self._body = ui.element("tbody")
        self._problems = ui.element("div")
        self._section = ui.element("section").props('aria-label="Chosen runs"')

    async def refresh(self) -> None:
        """Look at the runs, and change what has changed on the page."""
        searches = self._looks % _RESCAN == 0
        result = await self._look.run(_look_at_runs, self._folders, self._watched, searches)
        if result is None:
            return
        self._looks += 1
        self._watched, changed = result
        if self._looks == 1 and not self._chosen and len(self._watched) == 1:
            self._chosen = [*self._watched]
        self._update_table()
        if self._looks == 1 or changed & {*self._chosen}:
            await self._update_section()

    def _update_table(self) -> None:
        """Show a row for each run whose path contains all words of the filter."""
        words = self._state.filter.lower().split()
        matching = [run for run in self._watched.values() if all(word in str(run.folder).lower() for word in words)]
        shown = matching[:_MOST_ROWS]
        self._note.text = self._describe_table(len(shown))
        if [*self._rows] != [run.folder for run in shown]:
            self._body.clear()
            with self._body:
                self._rows = {run.folder: self._add_row(run) for run in shown}
        for run in shown:
            row = self._rows[run.folder]
            row.element.props(f"data-state={run.status.state}")
            for cell, text in zip(row.cells, _describe_run(run), strict=True):
                if cell.text != text:
                    cell.text = text

    def _describe_table(self, shown: int) -> str:
        count = len(self._watched)
        if not count:
            roots = ", ".join(escape_control_characters(str(root)) for root in self._folders.roots)
            return f"No runs in {roots}. Make one with: hardmax train --out FOLDER"
        text = f"{count} run{'s' * (count > 1)}"
        if count >= MOST_RUNS:
            text = f"The first {MOST_RUNS} runs; restart with a smaller folder to see others"
        if shown < count:
            text += f"; {shown} of them are shown"
        return f"{text}. Choose one to see its curves, or several to compare them."

    def _add_row(self, run: WatchedRun) -> _TableRow:
        with ui.element("tr") as element:
            with ui.element("td"):
                box = ui.checkbox(value=run.folder in self._chosen).props("dense")
                box._props["aria-label"] = f"show {escape_control_characters(run.name)}"
                box.on_value_change(lambda event: self._choose(run.folder, chosen=bool(event.value)))
            cells = []
            for _ in range(6):
                with ui.element("td"):
                    cells.append(ui.label())
        return _TableRow(element, cells)

    async def _choose(self, folder: Path, *, chosen: bool) -> None:
        others = [path for path in self._chosen if path != folder]
        self._chosen = [*others, folder] if chosen else others
        runs = tuple(quote(name_run(folder), safe="/") for folder in self._chosen)
        await self._change(replace(self._state, runs=runs))

    async def _change_quantity(self, event: events.ValueChangeEventArguments) -> None:
        await self._change(replace(self._state, quantity=event.value))

    async def _change_split(self, event: events.ValueChangeEventArguments) -> None:
        await self._change(replace(self._state, split=event.value))

    def _change_filter(self, event: events.ValueChangeEventArguments) -> None:
        self._state = replace(self._state, filter=event.value or "")
        save_state_in_address(self._state)
        self._update_table()

    async def _change(self, state: RunsState) -> None:
        self._state = state
        save_state_in_address(state)
        await self._update_section()

    async def _update_section(self) -> None:
        """Draw the curves of the chosen runs, and build the rest of their section if other runs have been chosen."""
        runs = self._resolve_chosen()
        shown = await self._draw.run(compare_runs, runs, self._state.quantity, self._state.split)
        if shown is None:
            return
        # The section of a run whose options could not be read has no quantities; it is built again when they can.
        section_of = [run.folder for run in runs], shown.quantities, shown.names
        if section_of != self._section_of:
            self._section_of = section_of
            self._section.clear()
            with self._section:
                self._drawn = (
                    build_section(runs, shown, self._state.split, self._change_quantity, self._change_split)
                    if runs
                    else None
                )
        if self._drawn is not None:
            self._drawn(shown)

    def _resolve_chosen(self) -> list[WatchedRun]:
        """Return the chosen runs, also those that have been deleted since; others are left out with a sentence."""
        chosen, problems = [], []
        for folder in self._chosen[:_MOST_COMPARED]:
            if folder in self._watched:
                chosen.append(self._watched[folder])
                continue
            try:
                problems.append(f"{self._folders.resolve_path(folder)} holds no run")
            except HardmaxError as error:
                problems.append(str(error))
        if len(self._chosen) > _MOST_COMPARED:
            problems.append(f"Only the first {_MOST_COMPARED} of {len(self._chosen)} runs are compared.")
        self._problems.clear()
        with self._problems:
            for problem in problems:
                show_problem(problem)
        return chosen


def _look_at_runs(
    check: CheckCancelled, folders: Folders, watched: Mapping[Path, WatchedRun], searches: bool
) -> tuple[dict[Path, WatchedRun], set[Path]]:
    """Return the runs below the folders, and those of which anything has changed; deleted ones stay."""
    runs = dict(watched)
    if searches:
        for folder in find_runs(folders.roots):
            runs.setdefault(folder, WatchedRun(folder))
        runs = {folder: runs[folder] for folder in sorted(runs)}
    changed = set()
    for folder, run in runs.items():
        check()
        if run.refresh():
            changed.add(folder)
    return runs, changed


def _describe_run(run: WatchedRun) -> tuple[str, ...]:
    """Return the cells of a run in the table."""
    status, application, score = run.status, run.application, run.score
    epochs = f"{status.epoch} of {status.epochs}" if status.epochs else ""
    best = ""
    if score is not None and application is not None:
        criterion = application.metrics.criterion
        best = f"−ELBO {-score:,.2f}" if criterion == "elbo" else f"{criterion} {score:.4g}"
    data = Path(str(run.config.data)).name if run.config is not None else ""
    texts = (run.name, status.state, epochs, best.replace("-", "−"), application.name if application else "", data)
    return tuple(map(escape_control_characters, texts))
