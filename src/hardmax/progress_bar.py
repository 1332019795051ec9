"""A progress bar for work that is done in several parts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


@contextmanager
def show_progress(console: Console, count: int = 1) -> Iterator[Callable[[int, float, str], None]]:
    """Show a bar for things that are made one after the other.

    The block is given a function to call with the thing's number 0..count-1, how much of it is done, and what is done.
    """
    columns = (
        TextColumn("{task.fields[made]}"),
        BarColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, speed_estimate_period=600) as bar:
        task = bar.add_task("", total=count, made="")

        def step(number: int, part: float, doing: str) -> None:
            made = f"{number + 1} of {count}" if count > 1 else ""
            bar.update(task, description=doing, made=made, completed=number + min(max(part, 0.0), 1.0))

        yield step
