"""Checkpoints: all that a run needs to go on as if it had never stopped; written whole or not at all."""

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from hardmax.errors import DataError
from hardmax.files import write_text
from hardmax.training.run_folder import checkpoint_name
from hardmax.training.state import Progress, State


def save_checkpoint(run: Path, state: State, *, best: bool) -> None:
    """Write `checkpoint-<step>/`, then point `latest` (and `best`) at it, then remove what nothing points at.

    Raises:
        DataError: the disk is full or cannot be written; the checkpoint before is untouched.
    """
    name = f"checkpoint-{state.progress.step}"
    temporary = run / f"{name}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        state.task.model.save_pretrained(temporary)
        (temporary / "training.safetensors").write_bytes(save(_tensors(state)))
        (temporary / "training.json").write_text(json.dumps(asdict(state.progress)) + "\n")
        for file in temporary.iterdir():
            _sync(file)
        shutil.rmtree(run / name, ignore_errors=True)
        temporary.rename(run / name)
        for pointer in ("latest", "best") if best else ("latest",):
            write_text(run / pointer, name + "\n")
    except Exception as error:  # safetensors has an error class of its own
        shutil.rmtree(temporary, ignore_errors=True)
        raise DataError(f"cannot write {run / name}: {error}; the checkpoint before it is untouched") from error
    kept = {checkpoint_name(run, "latest"), checkpoint_name(run, "best")}
    for old in run.glob("checkpoint-*"):
        if old.name not in kept:
            shutil.rmtree(old, ignore_errors=True)


def load_checkpoint(run: Path, state: State) -> None:
    """Bring a state back to the latest checkpoint: model, optimizer, generators, an estimator's own parameters."""
    folder = run / (checkpoint_name(run, "latest") or "")
    model = state.task.model
    model.from_pretrained(folder, model, device=next(model.parameters()).device)
    try:
        tensors = load_file(folder / "training.safetensors")
        state.progress = Progress(**json.loads((folder / "training.json").read_text()))
    except Exception as error:
        raise DataError(f"cannot read {folder}: {error}") from error
    optimizer = state.optimizer.state_dict()
    optimizer["state"] = {}
    for key, tensor in tensors.items():
        kind, index, name = key.split("/")
        if kind == "optimizer":
            optimizer["state"].setdefault(int(index), {})[name] = tensor
        elif kind == "estimator":
            state.task.learned[int(index)].data.copy_(tensor)
        else:
            state.task.generators[name].set_state(tensor)
    state.optimizer.load_state_dict(optimizer)


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _tensors(state: State) -> dict[str, Tensor]:
    """Return all that is no part of the model, each under `kind/index/name`."""
    optimizer = {
        f"optimizer/{index}/{name}": torch.as_tensor(value).contiguous()
        for index, values in state.optimizer.state_dict()["state"].items()
        for name, value in values.items()
    }
    generators = {f"generator/0/{name}": generator.get_state() for name, generator in state.task.generators.items()}
    learned = {f"estimator/{index}/value": parameter.detach() for index, parameter in enumerate(state.task.learned)}
    return optimizer | generators | learned
