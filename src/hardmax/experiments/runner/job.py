"""A run as a piece of work that any process on any machine can take up: plain arguments in, a row out."""

import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from hardmax.applications.runs import read_config, train
from hardmax.errors import ArgumentError, HardmaxError
from hardmax.experiments.runner.locks import is_free, lock_of, taken
from hardmax.experiments.runner.plan import Planned
from hardmax.experiments.runner.rows import ROWS, Row, find_row, identity, read_from, row_of, same_run
from hardmax.experiments.runner.worker_check import compare, versions
from hardmax.threads import one_thread
from hardmax.training.config import TrainConfig
from hardmax.training.loop import Observer
from hardmax.training.run_folder import has_run

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """A run to be made.

    Attributes:
        experiment: the name of the table or figure.
        quick: whether this is its quick form.
        planned: the run.
        out: folder of the table or figure, the same on all machines.
        presence: lock that the runner holds as long as it wants the run.
        seconds: between two looks at that.
        seen: how far the runner has read `results.jsonl`, in bytes.
        versions: of what the runner runs on.
    """

    experiment: str
    quick: bool
    planned: Planned
    out: Path
    presence: Path
    seconds: float
    seen: int
    versions: dict[str, str] = field(default_factory=versions)

    @property
    def lock(self) -> Path:
        """The lock of the run."""
        return lock_of(self.out, self.planned.name)


@dataclass(frozen=True)
class Outcome:
    """What became of a job.

    Attributes:
        kind: made, now or before; stopped and saved; held by another runner; failed.
        row: of a run that was made.
        reason: why it failed.
        said: lines for the reader.
    """

    kind: Literal["made", "stopped", "held", "failed"]
    row: Row | None = None
    reason: str = ""
    said: tuple[str, ...] = ()


def work(job: Job, stop: Callable[[], bool] | None = None) -> Outcome:
    """Make a run, or go on with it from its last checkpoint, unless another process is at it.

    Torch gets one thread: sums depend on the number, and so would the last digits. What goes wrong is part of what
    is returned, so that an error that is raised means that the process itself is lost.

    Args:
        job: what to do.
        stop: asked after every step whether to save and stop; without it, once the runner is gone.
    """
    stop = stop or _unwanted(job.presence, job.seconds)
    said: list[str] = []
    try:
        with taken(job.lock) as ours:
            if not ours:
                return Outcome("held")
            if (row := find_row(read_from(job.out / ROWS, job.seen)[0], job.planned)) is not None:
                return Outcome("made", row)  # by another runner, in the meantime
            if (unlike := compare(versions(), job.versions)) is not None:
                raise ArgumentError(unlike)
            with one_thread():
                if stop() or not make_run(job.planned.config, Observer(stop=stop), said.append):
                    return Outcome("stopped", said=tuple(said))
                row = row_of(job.experiment, job.planned, quick=job.quick)
                if (look := job.planned.look) is not None:
                    row |= {"look": look.options, "exhibit": look.make(job.planned.config, **look.options).to_dict()}
            return Outcome("made", row, said=tuple(said))
    except HardmaxError as error:
        return Outcome("failed", reason=str(error), said=tuple(said))
    except Exception as error:
        _log.exception("the run %s failed", job.planned.name)
        return Outcome("failed", reason=f"{type(error).__name__}: {error}", said=tuple(said))


def _unwanted(presence: Path, seconds: float) -> Callable[[], bool]:
    """Return a function that says whether the runner is gone, and looks at most once in so many seconds."""
    looked, gone = float("-inf"), False

    def stop() -> bool:
        nonlocal looked, gone
        if time.monotonic() - looked >= seconds:
            looked, gone = time.monotonic(), is_free(presence)
        return gone

    return stop


def make_run(config: TrainConfig, observer: Observer, say: Callable[[str], None]) -> bool:
    """Train, or go on training; a run of another configuration in this folder is replaced.

    Args:
        config: what the run is told; `config.out` is its folder.
        observer: sees the training go by.
        say: gets a line where a run is replaced.

    Returns:
        False if the observer stopped it before the end.
    """
    run = Path(config.out)
    if is_there(config):
        config = replace(config, resume=True)
    elif has_run(run):
        say(f"{run} was made with other options and is made anew")
        shutil.rmtree(run)
    return train(config, observer)


def is_there(config: TrainConfig) -> bool:
    """Whether the folder holds a run of this very configuration, finished or not."""
    run = Path(config.out)
    return has_run(run) and same_run(identity(read_config(run)[0]), config)
