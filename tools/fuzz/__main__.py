"""`python -m tools.fuzz`: run the campaigns for some time, print the table, and save what went wrong."""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

# Before torch is imported: a forked process has one thread, and sums have the same digits in all of them.
os.environ["OMP_NUM_THREADS"] = "1"

from tools.fuzz.campaign import Campaign, run_campaign
from tools.fuzz.disk_campaign import DiskCampaign
from tools.fuzz.kill_campaign import KillCampaign
from tools.fuzz.mutation_campaign import prepare_cases, run_mutations
from tools.fuzz.name_campaign import NameCampaign
from tools.fuzz.record import Tally, format_table, save_defects
from tools.fuzz.trainings import make_trainings

_FIRST = 0.6  # part of the time for mutations, with all workers; the other campaigns run at the same time after them
_LATER: dict[str, Callable[[Path], Campaign]] = {
    "kills": lambda scratch: KillCampaign(make_trainings(scratch / "data"), scratch),
    "full disk": lambda scratch: DiskCampaign(make_trainings(scratch / "data"), scratch),
    "names": NameCampaign,
}


def main() -> int:
    """Run the campaigns; return 1 if there is a defect."""
    options = _parse_options()
    out = Path(options.out).absolute()
    print(f"seed {options.seed}, {options.seconds:.0f} s", flush=True)
    with tempfile.TemporaryDirectory(prefix="hardmax-fuzz-") as name:
        tallies = _run_all(options, Path(name)) if options.case is None else _repeat(options, Path(name))
    print(format_table(tallies))
    for path in save_defects(out, options.seed, tallies):
        print(f"written: {path}")
    return int(any(tally.defects for tally in tallies))


def _run_all(options: argparse.Namespace, scratch: Path) -> list[Tally]:
    begin, tallies = time.monotonic(), []
    if "mutations" in options.campaigns:
        share = _FIRST if len(options.campaigns) > 1 else 1.0
        tallies.append(run_mutations(options.seed, share * options.seconds, options.workers, scratch / "mutations"))
    rest = options.seconds - (time.monotonic() - begin)
    later = [name for name in _LATER if name in options.campaigns]
    others = len(later) - ("kills" in later)
    with ProcessPoolExecutor(options.workers, get_context("fork")) as pool:
        # With two workers, kills have one of them, and the others take turns.
        times = {name: rest if name == "kills" else rest / others for name in later}
        if options.workers == 1:
            times = {name: rest / len(later) for name in later}
        jobs = [pool.submit(_run_later, name, options.seed, times[name], scratch / name) for name in later]
        tallies += [job.result() for job in jobs]
    return tallies


def _run_later(name: str, seed: int, seconds: float, scratch: Path) -> Tally:
    return run_campaign(_LATER[name](scratch), seed, seconds)


def _repeat(options: argparse.Namespace, scratch: Path) -> list[Tally]:
    """Repeat one case, given as in the file of a defect: campaign, number and target."""
    campaign, case = options.case.split("/", 1)
    number = int(case.split()[0])
    if campaign != "mutations":
        return [run_campaign(_LATER[campaign](scratch), options.seed, float("inf"), first=number, most=1)]
    tally = Tally(campaign)
    tally.add_result(prepare_cases(scratch / "corpus", options.seed)(number))
    return [tally]


def _parse_options() -> argparse.Namespace:
    names = ["mutations", *_LATER]
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description="Try to break hardmax.")
    parser.add_argument("--seconds", type=float, default=600, help="time for all campaigns together")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="default: the clock")
    parser.add_argument("--workers", type=int, default=2, help="number of processes")
    parser.add_argument("--campaigns", nargs="+", choices=names, default=names, help="default: all")
    parser.add_argument("--out", default="fuzz-defects", help="folder for defects; not created if there are none")
    parser.add_argument("--case", help="repeat one case, as named in the file of a defect")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
