"""Trainings that are killed at file operations and at random moments, and resumed: the same result, bit for bit."""

import shutil
from pathlib import Path
from random import Random

from tools.fuzz.children import CRASHED, FINISHED, REFUSED, Outcome, run_in_child
from tools.fuzz.file_operations import kill_at, watch_operations
from tools.fuzz.record import Defect, Tally
from tools.fuzz.trainings import Training

_MOST_KILLS = 3  # of one run


class KillCampaign:
    """Kills; a case is one with what follows it. Only the moments of random kills are not determined by the seed.

    Args:
        trainings: the trainings, which are killed in turn.
        scratch: folder for their runs.
    """

    name = "kills"

    def __init__(self, trainings: list[Training], scratch: Path) -> None:
        self.trainings, self._scratch = trainings, scratch
        self._complete = {training.name: measure_training(training, scratch) for training in trainings}

    def run_case(self, tally: Tally, seed: int, case: int) -> None:
        """Kill a training up to three times, resume it each time, and compare the result."""
        chance = Random(f"{seed}/{case}")
        training = self.trainings[case % len(self.trainings)]
        expected, operations, seconds = self._complete[training.name]
        folder, name = self._scratch / "run", f"{case} {training.name}"
        shutil.rmtree(folder, ignore_errors=True)
        history = []
        for _ in range(chance.randint(1, _MOST_KILLS)):
            way = chance.choice(("operation", "operation", "torn", "moment"))
            number = chance.randint(1, operations)
            history.append(f"{way} {number}")
            outcome = self._kill(training, folder, way, number, Random(chance.random()), seconds)
            tally.add_case(name, outcome.seconds)
            if outcome.code == FINISHED:
                break
            inspected = run_in_child(lambda: training.inspect(folder), self._scratch / "log")
            for result in (outcome, inspected):
                if result.code in (CRASHED, REFUSED) and not _has_no_checkpoint(result):
                    _report(tally, name, history, training, result.text)
                    return
        outcome = run_in_child(lambda: training.run(folder), self._scratch / "log")
        if outcome.code != FINISHED:
            _report(tally, name, history, training, outcome.text)
        elif differences := find_differences(training.summarize(folder), expected):
            _report(tally, name, history, training, f"differs from an uninterrupted run: {differences}")

    def _kill(self, training: Training, folder: Path, way: str, number: int, chance: Random, seconds: float) -> Outcome:
        log = self._scratch / "log"
        if way == "moment":
            return run_in_child(lambda: training.run(folder), log, kill_after=chance.uniform(0, seconds))

        def run() -> None:
            watch_operations(kill_at(number, torn=chance if way == "torn" else None))
            training.run(folder)

        return run_in_child(run, log)


def measure_training(training: Training, scratch: Path) -> tuple[dict[str, str], int, float]:
    """Train without an interruption; return the result, the number of file operations, and the seconds."""
    scratch.mkdir(parents=True, exist_ok=True)
    folder, count = scratch / f"complete-{training.name}", scratch / "count"

    def run() -> None:
        numbers: list[int] = []
        watch_operations(lambda number, name, argument: numbers.append(number))
        training.run(folder)
        total = numbers[-1]
        count.write_text(str(total))

    outcome = run_in_child(run, scratch / "log")
    assert outcome.code == FINISHED, outcome.text
    return training.summarize(folder), int(count.read_text()), outcome.seconds


def find_differences(summary: dict[str, str], expected: dict[str, str]) -> str:
    """Return the names whose values differ."""
    return ", ".join(name for name in sorted({*summary, *expected}) if summary.get(name) != expected.get(name))


def _has_no_checkpoint(outcome: Outcome) -> bool:
    """Whether a run was read that had not come to its first checkpoint."""
    return outcome.code == REFUSED and "has no checkpoint yet" in outcome.text


def _report(tally: Tally, name: str, history: list[str], training: Training, text: str) -> None:
    lines = text.strip().splitlines() or [""]
    reason = f"{training.name} after {', '.join(history)}: {lines[-1][:300]}\n{text}"
    tally.add_defect(Defect(name, reason, f"{training.name} {lines[-1][:60]}"))
