"""The command `hardmax report`: write one HTML page about one or several runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from hardmax.applications.argument_parser import Argument, parse
from hardmax.console import print_line


@dataclass(frozen=True)
class ReportOptions:
    """Write an HTML page about one run, or about several runs of one model side by side.

    The page shows numbers, curves, what the codes mean or how labels are predicted, reconstructions, samples, and
    the configuration. It is a single file and needs no network.

    Examples:
      hardmax report runs/first
      hardmax report runs/direct runs/gumbel --out comparison.html
      hardmax report runs/100-labels runs/600-labels
    """

    runs: Annotated[tuple[str, ...], Argument("RUN")]
    """Folder of a run: the value of --out of hardmax train."""
    out: str | None = None
    """File to write; default: report.html in the folder of the run, or in the current folder for several runs."""
    data: str | None = None
    """Path of the data, if they have moved since the run was trained."""
    data_dir: str | None = None
    """Folder that contains the named data sets; default: that of the run, then the environment variable
    HARDMAX_DATA."""


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
            print_line(f"reading {folder}")
        runs.append(read_run(folder, data=options.data, data_dir=options.data_dir))
    write_page(render_report(runs), out)
    print_line(f"the report is in {out}")
    return 0
