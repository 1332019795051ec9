"""`hardmax reproduce`: a table or figure, from its declaration to what a reader looks at."""

import argparse
import signal
from pathlib import Path
from typing import Any

from hardmax.errors import ArgumentError
from hardmax.experiments.catalogue import NAMES, choose_cells, find_experiment
from hardmax.experiments.declaration import Experiment

_EXAMPLES = """examples:
  hardmax reproduce figure3 --quick
  hardmax reproduce figure3 --out results/figure3
  hardmax reproduce figure3 --only general-gibbs-covariance general-direct
  hardmax reproduce figure3 --list
"""


def run(arguments: list[str]) -> int:
    """Make the runs that are missing, and say where the results are.

    Raises:
        HardmaxError: no such table, figure or cell; data or folders that cannot be used.
    """
    options = _parser().parse_args(arguments)
    if options.name is None:
        if not options.list:
            raise ArgumentError(f"name a table or figure to reproduce; there are: {', '.join(NAMES)}")
        for name in NAMES:
            print(find_experiment(name).title)
            print(f"  hardmax reproduce {name}")
        return 0
    experiment = find_experiment(options.name)
    cells = choose_cells(experiment, options.only)
    if options.list:
        width = max(len(cell.name) for cell in cells)
        print(f"{experiment.title}\nseeds {', '.join(map(str, experiment.seeds))}; cells:")
        for cell in cells:
            print(f"  {cell.name:<{width}}  {cell.group}, lr {cell.lr:g}")
        return 0
    out = Path(options.out or f"hardmax-{experiment.name}{'-quick' if options.quick else ''}")
    return _reproduce(experiment, out, options.quick, options.only, options.data_dir)


def _reproduce(experiment: Experiment, out: Path, quick: bool, only: list[str], data_dir: str | None) -> int:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from hardmax.experiments.plan import Planned
    from hardmax.experiments.results import Row
    from hardmax.experiments.runner import Watcher, reproduce

    console = Console()
    asked_to_stop = False

    def on_signal(number: int, frame: Any) -> None:
        nonlocal asked_to_stop
        if asked_to_stop:
            raise KeyboardInterrupt
        asked_to_stop = True
        console.print("saving (once more Ctrl-C to stop at once) ...")

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    columns = (
        TextColumn("{task.fields[runs]}"),
        BarColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    # Cells take very different times: the speed that tells the time left is the mean over the last hour.
    with Progress(*columns, console=console, transient=True, speed_estimate_period=3600) as bar:
        task = bar.add_task("", total=None, runs="")
        at = 0

        def begin(planned: Planned, done: int, total: int) -> None:
            nonlocal at
            at = done
            bar.update(task, description=planned.name, runs=f"{done} of {total} runs", total=total, completed=done)

        def step(planned: Planned, epoch: int, done: int, total: int) -> None:
            epochs = planned.config.epochs
            part = (epoch + done / total) / epochs
            bar.update(task, description=f"{planned.name}, epoch {epoch + 1}/{epochs}", completed=at + part)

        def finished(planned: Planned, row: Row) -> None:
            test = row["test"][-1]
            say(
                f"{planned.name:<44} -ELBO {test['negative_elbo']:.2f}  -log p {test['nll']:.2f}  "
                f"{row['seconds_per_epoch']:.1f} s per epoch"
            )

        watcher = Watcher(say, begin, step, finished, lambda: asked_to_stop)
        before = signal.signal(signal.SIGINT, on_signal)
        try:
            whole = reproduce(experiment, out, quick=quick, only=only, data_dir=data_dir, watcher=watcher)
        finally:
            signal.signal(signal.SIGINT, before)
    if not whole:
        say("stopped and saved; the same command goes on")
        return 130
    say(f"the results are in {out}: results.md, {experiment.name}.svg, {experiment.name}.png, results.jsonl")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hardmax reproduce",
        description="Make a table or figure of the paper: train every cell with every seed, and write a table in "
        "Markdown, a figure and one row of JSON for each run. What is there already is not made again, and what was "
        "stopped goes on.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help=f"one of: {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="a small form on the embedded pictures, in two minutes")
    parser.add_argument("--out", metavar="DIR", help="folder to write to; default: hardmax-NAME, or hardmax-NAME-quick")
    parser.add_argument("--only", nargs="+", default=[], metavar="CELL", help="make these cells alone")
    parser.add_argument("--list", action="store_true", help="list the cells of NAME; without NAME, all there is")
    parser.add_argument(
        "--data-dir", metavar="DIR", help="folder that holds the named data sets; default: $HARDMAX_DATA"
    )
    return parser
