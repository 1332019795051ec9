"""The command `hardmax report`: write one HTML page about one or several runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hardmax.applications.argument_parser import parse


@dataclass(frozen=True)
class ReportOptions:
    """Write one HTML page about one run, or about several of one model beside each other.

    It shows numbers, curves, what the codes mean or how labels are predicted, reconstructions, samples, and the
    configuration. The page is a single file and needs no network.

    Examples:
      hardmax report runs/first
      hardmax report runs/direct runs/gumbel --out comparison.html
      hardmax report runs/100-labels runs/600-labels
    """

    runs: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="RUN [RUN ...]", help_behavior_hint="(required)"),
    ]
    """The folder of a run, as given to hardmax train --out."""
    out: str | None = None
    """File to write; default: report.html, in the folder of the run; of several runs, in this folder."""
    data: str | None = None
    """Where the pictures are, if no longer where the run read them."""
    data_dir: str | None = None
    """Folder that holds the named data sets; default: the run's, then $HARDMAX_DATA."""


def run(arguments: list[str]) -> int:
    """Write the page, and print its path.

    Raises:
        HardmaxError: a folder holds no run, its files cannot be read, or the runs are of different models.
    """
    options = parse(ReportOptions, "report", arguments)
    folders = list(dict.fromkeys(Path(folder) for folder in options.runs))
    out = Path(options.out or (folders[0] / "report.html" if len(folders) == 1 else "report.html"))

    from hardmax.applications.runs import read_run, render_report
    from hardmax.report.page import write_page

    runs = []
    for folder in folders:
        if len(folders) > 1:
            print(f"reading {folder}")
        runs.append(read_run(folder, data=options.data, data_dir=options.data_dir))
    write_page(render_report(runs), out)
    print(f"the report is in {out}")
    return 0
