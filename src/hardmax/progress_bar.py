"""The progress display of all commands. The only module that imports `rich.progress`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


class ProgressBar:
    """A bar, the time gone by, the time left, and what is being done; made by `show_bar`."""

    def __init__(self, display: Progress, task: TaskID) -> None:
        self._display, self._task = display, task

    def update(self, done: float, total: float | None = None, description: str | None = None) -> None:
        """Show how much is done; what is not given stays as it was."""
        self._display.update(self._task, completed=max(done, 0), total=total, description=description)

    def advance(self, count: float = 1, description: str | None = None) -> None:
        """Show that so much more is done."""
        self._display.update(self._task, advance=count, description=description)


@contextmanager
def show_bar(
    description: str = "", total: float | None = None, *, console: Console | None = None, seconds: float = 600
) -> Iterator[ProgressBar]:
    """Show one bar while the block runs; it is erased at the end.

    Args:
        description: what is being done.
        total: how much there is to do; the bar pulses while it is unknown.
        console: where to; by default standard error.
        seconds: the speed that tells the time left is the mean over so many.
    """
    columns = (
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),  # last, as its width changes
    )
    console = console or Console(stderr=True)
    with Progress(*columns, console=console, transient=True, speed_estimate_period=seconds) as display:
        yield ProgressBar(display, display.add_task(description, total=total))


@contextmanager
def show_named_bars(unit: Literal["bytes", "items"]) -> Iterator[Callable[[str, int, int | None], None]]:
    """Show a bar for each of several things, on standard error; they stay there.

    The block is given a function to call with the thing's name, how much of it is done, and how much there is, if that
    is known.
    """
    counts: dict[str, tuple[ProgressColumn, ...]] = {
        "bytes": (DownloadColumn(), TransferSpeedColumn()),
        "items": (MofNCompleteColumn(),),
    }
    name_column = TextColumn("{task.description}", markup=False)
    display = Progress(name_column, BarColumn(), *counts[unit], console=Console(stderr=True))
    tasks: dict[str, TaskID] = {}

    def update(name: str, done: int, total: int | None) -> None:
        if not tasks:
            display.start()  # not before: a display with nothing to show would leave an empty line
        if name not in tasks:
            tasks[name] = display.add_task(name, total=total)
        display.update(tasks[name], completed=done, total=total)

    try:
        yield update
    finally:
        if tasks:
            display.stop()
