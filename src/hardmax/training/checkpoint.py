"""Checkpoints: everything that a run needs to resume as if it had never stopped; each is written atomically."""

import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hardmax.errors import DataError
from hardmax.files import replace_folder, write_text
from hardmax.models.pretrained import read_tensors, write_tensors
from hardmax.models.structure import find_difference
from hardmax.training.run_folder import (
    CONFIG,
    METRICS,
    TIMING,
    TRAINING_FILES,
    find_checkpoint,
    read_progress,
)
from hardmax.training.state import Progress, State


def save_checkpoint(run: Path, state: State, *, best: bool) -> None:
    """Write `checkpoint-<step>/`, name it in the file `latest`, and remove checkpoints that are no longer needed.

    The checkpoint itself stores the name of the best one, so that a kill at any moment leaves both pointers as they
    were, or both replaced.

    Args:
        run: folder of the run.
        state: the state to save.
        best: whether this is the best checkpoint so far.

    Raises:
        DataError: the disk is full or cannot be written; the previous checkpoint is unchanged.
    """
    name = f"checkpoint-{state.progress.step}"
    before = state.progress.best_checkpoint
    if best:
        state.progress.best_checkpoint = name
    try:
        with replace_folder(run / name) as temporary:
            state.task.model.save_pretrained(temporary)
            write_tensors(temporary, _collect_tensors(state), asdict(state.progress), TRAINING_FILES)
        write_text(run / "latest", name + "\n")
    except Exception as error:  # safetensors has an error class of its own
        state.progress.best_checkpoint = before
        raise DataError(f"cannot write {run / name}: {error}; the checkpoint before it is untouched") from error
    finish_saving(run)


def finish_saving(run: Path) -> None:
    """Do what follows the replacement of `latest`: repeat the best checkpoint in the file `best`, remove what is old.

    Call this before a run resumes, too: the last process may have been killed before it came to this.

    Raises:
        DataError: the file `best` cannot be written.
    """
    latest, best = find_checkpoint(run, "latest"), find_checkpoint(run, "best")
    if latest is None:
        return
    pointer = run / "best"
    try:
        if best is not None and (not pointer.exists() or pointer.read_bytes() != f"{best}\n".encode()):
            write_text(pointer, best + "\n")
    except OSError as error:
        raise DataError(f"cannot write {pointer}: {error.strerror or error}; make room, and resume") from error
    for old in run.glob("checkpoint-*"):
        if old.name not in (latest, best):
            shutil.rmtree(old, ignore_errors=True)
    for name in ("checkpoint-*", "latest", "best", CONFIG, METRICS, TIMING):
        for temporary in run.glob(f".{name}.*.tmp"):  # of a killed process: nobody else writes these files
            shutil.rmtree(temporary, ignore_errors=True)


def load_progress(run: Path) -> Progress:
    """Return the progress of the latest checkpoint of a run; zero if there is none.

    Raises:
        DataError: the checkpoint is broken.
    """
    name = find_checkpoint(run, "latest")
    if name is None:
        return Progress()
    values = read_progress(run / name)
    try:
        progress = Progress(**values)
        _check_progress(progress)
        if name != f"checkpoint-{progress.step}":
            raise ValueError(f"its step is {progress.step}")
    except (TypeError, ValueError) as error:
        raise DataError(f"the training state in {run / name} is broken: {error}") from error
    if "best_checkpoint" not in values:  # an older checkpoint
        progress.best_checkpoint = find_checkpoint(run, "best")
    return progress


def _check_progress(progress: Progress) -> None:
    """Raise ValueError if a field has a value of the wrong type."""

    def are_numbers(values: Iterable[Any], kinds: type | tuple[type, ...]) -> bool:
        return all(isinstance(value, kinds) and not isinstance(value, bool) for value in values)

    counts = (progress.epoch, progress.position, progress.step, progress.best_epoch, progress.random_version)
    counts = counts if progress.epochs is None else (*counts, progress.epochs)
    if not are_numbers(counts, int) or min(counts) < 0:
        raise ValueError(
            "epoch, position, step, best_epoch, epochs and random_version must be whole numbers, not negative"
        )
    if not are_numbers((progress.best, progress.rate_limit), (int, float)):
        raise ValueError("best and rate_limit must be numbers")
    if not isinstance(progress.totals, list) or not are_numbers(progress.totals, (int, float)):
        raise ValueError("totals must be a list of numbers")


def load_checkpoint(run: Path, state: State) -> None:
    """Restore a state from the latest checkpoint: model, optimizer, random generators, parameters of an estimator.

    All tensors are checked first: an optimizer would read beyond the end of a tensor that is too small.

    Raises:
        DataError: the checkpoint is broken, or a tensor has another name, shape or dtype than those of the state.
    """
    folder = run / (find_checkpoint(run, "latest") or "")
    model = state.task.model
    progress = load_progress(run)
    if len(progress.totals) != len(state.progress.totals):
        raise DataError(
            f"the training state in {folder} does not fit: {len(progress.totals)} totals, expected "
            f"{len(state.progress.totals)}"
        )
    tensors, _ = read_tensors(folder, "training state", TRAINING_FILES)
    check_optimizer_tensors(state.optimizer, tensors, folder)
    others = {name: tensor for name, tensor in tensors.items() if not name.startswith("optimizer/")}
    check_tensors(others, _collect_other_tensors(state), folder)
    device = next(model.parameters()).device
    check_tensors(read_tensors(folder, device=device)[0], model.state_dict(), folder)
    model.from_pretrained(folder, model, device=device)
    try:
        for name, generator in state.task.generators.items():
            generator.set_state(tensors[f"generator/0/{name}"])
    except RuntimeError as error:
        raise DataError(f"the training state in {folder} is broken: {str(error).splitlines()[0]}") from error
    for index, parameter in enumerate(state.task.extra_parameters):
        parameter.data.copy_(tensors[f"estimator/{index}/value"])
    load_optimizer(state.optimizer, tensors)
    state.progress = progress


def _collect_tensors(state: State) -> dict[str, Tensor]:
    """Return all tensors that are not part of the model, each under `kind/index/name`."""
    return collect_optimizer_tensors(state.optimizer) | _collect_other_tensors(state)


def _collect_other_tensors(state: State) -> dict[str, Tensor]:
    """Return the states of the random generators, and the parameters that are not part of the model."""
    generators = {f"generator/0/{name}": generator.get_state() for name, generator in state.task.generators.items()}
    extra = {f"estimator/{i}/value": parameter.detach() for i, parameter in enumerate(state.task.extra_parameters)}
    return generators | extra


def collect_optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the state of an optimizer as tensors, each under `optimizer/<index of the parameter>/<name>`."""
    return {
        f"optimizer/{index}/{name}": torch.as_tensor(value)
        for index, values in optimizer.state_dict()["state"].items()
        for name, value in values.items()
    }


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Load the state that `collect_optimizer_tensors` returned into an optimizer; other tensors are ignored."""
    moments: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        if key.startswith("optimizer/"):
            _, index, name = key.split("/")
            moments.setdefault(int(index), {})[name] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})


def check_optimizer_tensors(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Check that the stored state of Adam or RAdam fits its parameters; other tensors are ignored.

    A parameter that has never had a gradient has no state.

    Raises:
        DataError: a tensor is missing or unknown, or has the wrong shape or dtype.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    stored = {name: tensor for name, tensor in tensors.items() if name.startswith("optimizer/")}
    if not stored:
        raise DataError(f"the training state in {folder} does not fit: that of the optimizer is missing")
    indices = {int(match[1]) for name in stored if (match := re.match(r"optimizer/([0-9]{1,9})/", name))}
    expected = {
        f"optimizer/{index}/{name}": tensor
        for index in indices
        if index < len(parameters)
        for name, tensor in {
            "step": torch.tensor(0.0),
            "exp_avg": parameters[index],
            "exp_avg_sq": parameters[index],
        }.items()
    }
    check_tensors(stored, expected, folder)


def check_tensors(tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor], folder: Path) -> None:
    """Check that stored tensors have the names, shapes and dtypes of others.

    Args:
        tensors: the stored tensors.
        expected: tensors of the right shapes and dtypes.
        folder: the folder that they were read from, for the error message.

    Raises:
        DataError: a tensor is missing or unknown, or has the wrong shape or dtype.
    """
    difference = find_difference(tensors, expected)
    for name, tensor in tensors.items():
        if difference is None and tensor.dtype != expected[name].dtype:
            difference = f"{name[:80]!r} is {tensor.dtype}, expected {expected[name].dtype}"
    if difference is not None:
        raise DataError(f"the training state in {folder} does not fit: {difference}")
