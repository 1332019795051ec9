"""Mutated files for every reader: nothing but `HardmaxError`, one line, at most 1 GB and 10 s."""

import os
import shutil
import time
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from hardmax.errors import HardmaxError
from tools.fuzz.containers import mutate_content
from tools.fuzz.corpus import make_targets
from tools.fuzz.corpus.target import Target
from tools.fuzz.limits import SECONDS, TooSlow, measure_call
from tools.fuzz.mutations import mutate_bytes, mutate_json
from tools.fuzz.record import Defect, Result, Tally
from tools.fuzz.worker_pool import Plan, WorkerPool


def run_mutations(seed: int, seconds: float, workers: int, scratch: Path, most: int | None = None) -> Tally:
    """Read mutated files until the time is up, or `most` of them.

    Args:
        seed: determines every case: its target and its mutation.
        seconds: the time to stop after.
        workers: number of processes.
        scratch: folder for the corpora, one for each process.
        most: number of cases to stop after.
    """
    tally = Tally("mutations")
    plan = Plan(partial(prepare_cases, seed=seed), workers, scratch, time.monotonic() + seconds, most)
    WorkerPool(plan).run(tally)
    return tally


def prepare_cases(
    folder: Path, seed: int, make_targets: Callable[[Path], list[Target]] = make_targets
) -> Callable[[int], Result]:
    """Make the corpus in a folder; return the function that reads a mutated file, by the number of the case."""
    return partial(_run_case, _make_corpus(folder, make_targets), seed)


def _make_corpus(folder: Path, make_targets: Callable[[Path], list[Target]]) -> list[Target]:
    """Make the corpus in a folder, which becomes the current one; nothing is read from the user's folders."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.chdir(folder)
    os.environ |= {"XDG_CACHE_HOME": str(folder / "cache"), "HARDMAX_DATA": str(folder / "nowhere")}
    warnings.simplefilter("ignore")
    targets = make_targets(Path("corpus"))
    for target in targets:
        if target.written is not None and not (backup := _backup(target.written)).exists():
            shutil.copytree(target.written, backup)
        target.read()  # a file as it is must be read
        _restore(target, target.path.read_bytes())
    return targets


def _run_case(targets: list[Target], seed: int, case: int) -> Result:
    """Read one mutated file; return the name of the case, its seconds and megabytes, and what was wrong with it."""
    chance = Random(f"{seed}/{case}")
    target = chance.choice(targets)
    original = target.path.read_bytes()
    content = _mutate(original, chance, targets)
    name = f"{case} {target.name}"
    target.path.write_bytes(content)
    error, seconds, megabytes = measure_call(target.read)
    _restore(target, original)
    reason = _find_fault(error)
    if reason is None:
        return name, seconds, megabytes, None
    kind = f"{target.name.split()[0]} {type(error).__name__} {_find_place(error)}"
    text = f"{reason}\n{''.join(traceback.format_exception(error))[-4000:]}"
    return name, seconds, megabytes, Defect(name, text, kind, content)


def _mutate(original: bytes, chance: Random, targets: list[Target]) -> bytes:
    """Return a mutated file: its bytes, its JSON, or what it contains."""
    others = [chance.choice(targets).path.read_bytes()]

    def change_bytes(content: bytes) -> bytes:
        return mutate_bytes(content, chance, others)

    if original[:1] == b"{" and chance.random() < 0.7:
        return mutate_json(original, chance)
    if chance.random() < 0.6:
        content = mutate_content(original, chance, change_bytes, lambda text: mutate_json(text, chance))
        if content is not None:
            return content
    return change_bytes(original)


def _find_fault(error: BaseException | None) -> str | None:
    """Return what is wrong with the outcome of a reader; None if nothing is."""
    if error is None:
        return None
    if isinstance(error, TooSlow):
        return f"it took more than {SECONDS} s"
    if not isinstance(error, HardmaxError):
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    if "\n" in str(error):
        return f"an error of several lines: {str(error)[:300]!r}"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError) or "can't allocate memory" in str(cause):
            return f"it needed more than 1 GB: {error}"
        cause = cause.__cause__ or cause.__context__
    return None


def _find_place(error: BaseException | None) -> str:
    """Return the last line of hardmax that an error passed."""
    lines = traceback.extract_tb(error.__traceback__) if error is not None else []
    ours = [f"{Path(line.filename).name}:{line.lineno}" for line in lines if "hardmax" in line.filename]
    return ours[-1] if ours else "?"


def _backup(folder: Path) -> Path:
    return folder.with_name(folder.name + "-as-it-was")


def _restore(target: Target, content: bytes) -> None:
    if target.written is not None:
        shutil.rmtree(target.written)
        shutil.copytree(_backup(target.written), target.written)
    else:
        target.path.write_bytes(content)
