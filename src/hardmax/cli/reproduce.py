"""The command `hardmax reproduce`: train, measure and write a table or figure of the paper."""

import signal
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from hardmax.applications.argument_parser import Argument, Metavar, parse
from hardmax.console import make_console, print_line
from hardmax.errors import ArgumentError
from hardmax.experiments.tables.declaration import AbstractExperiment
from hardmax.experiments.tables.registry import NAMES, find_experiment


@dataclass(frozen=True)
class ReproduceOptions:
    """Reproduce a table or figure: train, measure, and write the tables, the figures and the rows of results.

    Some experiments train many models and compare their numbers or images; others train one model and compare
    estimators of its gradient. Results that exist are kept, and a stopped experiment continues. Tables are written as
    HTML, Markdown and LaTeX, figures as SVG, results as JSON lines.

    Examples:
      hardmax reproduce figure3 --quick
      hardmax reproduce figure1 --out results/figure1
      hardmax reproduce figure3 --only general-gibbs-covariance general-direct
      hardmax reproduce table2 --only 'mnist-*-direct' --seeds 0
      hardmax reproduce figure3 --workers 4
      hardmax reproduce figure3 --cluster tcp://scheduler:8786 --out /shared/figure3
      hardmax reproduce gradient-quality --list
    """

    name: Annotated[str | None, Argument("NAME", f"One of: {', '.join(NAMES)}.")] = None
    quick: bool = False
    """Run a small version on the embedded images; takes about a minute."""
    out: str | None = None
    """Folder to write to; default: hardmax-NAME, or hardmax-NAME-quick."""
    only: Annotated[tuple[str, ...], Metavar("CELL")] = ()
    """Run only these cells (or parts); a name may be a pattern in quotes, such as 'mnist-*'."""
    seeds: Annotated[tuple[int, ...], Metavar("INT")] = ()
    """Run only these seeds."""
    list: bool = False
    """List the cells (or parts) of NAME; without NAME, all experiments."""
    workers: int | None = None
    """Number of processes on this machine to train in."""
    cluster: Annotated[str | None, Metavar("ADDRESS")] = None
    """Address of a cluster to train on: dask://HOST:PORT, tcp://HOST:PORT, ray://HOST:PORT or ray://auto. --out must
    be a folder that all machines of the cluster share."""
    rows: Annotated[tuple[str, ...], Metavar("FILE")] = ()
    """Also use matching rows of these results.jsonl files."""
    data_dir: str | None = None
    """Folder that contains the named data sets; default: the environment variable HARDMAX_DATA."""


def run(arguments: list[str]) -> int:
    """Compute the missing results, and print where the results are.

    Raises:
        HardmaxError: an unknown table, figure, cell or part; data or folders that cannot be used.
    """
    options = parse(ReproduceOptions, "reproduce", arguments)
    if options.name is None:
        if not options.list:
            raise ArgumentError(f"name a table or figure to reproduce; there are: {', '.join(NAMES)}")
        for name in NAMES:
            print(find_experiment(name).title)
            print(f"  hardmax reproduce {name}")
        return 0
    experiment = find_experiment(options.name)
    items = _list_items(experiment, options)  # an unknown name fails here, before anything is loaded
    if options.list:
        print("\n".join([experiment.title, *items]))
        return 0
    out = Path(options.out or f"hardmax-{experiment.name}{'-quick' if options.quick else ''}")
    for option in ("workers", "cluster", "rows", "seeds"):
        if experiment.work == "measurements" and getattr(options, option):
            raise ArgumentError(
                f"{experiment.name} is one training run with measurements: --{option} is for experiments of many runs; "
                "leave it out"
            )
    return _reproduce(experiment, out, options)


def _list_items(experiment: AbstractExperiment, options: ReproduceOptions) -> list[str]:
    """Return lines that list the choices of `--seeds` and `--only`."""
    head = experiment.describe(options.seeds, quick=options.quick)
    items = {item.name: item.description for item in experiment.choose_items(options.only)}
    width = max(map(len, items))
    return [head, *(f"  {name:<{width}}  {text}" for name, text in items.items())]


def _reproduce(experiment: AbstractExperiment, out: Path, options: ReproduceOptions) -> int:
    from hardmax.experiments.runner.executors import choose_executor

    executor = choose_executor(options.workers, options.cluster)  # fails for a cluster that does not answer
    from hardmax.cli.live import SHOW_PROGRESS
    from hardmax.experiments.runner.progress import ProgressCallbacks
    from hardmax.experiments.runner.reproduce import reproduce

    console = make_console()
    asked_to_stop = False

    def on_signal(number: int, frame: Any) -> None:
        nonlocal asked_to_stop
        if asked_to_stop:
            raise KeyboardInterrupt
        asked_to_stop = True
        console.print("saving (once more Ctrl-C to stop at once) ...")

    def say(text: str) -> None:
        console.print(text, soft_wrap=True)

    callbacks = ProgressCallbacks(
        say, finished=lambda name, result: say(f"{name:<44} {result}"), stop=lambda: asked_to_stop
    )
    before = signal.signal(signal.SIGINT, on_signal)
    try:
        with executor or nullcontext(), SHOW_PROGRESS[experiment.work](console, callbacks) as display_callbacks:
            result = reproduce(
                experiment,
                out,
                quick=options.quick,
                only=options.only,
                seeds=options.seeds,
                data_dir=options.data_dir,
                rows=[*map(Path, options.rows)],
                executor=executor,
                callbacks=display_callbacks,
            )
    finally:
        signal.signal(signal.SIGINT, before)
    if result.stopped:
        say("stopped and saved; the same command goes on")
        return 130
    figures = sorted(path.name for kind in ("svg", "png") for path in out.glob(f"{experiment.name}*.{kind}"))
    pages = [f"results.{kind}" for kind in ("html", "md", "tex")]
    say(f"the results are in {out}: {', '.join([*pages, *figures, 'results.jsonl'])}")
    if result.failed:
        names = ", ".join(result.failed)
        print_line(
            f"hardmax: error: {len(result.failed)} runs failed: {names}; the same command tries again", error=True
        )
    return 1 if result.failed else 0
