"""Compare our losses for decisions with those of PyEPO: `python -m benchmarks.pyepo --python PYTHON [--save]`.

PYTHON is a Python that has pyepo and ortools. `--save` adds a row for each problem, seed and loss to
docs/results/decisions-pyepo.jsonl as soon as it is measured, leaves out what is there, and writes the page
docs/results/decisions-pyepo.md.
"""

import argparse
import os
import sys
from collections.abc import Sequence

import torch

from benchmarks.pyepo.comparison import Row, compare, has_pyepo
from benchmarks.pyepo.page import PROBLEMS, append_rows, format_table, read_rows, save_page
from hardmax.applications.decisions.config import DecisionsConfig


def main(arguments: Sequence[str] = ()) -> int:
    """Print a table for each problem; return 1 if PyEPO is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.environ.get("HARDMAX_PYEPO", sys.executable)
    parser.add_argument("--python", default=default, help="a Python with pyepo and ortools")
    parser.add_argument("--problems", nargs="+", default=[*PROBLEMS], choices=PROBLEMS)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds, from 0; published: 10")
    parser.add_argument("--save", action="store_true", help="store the rows, and write the page from all of them")
    options = parser.parse_args(arguments)
    if not has_pyepo(options.python):
        print(f"{options.python} has no pyepo and ortools; give --python PYTHON", file=sys.stderr)
        return 1
    stored: list[Row] = read_rows() if options.save else []
    for seed in range(options.seeds):
        for problem in options.problems:
            config = DecisionsConfig(data=problem, epochs=options.epochs, seed=seed, batch_size=32)
            present = {row["loss"] for row in stored if (row["problem"], row["seed"]) == (problem, seed)}
            rows = compare(config, options.python, present)
            print(f"{problem}, seed {seed}\n{format_table(rows)}", flush=True)
            if options.save:
                append_rows(rows)
                stored += rows
    if options.save:
        save_page(stored)
    return 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main(sys.argv[1:]))
