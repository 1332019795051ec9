"""Checkpoints: all that a run needs to go on as if it had never stopped; written whole or not at all."""

import json
import os
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from hardmax.errors import DataError
from hardmax.models import DiscreteVAE


@dataclass
class Progress:
    """Where a run stands: what a checkpoint keeps beside weights.

    Attributes:
        epoch: epochs finished.
        position: steps done of the epoch after them.
        step: steps done in all.
        best: best bound on the validation pictures, and the epoch it was reached after.
        totals: sums over the unfinished epoch, for its row in `metrics.jsonl`.
    """

    epoch: int = 0
    position: int = 0
    step: int = 0
    best: float = float("-inf")
    best_epoch: int = 0
    totals: list[float] = field(default_factory=lambda: [0.0] * 5)


def save_checkpoint(
    run: Path,
    model: DiscreteVAE,
    optimizer: torch.optim.Optimizer,
    generators: dict[str, torch.Generator],
    learned: list[torch.nn.Parameter],
    progress: Progress,
    *,
    best: bool,
) -> None:
    """Write `checkpoint-<step>/`, then point `latest` (and `best`) at it, then remove what nothing points at.

    Raises:
        DataError: the disk is full or cannot be written; the checkpoint before is untouched.
    """
    name = f"checkpoint-{progress.step}"
    temporary = run / f"{name}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        model.save_pretrained(temporary)
        tensors = _optimizer_tensors(optimizer) | _generator_tensors(generators) | _learned_tensors(learned)
        save_file(tensors, temporary / "training.safetensors")
        (temporary / "training.json").write_text(json.dumps(asdict(progress)) + "\n")
        for file in temporary.iterdir():
            _sync(file)
        shutil.rmtree(run / name, ignore_errors=True)
        temporary.rename(run / name)
        for pointer in ("latest", "best") if best else ("latest",):
            write_atomically(run / pointer, name + "\n")
    except Exception as error:  # safetensors has an error class of its own for a full disk
        shutil.rmtree(temporary, ignore_errors=True)
        raise DataError(f"cannot write {run / name}: {error}; the checkpoint before it is untouched") from error
    kept = {pointed(run, "latest"), pointed(run, "best")}
    for old in run.glob("checkpoint-*"):
        if old.name not in kept:
            shutil.rmtree(old, ignore_errors=True)


def load_checkpoint(
    run: Path,
    model: DiscreteVAE,
    optimizer: torch.optim.Optimizer,
    generators: dict[str, torch.Generator],
    learned: list[torch.nn.Parameter],
) -> Progress:
    """Bring model, optimizer, generators and an estimator's own parameters back to the latest checkpoint.

    Returns:
        Where it stood.
    """
    folder = run / (pointed(run, "latest") or "")
    device = next(model.parameters()).device
    DiscreteVAE.from_pretrained(folder, model, device=device)
    try:
        tensors = load_file(folder / "training.safetensors")
        progress = Progress(**json.loads((folder / "training.json").read_text()))
    except Exception as error:
        raise DataError(f"cannot read {folder}: {error}") from error
    state = optimizer.state_dict()
    state["state"] = {}
    for key, tensor in tensors.items():
        kind, index, name = key.split("/")
        if kind == "optimizer":
            state["state"].setdefault(int(index), {})[name] = tensor
        elif kind == "estimator":
            learned[int(index)].data.copy_(tensor)
        else:
            generators[name].set_state(tensor)
    optimizer.load_state_dict(state)
    return progress


def pointed(run: Path, pointer: str) -> str | None:
    """Return the checkpoint's name in the file `latest` or `best`, or None where there is none."""
    try:
        name = (run / pointer).read_text().strip()
    except FileNotFoundError:
        return None
    return name if (run / name).is_dir() else None


def write_atomically(path: Path, text: str) -> None:
    """Replace a file at once: a reader sees the old text or the new one."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text, encoding="utf-8")
    _sync(temporary)
    temporary.replace(path)


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"optimizer/{index}/{name}": torch.as_tensor(value).contiguous()
        for index, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
    }


def _generator_tensors(generators: dict[str, torch.Generator]) -> dict[str, Tensor]:
    return {f"generator/0/{name}": generator.get_state() for name, generator in generators.items()}


def _learned_tensors(learned: list[torch.nn.Parameter]) -> dict[str, Tensor]:
    return {f"estimator/{index}/value": parameter.detach() for index, parameter in enumerate(learned)}
