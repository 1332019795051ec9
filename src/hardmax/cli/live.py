"""What the reader sees while a table or figure is made."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress_bar import ProgressBar
from rich.table import Table

from hardmax.experiments.runner.progress import Pace, Standing, Watcher

_LINES = 20  # most runs that are shown
_LOOKS = 20  # runs that are looked at in a second: of a thousand, each comes once in a minute
_PAUSE = 60.0  # seconds between two lines where there is no terminal


class Board:
    """How far the runs are: numbers, a line for each that is being made, and the time left."""

    def __init__(self) -> None:
        self._begin = self._due = time.monotonic()
        self._standing, self._pace = Standing(0), Pace()
        self._running, self._left = [], None

    def put(self, standing: Standing) -> None:
        """Take note of how far the runs are."""
        self._standing = standing

    def summary(self) -> str:
        """Return one line."""
        standing = self._look()
        parts = [f"{standing.done} of {standing.total} done", f"{len(standing.running)} running"]
        parts += [f"{len(standing.waiting)} waiting"] if standing.waiting else []
        parts += [f"{len(standing.elsewhere)} with other runners"] if standing.elsewhere else []
        parts += [f"{len(standing.failed)} failed"] if standing.failed else []
        left = "" if self._left is None else f", about {_clock(self._left)} left"
        return f"{', '.join(parts)}; {_clock(time.monotonic() - self._begin)}{left}"

    def __rich__(self) -> Group:
        text, standing = self.summary(), self._standing
        head, lines = Table.grid(padding=(0, 2)), Table.grid(padding=(0, 2))
        head.add_row(ProgressBar(max(standing.total, 1), standing.done, width=20), text)
        for planned, progress in self._running[:_LINES]:
            bound = "" if progress.bound is None else f"−ELBO {progress.bound:.2f}"
            lines.add_row(planned.name, f"epoch {min(progress.epoch + 1, progress.epochs)}/{progress.epochs}", bound)
        if len(self._running) > _LINES:
            lines.add_row(f"and {len(self._running) - _LINES} more")
        return Group(head, lines)

    def _look(self) -> Standing:
        standing, now = self._standing, time.monotonic()
        if now >= self._due:
            found = self._pace.look(standing)
            self._running = list(zip(standing.running, found, strict=True))
            self._left = self._pace.seconds_left(standing, found)
            self._due = now + max(0.5, len(found) / _LOOKS)
        return standing


@contextmanager
def watch_runs(console: Console, watcher: Watcher) -> Iterator[Watcher]:
    """Show how runs come along: live on a terminal, else a line now and then."""
    board = Board()
    if console.is_terminal:
        with Live(board, console=console, transient=True, refresh_per_second=2):
            yield replace(watcher, standing=board.put)
        return
    due = time.monotonic() + _PAUSE

    def standing(found: Standing) -> None:
        nonlocal due
        board.put(found)
        if time.monotonic() >= due:
            watcher.say(board.summary())
            due = time.monotonic() + _PAUSE

    yield replace(watcher, standing=standing)


@contextmanager
def watch_measurements(console: Console, watcher: Watcher) -> Iterator[Watcher]:
    """Show how measurements come along, one at a time."""
    columns = (
        TextColumn("{task.fields[made]}"),
        BarColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    # They take very different times: the speed that tells the time left is the mean over the last hour.
    with Progress(*columns, console=console, transient=True, speed_estimate_period=3600) as bar:
        task = bar.add_task("", total=None, made="")
        at = 0

        def begin(name: str, done: int, total: int) -> None:
            nonlocal at
            at = done
            bar.update(task, description=name, made=f"{done} of {total}", total=total, completed=done)

        def step(part: float, doing: str) -> None:
            bar.update(task, description=doing, completed=at + part)

        yield replace(watcher, begin=begin, step=step)


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
