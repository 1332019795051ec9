"""Measure our code against hand-written code: `python -m benchmarks.speed [AREA ...] [--only TEXT] [--save]`.

Prints the rows of each area as they are measured, with the ratio, the goal and the result that was saved last. `--save`
stores the results in docs/results/speed.jsonl and writes docs/results/speed.md from them.
"""

import argparse
import os
import sys
from importlib import import_module

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # otherwise each measurement of memory is logged

import torch

from benchmarks.speed.comparison import Comparison, Growth, Result
from benchmarks.speed.results import read_results, save_results

AREAS = ("direct_step", "estimators", "growth", "drop_in", "structures")


def main() -> int:
    """Measure the rows; return 1 if one misses its goal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("areas", nargs="*", metavar="AREA", help=f"any of {', '.join(AREAS)}; default: all")
    parser.add_argument("--only", default="", metavar="TEXT", help="measure only rows whose name contains this text")
    parser.add_argument("--save", action="store_true", help="store the results and write docs/results/speed.md")
    arguments = parser.parse_args()
    if unknown := [area for area in arguments.areas if area not in AREAS]:
        parser.error(f"unknown area {', '.join(unknown)}; there are: {', '.join(AREAS)}")
    torch.set_num_threads(1)
    saved = read_results()
    results: list[Result] = []
    for area in arguments.areas or AREAS:
        rows: list[Comparison | Growth] = import_module(f"benchmarks.speed.{area}").list_rows()
        for row in rows:
            if arguments.only not in f"{row.group}, {row.name}":
                continue
            result = row.measure()
            if not results or results[-1].group != result.group:
                print(f"\n{result.group}\n{'':<64}{'ours':>10}{'goal':>7}{'last':>7}")
            results.append(result)
            before = saved.get((result.group, result.name))
            last = f"{before.value:7.2f}" if before else f"{'':>7}"
            missed = "" if result.meets_goal else "  missed"
            print(
                f"{result.name:<64}{result.value:10.2f}{result.goal:7.2f}{last}{missed}  {result.details}", flush=True
            )
    if arguments.save:
        save_results({**saved, **{(result.group, result.name): result for result in results}})
    return 0 if all(result.meets_goal for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
