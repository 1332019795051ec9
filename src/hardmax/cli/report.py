"""`hardmax report`: one HTML page about one or several runs."""

import argparse
from pathlib import Path

_EXAMPLES = """examples:
  hardmax report runs/first
  hardmax report runs/direct runs/gumbel --out comparison.html
  hardmax report runs/100-labels runs/600-labels
"""


def run(arguments: list[str]) -> int:
    """Write the page, and say where it is.

    Raises:
        HardmaxError: a folder holds no run, what it holds cannot be read, or the runs are of different models.
    """
    options = _parser().parse_args(arguments)
    folders = list(dict.fromkeys(Path(folder) for folder in options.runs))
    out = Path(options.out or (folders[0] / "report.html" if len(folders) == 1 else "report.html"))

    from hardmax.applications.runs import read_run, render_report
    from hardmax.report.page import write

    runs = []
    for folder in folders:
        if len(folders) > 1:
            print(f"reading {folder}")
        runs.append(read_run(folder, data=options.data, data_dir=options.data_dir))
    write(render_report(runs), out)
    print(f"the report is in {out}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hardmax report",
        description="Write one HTML page about one run, or about several of one model beside each other: numbers, "
        "curves, what the codes mean or how labels are predicted, reconstructions, samples, configuration. The page is "
        "a single file and needs no network.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="the folder of a run, as given to hardmax train --out")
    parser.add_argument(
        "--out", metavar="FILE", help="default: report.html, in the folder of the run; of several runs, in this folder"
    )
    parser.add_argument("--data", metavar="DATA", help="where the pictures are, if no longer where the run read them")
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        help="folder that holds the named data sets; default: the run's, then $HARDMAX_DATA",
    )
    return parser
