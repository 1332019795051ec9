"""Steps of Adam that can be stopped at any moment and taken up again, bit for bit."""

import math
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch import Tensor, nn

from hardmax.errors import ArgumentError, DataError
from hardmax.random import stream
from hardmax.segmentation.saving import load_tensors, save_tensors

Loss = Callable[[torch.Generator], Tensor]
Progress = Callable[[int, int, float], None]


def optimise(
    module: nn.Module,
    loss: Loss,
    *,
    steps: int,
    rate: float,
    parts: int = 1,
    seed: int = 0,
    parameters: Iterable[nn.Parameter] | None = None,
    folder: Path | None = None,
    every: int = 50,
    progress: Progress | None = None,
) -> list[float]:
    """Minimise a random loss by Adam; the rate falls to zero along a cosine.

    The randomness of a step comes from the seed and the step's number alone, so that a run which was stopped and goes
    on from its folder draws what it would have drawn.

    Args:
        module: whose weights are kept in the folder.
        loss: given a generator, returns a scalar with a gradient; it draws its own examples.
        steps: in all, those of earlier calls with this folder included.
        rate: learning rate to begin with.
        parts: how many losses are averaged for a step, one after the other: a batch in the memory of one example.
        seed: of all randomness.
        parameters: those to be changed; None is all of the module.
        folder: where the state is kept as `training.safetensors`; None keeps none.
        every: steps between two times it is written.
        progress: called after each step with its number, steps and the loss.

    Returns:
        The loss of every step, from the first.

    Raises:
        ArgumentError: a loss that is not finite; `DataError`: a folder with the state of something else.

    Example:
        >>> import torch
        >>> line = torch.nn.Linear(1, 1, bias=False)
        >>> losses = optimise(line, lambda generator: (line.weight - 3).square().sum(), steps=300, rate=0.1)
        >>> round(line.weight.item(), 1)
        3.0
    """
    chosen = [p for p in (module.parameters() if parameters is None else parameters) if p.requires_grad]
    optimizer = torch.optim.Adam(chosen, lr=rate)
    losses = [] if folder is None else _restore(folder, module, optimizer, chosen, seed)
    for step in range(len(losses), steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * (1 + math.cos(math.pi * step / steps)) / 2
        optimizer.zero_grad()
        total = 0.0
        for part in range(parts):
            value = loss(stream(seed, "step", step, part)) / parts
            value.backward()
            total += float(value.detach())
        if not math.isfinite(total):
            raise ArgumentError(f"the loss of step {step} is {total}; lower rate={rate}, or look for NaN in the data")
        optimizer.step()
        losses.append(total)
        if progress is not None:
            progress(step + 1, steps, total)
        if folder is not None and ((step + 1) % every == 0 or step + 1 == steps):
            _keep(folder, module, optimizer, losses, seed)
    return losses


def _keep(folder: Path, module: nn.Module, optimizer: torch.optim.Adam, losses: list[float], seed: int) -> None:
    tensors = {f"weights/{name}": tensor for name, tensor in module.state_dict().items()}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"adam/{index}/{name}": torch.as_tensor(value) for name, value in state.items()}
    tensors["losses"] = torch.tensor(losses, dtype=torch.float64)
    save_tensors(folder, "training", tensors, {"seed": seed})


def _restore(
    folder: Path, module: nn.Module, optimizer: torch.optim.Adam, chosen: list[nn.Parameter], seed: int
) -> list[float]:
    """Bring module and optimizer to where the folder has them; return the losses so far."""
    if not (folder / "training.json").is_file():
        return []
    tensors, facts = load_tensors(folder, "training")
    weights = {name.removeprefix("weights/"): t for name, t in tensors.items() if name.startswith("weights/")}
    moments: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("adam/"):
            _, index, key = name.split("/")
            moments.setdefault(int(index), {})[key] = tensor
    fits = all(chosen[i].shape == m["exp_avg"].shape for i, m in moments.items() if i < len(chosen))
    try:
        if facts["seed"] != seed or not fits or len(moments) > len(chosen):
            raise RuntimeError(f"seed {facts['seed']}, {len(moments)} parameters")
        module.load_state_dict(weights)
    except (KeyError, RuntimeError) as error:
        raise DataError(
            f"{folder} holds the state of another training ({error}); use the same settings, or another folder"
        ) from error
    state = optimizer.state_dict()
    state["state"] = moments
    optimizer.load_state_dict(state)
    return tensors["losses"].tolist()
