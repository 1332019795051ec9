"""Progress bars of all commands. The only module that imports `rich.progress`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
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

from hardmax.console import make_console
from hardmax.names import escape_control_characters


def format_clock(seconds: float) -> str:
    """Return a duration as hours, minutes and seconds.

    Example:
        >>> format_clock(3725.4)
        '1:02:05'
    """
    return str(timedelta(seconds=round(seconds)))


class ProgressBar:
    """A bar with the time elapsed, the time left, and a description; created by `show_bar`."""

    def __init__(self, display: Progress, task: TaskID) -> None:
        self._display, self._task = display, task

    def update(self, done: float, total: float | None = None, description: str | None = None) -> None:
        """Set the amount done; the total and the description stay unchanged if they are not given."""
        self._display.update(self._task, completed=max(done, 0), total=total, description=_make_visible(description))

    def advance(self, count: float = 1, description: str | None = None) -> None:
        """Add `count` to the amount done."""
        self._display.update(self._task, advance=count, description=_make_visible(description))


@contextmanager
def show_bar(
    description: str = "", total: float | None = None, *, console: Console | None = None, seconds: float = 600
) -> Iterator[ProgressBar]:
    """Show one bar while the block runs; it is erased at the end.

    Args:
        description: what is being done.
        total: the amount to do; the bar pulses while it is unknown.
        console: the console to write to; by default standard error.
        seconds: the time left is estimated from the mean speed over this number of seconds.
    """
    columns = (
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),  # last, as its width changes
    )
    console = console or make_console(stderr=True)
    with Progress(*columns, console=console, transient=True, speed_estimate_period=seconds) as display:
        yield ProgressBar(display, display.add_task(_make_visible(description) or "", total=total))


@contextmanager
def show_named_bars(unit: Literal["bytes", "items"]) -> Iterator[Callable[[str, int, int | None], None]]:
    """Show a bar for each of several items on standard error; the bars are not erased.

    Yields a function to call with the name of an item, the amount done, and the total amount, if that is known.
    """
    counts: dict[str, tuple[ProgressColumn, ...]] = {
        "bytes": (DownloadColumn(), TransferSpeedColumn()),
        "items": (MofNCompleteColumn(),),
    }
    name_column = TextColumn("{task.description}", markup=False)
    display = Progress(name_column, BarColumn(), *counts[unit], console=make_console(stderr=True))
    tasks: dict[str, TaskID] = {}

    def update(name: str, done: int, total: int | None) -> None:
        if not tasks:
            display.start()  # not earlier: an empty display would leave an empty line
        if name not in tasks:
            tasks[name] = display.add_task(escape_control_characters(name), total=total)
        display.update(tasks[name], completed=done, total=total)

    try:
        yield update
    finally:
        if tasks:
            display.stop()


def _make_visible(description: str | None) -> str | None:
    return None if description is None else escape_control_characters(description)
