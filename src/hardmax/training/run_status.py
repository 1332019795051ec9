"""Whether a run is in training, finished or stopped, read from its folder without a change of any file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hardmax.errors import DataError
from hardmax.training.config import TrainConfig
from hardmax.training.locks import LOCK, is_held
from hardmax.training.run_folder import METRICS, TRAINING_FILES, find_checkpoint, read_progress, read_rows

RunState = Literal["training", "finished", "stopped", "broken"]


@dataclass(frozen=True)
class RunStatus:
    """The state of a run.

    Attributes:
        state: "training" if a process holds the lock of its folder, else "finished", "stopped" (it was interrupted or
            killed, and can be resumed) or "broken".
        epoch: number of finished epochs; 0 if it is broken.
        epochs: number of planned epochs.
        reason: what is wrong with a broken run; else one sentence about the state.
    """

    state: RunState
    epoch: int
    epochs: int
    reason: str


def read_status(folder: Path, config: TrainConfig) -> RunStatus:
    """Return the state of the run in a folder; its files may change or disappear at any moment.

    Args:
        folder: folder of the run.
        config: its options.
    """
    is_training = is_held(folder / LOCK)  # first: a run that ends in the meantime has written all of its files
    try:
        epoch, best_epoch = _read_epochs(folder)
    except DataError as error:
        return RunStatus("broken", 0, config.epochs, str(error))
    done = f"{epoch} of {config.epochs} epochs"
    if is_training:
        return RunStatus("training", epoch, config.epochs, f"in training: {done} are done")
    if epoch >= config.epochs:
        return RunStatus("finished", epoch, config.epochs, f"finished: {done}")
    if config.patience is not None and 0 < epoch >= best_epoch + config.patience:
        why = f"no better result on the validation examples for {config.patience} epochs"
        return RunStatus("finished", epoch, config.epochs, f"finished after {done}: {why}")
    how = f"go on with hardmax train --resume --out {folder}"
    return RunStatus("stopped", epoch, config.epochs, f"stopped after {done}; {how}")


def _read_epochs(folder: Path) -> tuple[int, int]:
    """Return the number of finished epochs, and the best one; from the rows if the run has no training state.

    Raises:
        DataError: a file is broken, or has values of another type.
    """
    latest = find_checkpoint(folder, "latest")
    if latest is not None and (folder / latest / TRAINING_FILES[1]).exists():
        progress = read_progress(folder / latest)
        values = progress.get("epoch"), progress.get("best_epoch")
        source = folder / latest / TRAINING_FILES[1]
    else:  # an incomplete copy, or a run before its first checkpoint
        epochs = [row.get("epoch") for row in read_rows(folder / METRICS)]
        values, source = (epochs[-1] if epochs else 0, 0), folder / METRICS
    epoch, best_epoch = values
    if not isinstance(epoch, int) or not isinstance(best_epoch, int):
        raise DataError(f"{source} is broken: epoch is {str(epoch)[:80]}; restore the file, or train again")
    return epoch, best_epoch
