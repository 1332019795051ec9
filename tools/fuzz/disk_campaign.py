"""Trainings on a disk that becomes full: one line of error, and after room was made the same result, bit for bit."""

import resource
import shutil
import signal
from pathlib import Path
from random import Random

from tools.fuzz.children import FINISHED, REFUSED, run_in_child
from tools.fuzz.file_operations import fill_disk_at, watch_operations
from tools.fuzz.kill_campaign import find_differences, measure_training
from tools.fuzz.record import Defect, Tally
from tools.fuzz.trainings import Training


class DiskCampaign:
    """Full disks; a case is a training that meets one, and is resumed.

    Args:
        trainings: the trainings, in turn.
        scratch: folder for their runs.
    """

    name = "full disk"

    def __init__(self, trainings: list[Training], scratch: Path) -> None:
        self._trainings, self._scratch = trainings, scratch
        self._complete = {training.name: measure_training(training, scratch) for training in trainings}

    def run_case(self, tally: Tally, seed: int, case: int) -> None:
        """Train until the disk is full, then resume, and compare the result."""
        chance, scratch = Random(f"{seed}/{case}"), self._scratch
        training = self._trainings[case % len(self._trainings)]
        expected, operations, _ = self._complete[training.name]
        folder, name = scratch / "run", f"{case} {training.name}"
        shutil.rmtree(folder, ignore_errors=True)
        by_size, number = chance.random() < 0.3, chance.randint(1, operations)
        size = int(10 ** chance.uniform(1.5, 5))

        def run() -> None:
            if by_size:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
            else:
                watch_operations(fill_disk_at(number))
            training.run(folder)

        what = f"files of at most {size} bytes" if by_size else f"full at operation {number}"
        first = run_in_child(run, scratch / "log")
        tally.add_case(name, first.seconds)
        problem = None
        if first.code not in (FINISHED, REFUSED) or "\n" in first.text.strip() * (first.code == REFUSED):
            problem = first.text
        else:
            second = run_in_child(lambda: training.run(folder), scratch / "log")
            if second.code != FINISHED:
                problem = f"resuming failed: {second.text}"
            elif differences := find_differences(training.summarize(folder), expected):
                problem = f"differs from an uninterrupted run: {differences}"
        if problem is not None:
            line = (problem.strip().splitlines() or [""])[-1][:300]
            tally.add_defect(
                Defect(name, f"{training.name}, {what}: {line}\n{problem}", f"{training.name} {line[:60]}")
            )
