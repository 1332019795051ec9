"""The command `hardmax demo`: compare four estimators on the embedded images."""

import time
from dataclasses import dataclass
from pathlib import Path

from hardmax.applications.argument_parser import parse
from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.console import make_console
from hardmax.files import make_folder

# Options by name; images, networks, seed and number of epochs are the same for all.
RUNS = {
    "exact": {"estimator": "exact"},
    "posterior-direct": {"estimator": "direct"},
    "plain-direct": {"estimator": "direct", "kl": "beside"},
    "gumbel-softmax": {"estimator": "gumbel-softmax"},
}


@dataclass(frozen=True)
class DemoOptions:
    """Train a discrete VAE on the embedded Fashion-MNIST sample with four estimators of the same gradient.

    All four runs have the same networks, data, seed and number of epochs. The command writes a report that compares
    them. It takes less than a minute on two cores.

    Example: hardmax demo --out my-demo
    """

    out: str = "hardmax-demo"
    """Folder to write to; an earlier demo in it is replaced."""
    epochs: int = 25
    """Number of epochs of each run."""


def run(arguments: list[str]) -> int:
    """Train, print a table, write the report and print its path."""
    options = parse(DemoOptions, "demo", arguments)
    out = Path(options.out)
    configs = {
        name: DiscreteConfig(data="sample", epochs=options.epochs, out=str(out / name), **chosen)  # pyright: ignore[reportArgumentType]
        for name, chosen in RUNS.items()
    }
    from rich.table import Table

    from hardmax.applications.runs import read_run, render_report, train
    from hardmax.progress_bar import show_bar
    from hardmax.report.page import write_page
    from hardmax.training.locks import remove_run
    from hardmax.training.loop import Observer
    from hardmax.training.run_folder import read_rows

    make_folder(out)
    console = make_console()
    table = Table(title=f"4,500 images, 10 categories, {options.epochs} epochs: -ELBO in nats, lower is better")
    table.add_column("estimator", no_wrap=True)
    for column in ("epoch 1", "5", str(options.epochs), "-log p(x)", "active", "seconds"):
        table.add_column(column, justify="right")
    with show_bar(total=len(configs) * options.epochs, console=console) as bar:
        for name, config in configs.items():
            remove_run(Path(config.out))
            bar.advance(0, name)
            begin = time.perf_counter()
            train(config, Observer(on_epoch=lambda rows: bar.advance()))
            seconds = time.perf_counter() - begin
            rows = [row for row in read_rows(Path(config.out) / "metrics.jsonl") if row["split"] == "test"]
            at = [rows[0], rows[min(4, len(rows) - 1)], rows[-1]]
            bounds = [f"{-row['elbo']:.2f}" for row in at]
            table.add_row(name, *bounds, f"{at[-1]['nll']:.2f}", str(at[-1]["active"]), f"{seconds:.1f}")
    console.print(table)
    page = out / "report.html"
    write_page(render_report([read_run(config.out) for config in configs.values()]), page)
    console.print(f"the report is in {page}")
    return 0
