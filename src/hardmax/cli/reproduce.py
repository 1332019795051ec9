"""`hardmax reproduce`: a table or figure, from its declaration to what a reader looks at."""

import argparse
import signal
from pathlib import Path
from typing import Any

from hardmax.errors import ArgumentError
from hardmax.experiments.catalogue import NAMES, choose_cells, choose_parts, find_experiment
from hardmax.experiments.declaration import Experiment, Measurement

_EXAMPLES = """examples:
  hardmax reproduce figure3 --quick
  hardmax reproduce figure1 --out results/figure1
  hardmax reproduce figure3 --only general-gibbs-covariance general-direct
  hardmax reproduce gradient-quality --list
"""


def run(arguments: list[str]) -> int:
    """Make what is missing, and say where the results are.

    Raises:
        HardmaxError: no such table, figure, cell or part; data or folders that cannot be used.
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
    made_of = _made_of(experiment, options.only)  # a name that is none fails here, before anything is loaded
    if options.list:
        print("\n".join([experiment.title, *made_of]))
        return 0
    out = Path(options.out or f"hardmax-{experiment.name}{'-quick' if options.quick else ''}")
    return _reproduce(experiment, out, options.quick, options.only, options.data_dir)


def _made_of(experiment: Experiment | Measurement, only: list[str]) -> list[str]:
    """Return lines that tell what `--only` can choose."""
    if isinstance(experiment, Experiment):
        head = f"seeds {', '.join(map(str, experiment.seeds))}; cells:"
        told = {cell.name: f"{cell.group}, lr {cell.lr:g}" for cell in choose_cells(experiment, only)}
    else:
        head = f"measured after {', '.join(map(str, experiment.epochs))} epochs; parts:"
        told = {part.name: part.title for part in choose_parts(experiment, only)}
    width = max(map(len, told))
    return [head, *(f"  {name:<{width}}  {text}" for name, text in told.items())]


def _reproduce(
    experiment: Experiment | Measurement, out: Path, quick: bool, only: list[str], data_dir: str | None
) -> int:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from hardmax.experiments.measure import measure
    from hardmax.experiments.runner import reproduce
    from hardmax.experiments.watcher import Watcher

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
        TextColumn("{task.fields[made]}"),
        BarColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    # Runs take very different times: the speed that tells the time left is the mean over the last hour.
    with Progress(*columns, console=console, transient=True, speed_estimate_period=3600) as bar:
        task = bar.add_task("", total=None, made="")
        at = 0

        def begin(name: str, done: int, total: int) -> None:
            nonlocal at
            at = done
            bar.update(task, description=name, made=f"{done} of {total}", total=total, completed=done)

        def step(part: float, doing: str) -> None:
            bar.update(task, description=doing, completed=at + part)

        def finished(name: str, told: str) -> None:
            say(f"{name:<44} {told}")

        watcher = Watcher(say, begin, step, finished, lambda: asked_to_stop)
        before = signal.signal(signal.SIGINT, on_signal)
        try:
            if isinstance(experiment, Experiment):
                whole = reproduce(experiment, out, quick=quick, only=only, data_dir=data_dir, watcher=watcher)
            else:
                whole = measure(experiment, out, quick=quick, only=only, data_dir=data_dir, watcher=watcher)
        finally:
            signal.signal(signal.SIGINT, before)
    if not whole:
        say("stopped and saved; the same command goes on")
        return 130
    pictures = sorted(path.name for kind in ("svg", "png") for path in out.glob(f"{experiment.name}*.{kind}"))
    say(f"the results are in {out}: {', '.join(['results.md', *pictures, 'results.jsonl'])}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hardmax reproduce",
        description="Make a table or figure again: train, measure, and write a table in Markdown, figures and rows of "
        "JSON. Some train in many ways and compare the bounds, others train once and compare estimators of the "
        "gradient. What is there already is not made again, and what was stopped goes on.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help=f"one of: {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="a small form on the embedded pictures, in two minutes")
    parser.add_argument("--out", metavar="DIR", help="folder to write to; default: hardmax-NAME, or hardmax-NAME-quick")
    parser.add_argument("--only", nargs="+", default=[], metavar="CELL", help="make these cells, or parts, alone")
    parser.add_argument(
        "--list", action="store_true", help="list the cells, or parts, of NAME; without NAME, all there is"
    )
    parser.add_argument(
        "--data-dir", metavar="DIR", help="folder that holds the named data sets; default: $HARDMAX_DATA"
    )
    return parser
