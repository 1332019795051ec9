"""`hardmax reproduce`: a table or figure, from its declaration to what a reader looks at."""

import argparse
import signal
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from hardmax.errors import ArgumentError
from hardmax.experiments.runner.executors import choose_crew
from hardmax.experiments.tables.declaration import AbstractTrainings
from hardmax.experiments.tables.measurement import Measurement
from hardmax.experiments.tables.registry import NAMES, choose_cells, choose_parts, choose_seeds, find_experiment

_EXAMPLES = """examples:
  hardmax reproduce figure3 --quick
  hardmax reproduce figure1 --out results/figure1
  hardmax reproduce figure3 --only general-gibbs-covariance general-direct
  hardmax reproduce table2 --only 'mnist-*-direct' --seeds 0
  hardmax reproduce figure3 --workers 4
  hardmax reproduce figure3 --cluster tcp://scheduler:8786 --out /shared/figure3
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
    made_of = _made_of(experiment, options)  # a name that is none fails here, before anything is loaded
    if options.list:
        print("\n".join([experiment.title, *made_of]))
        return 0
    out = Path(options.out or f"hardmax-{experiment.name}{'-quick' if options.quick else ''}")
    for option in ("workers", "cluster", "rows", "seeds"):
        if isinstance(experiment, Measurement) and getattr(options, option):
            raise ArgumentError(
                f"{experiment.name} is one training with measurements on the way: --{option} is for what is made of "
                "many trainings; leave it out"
            )
    return _reproduce(experiment, out, options)


def _made_of(experiment: AbstractTrainings | Measurement, options: argparse.Namespace) -> list[str]:
    """Return lines that tell what `--seeds` and `--only` choose from."""
    if isinstance(experiment, AbstractTrainings):
        seeds = choose_seeds(experiment, options.seeds, quick=options.quick)
        head = f"seeds {', '.join(map(str, seeds))}; cells:"
        told = {cell.name: f"{cell.group}, lr {cell.lr:g}" for cell in choose_cells(experiment, options.only)}
    else:
        head = f"measured after {', '.join(map(str, experiment.epochs))} epochs; parts:"
        told = {part.name: part.title for part in choose_parts(experiment, options.only)}
    width = max(map(len, told))
    return [head, *(f"  {name:<{width}}  {text}" for name, text in told.items())]


def _reproduce(experiment: AbstractTrainings | Measurement, out: Path, options: argparse.Namespace) -> int:
    crew = choose_crew(options.workers, options.cluster)  # the same for an option, or a cluster that does not answer
    from rich.console import Console

    from hardmax.cli.live import watch_measurements, watch_runs
    from hardmax.experiments.runner.measure import measure
    from hardmax.experiments.runner.progress import Watcher
    from hardmax.experiments.runner.reproduce import End, reproduce

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

    watcher = Watcher(say, finished=lambda name, told: say(f"{name:<44} {told}"), stop=lambda: asked_to_stop)
    chosen = {"quick": options.quick, "only": options.only, "data_dir": options.data_dir}
    before = signal.signal(signal.SIGINT, on_signal)
    try:
        if isinstance(experiment, Measurement):
            with watch_measurements(console, watcher) as seen:
                whole = measure(experiment, out, **chosen, watcher=seen)
            end = End(stopped=not whole, failed={})
        else:
            with crew or nullcontext(), watch_runs(console, watcher) as seen:
                end = reproduce(
                    experiment,
                    out,
                    **chosen,
                    seeds=options.seeds,
                    rows=[*map(Path, options.rows)],
                    crew=crew,
                    watcher=seen,
                )
    finally:
        signal.signal(signal.SIGINT, before)
    if end.stopped:
        say("stopped and saved; the same command goes on")
        return 130
    pictures = sorted(path.name for kind in ("svg", "png") for path in out.glob(f"{experiment.name}*.{kind}"))
    pages = [f"results.{kind}" for kind in ("html", "md", "tex")]
    say(f"the results are in {out}: {', '.join([*pages, *pictures, 'results.jsonl'])}")
    if end.failed:
        names = ", ".join(end.failed)
        print(f"hardmax: error: {len(end.failed)} runs failed: {names}; the same command tries again", file=sys.stderr)
    return 1 if end.failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hardmax reproduce",
        description="Make a table or figure again: train, measure, and write tables as HTML, Markdown and LaTeX, "
        "figures, and rows of JSON. Some train in many ways and compare numbers, or show what the models draw; others "
        "train once and compare estimators of the gradient. What is there already is not made again, and what was "
        "stopped goes on.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help=f"one of: {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="a small form on the embedded pictures, in two minutes")
    parser.add_argument("--out", metavar="DIR", help="folder to write to; default: hardmax-NAME, or hardmax-NAME-quick")
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="CELL",
        help="make these cells, or parts, alone; a name may be a pattern, in quotes: 'mnist-*'",
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[], metavar="N", help="make runs of these seeds alone")
    parser.add_argument(
        "--list", action="store_true", help="list the cells, or parts, of NAME; without NAME, all there is"
    )
    parser.add_argument("--workers", type=int, metavar="N", help="make the runs in N processes of this machine")
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="make the runs on a cluster: dask://HOST:PORT, tcp://HOST:PORT, ray://HOST:PORT or ray://auto; --out must "
        "be a folder that all of its machines share",
    )
    parser.add_argument(
        "--rows",
        nargs="+",
        default=[],
        metavar="FILE",
        help="take rows that fit from the results.jsonl of other folders",
    )
    parser.add_argument(
        "--data-dir", metavar="DIR", help="folder that holds the named data sets; default: $HARDMAX_DATA"
    )
    return parser
