"""Checkpoints: all that a run needs to resume as if it had never stopped; written completely or not at all."""

import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from hardmax.errors import DataError
from hardmax.files import write_text
from hardmax.models.pretrained import read_tensors, write_tensors
from hardmax.training.run_folder import find_checkpoint
from hardmax.training.state import Progress, State

TRAINING_FILES = ("training.safetensors", "training.json")


def save_checkpoint(run: Path, state: State, *, best: bool) -> None:
    """Write `checkpoint-<step>/`, then point `latest` (and `best`) at it, then remove unreferenced ones.

    Raises:
        DataError: the disk is full or cannot be written; the previous checkpoint is untouched.
    """
    name = f"checkpoint-{state.progress.step}"
    temporary = run / f"{name}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        state.task.model.save_pretrained(temporary)
        write_tensors(temporary, _tensors(state), asdict(state.progress), TRAINING_FILES)
        shutil.rmtree(run / name, ignore_errors=True)
        temporary.rename(run / name)
        for pointer in ("latest", "best") if best else ("latest",):
            write_text(run / pointer, name + "\n")
    except Exception as error:  # safetensors has an error class of its own
        shutil.rmtree(temporary, ignore_errors=True)
        raise DataError(f"cannot write {run / name}: {error}; the checkpoint before it is untouched") from error
    referenced = {find_checkpoint(run, "latest"), find_checkpoint(run, "best")}
    for old in run.glob("checkpoint-*"):
        if old.name not in referenced:
            shutil.rmtree(old, ignore_errors=True)


def load_checkpoint(run: Path, state: State) -> None:
    """Restore a state from the latest checkpoint: model, optimizer, generators, an estimator's own parameters."""
    folder = run / (find_checkpoint(run, "latest") or "")
    model = state.task.model
    model.from_pretrained(folder, model, device=next(model.parameters()).device)
    tensors, progress = read_tensors(folder, "training state", TRAINING_FILES)
    try:
        state.progress = Progress(**progress)
    except TypeError as error:
        raise DataError(f"cannot read {folder}: {error}") from error
    for key, tensor in tensors.items():
        kind, index, name = key.split("/")
        if kind == "estimator":
            state.task.learned[int(index)].data.copy_(tensor)
        elif kind == "generator":
            state.task.generators[name].set_state(tensor)
    load_optimizer(state.optimizer, tensors)


def _tensors(state: State) -> dict[str, Tensor]:
    """Return all tensors that are not part of the model, each under `kind/index/name`."""
    generators = {f"generator/0/{name}": generator.get_state() for name, generator in state.task.generators.items()}
    learned = {f"estimator/{index}/value": parameter.detach() for index, parameter in enumerate(state.task.learned)}
    return collect_optimizer_tensors(state.optimizer) | generators | learned


def collect_optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the state of an optimizer as tensors, each under `optimizer/index/name`; index counts its parameters."""
    return {
        f"optimizer/{index}/{name}": torch.as_tensor(value)
        for index, values in optimizer.state_dict()["state"].items()
        for name, value in values.items()
    }


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Load the state that `collect_optimizer_tensors` returned; tensors of other names are ignored."""
    moments: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        if key.startswith("optimizer/"):
            _, index, name = key.split("/")
            moments.setdefault(int(index), {})[name] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})
