"""Progress display of `hardmax reproduce`."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from hardmax.experiments.runner.progress import Pace, ProgressCallbacks, SweepStatus
from hardmax.progress_bar import format_clock, show_bar

_LINES = 20  # largest number of runs that are shown
_READS = 20  # runs whose progress is read per second: with a thousand runs, each is read once a minute
_PAUSE = 60.0  # seconds between two lines if there is no terminal


class SweepDisplay:
    """Display of the progress of runs: counts, a line for each that is running, and the time left."""

    def __init__(self) -> None:
        self._begin = self._due = time.monotonic()
        self._status, self._pace = SweepStatus(0), Pace()
        self._running, self._left = [], None

    def update(self, status: SweepStatus) -> None:
        """Store the current progress of the runs."""
        self._status = status

    def summarize(self) -> str:
        """Return the progress as one line."""
        self._read_progress()
        status = self._status
        parts = [f"{status.done} of {status.total} done", f"{len(status.running)} running"]
        parts += [f"{len(status.waiting)} waiting"] if status.waiting else []
        parts += [f"{len(status.elsewhere)} with other runners"] if status.elsewhere else []
        parts += [f"{len(status.failed)} failed"] if status.failed else []
        left = "" if self._left is None else f", about {format_clock(self._left)} left"
        return f"{', '.join(parts)}; {format_clock(time.monotonic() - self._begin)}{left}"

    def __rich__(self) -> Group:
        text, status = self.summarize(), self._status
        head, lines = Table.grid(padding=(0, 2)), Table.grid(padding=(0, 2))
        head.add_row(ProgressBar(max(status.total, 1), status.done, width=20), text)
        for planned, progress in self._running[:_LINES]:
            bound = "" if progress.bound is None else f"−ELBO {progress.bound:.2f}"
            lines.add_row(planned.name, f"epoch {min(progress.epoch + 1, progress.epochs)}/{progress.epochs}", bound)
        if len(self._running) > _LINES:
            lines.add_row(f"and {len(self._running) - _LINES} more")
        return Group(head, lines)

    def _read_progress(self) -> None:
        status, now = self._status, time.monotonic()
        if now >= self._due:
            progress = self._pace.update(status)
            self._running = list(zip(status.running, progress, strict=True))
            self._left = self._pace.seconds_left(status, progress)
            self._due = now + max(0.5, len(progress) / _READS)


@contextmanager
def show_runs(console: Console, callbacks: ProgressCallbacks) -> Iterator[ProgressCallbacks]:
    """Show the progress of runs: live on a terminal, else one line a minute."""
    display = SweepDisplay()
    if console.is_terminal:
        with Live(display, console=console, transient=True, refresh_per_second=2):
            yield replace(callbacks, status=display.update)
        return
    due = time.monotonic() + _PAUSE

    def print_status(status: SweepStatus) -> None:
        nonlocal due
        display.update(status)
        if time.monotonic() >= due:
            callbacks.say(display.summarize())
            due = time.monotonic() + _PAUSE

    yield replace(callbacks, status=print_status)


@contextmanager
def show_measurements(console: Console, callbacks: ProgressCallbacks) -> Iterator[ProgressCallbacks]:
    """Show the progress of measurements, one at a time."""
    # Their durations differ widely: the time left is estimated from the mean speed over the last hour.
    with show_bar(console=console, seconds=3600) as bar:
        at, place = 0, ""

        def begin(name: str, done: int, total: int) -> None:
            nonlocal at, place
            at, place = done, f"{done} of {total}: "
            bar.update(done, total, f"{place}{name}")

        def step(part: float, doing: str) -> None:
            bar.update(at + part, description=f"{place}{doing}")

        yield replace(callbacks, begin=begin, step=step)


# By the kind of work that a table or figure needs.
SHOW_PROGRESS = {"runs": show_runs, "measurements": show_measurements}
