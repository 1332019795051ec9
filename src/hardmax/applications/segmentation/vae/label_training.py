"""Train a label VAE on augmented maps, with a training loop that resumes bit for bit.

This loop differs from the one of `hardmax.training`, which iterates over a data set in epochs, measures a validation
and a test split after each epoch, and keeps the best checkpoint by a criterion. Here there are neither epochs nor
splits. Each of a few hundred steps draws its own examples (maps of a bank, or scans synthesised from them), and nothing
is held out. The randomness of a step comes from the seed and the number of the step, so that no state of generators is
stored. Both loops store the state of the optimizer in the same way: as tensors (`hardmax.training.checkpoint`), in a
pair of files that is written atomically.
"""

import math
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hardmax.applications.segmentation.vae.label_vae import LabelVAE
from hardmax.errors import ArgumentError, DataError
from hardmax.models.pretrained import read_tensors, write_tensors
from hardmax.random import make_generator
from hardmax.training.checkpoint import (
    TRAINING_FILES,
    check_optimizer_tensors,
    check_tensors,
    collect_optimizer_tensors,
    load_optimizer,
)

Loss = Callable[[torch.Generator], Tensor]
Progress = Callable[[int, int, float], None]


def minimise_loss(
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
    """Minimise a random loss by Adam; the learning rate falls to zero along a cosine.

    The randomness of a step comes only from the seed and the number of the step, so that a run that is stopped and
    resumed from its folder makes the same draws.

    Args:
        module: module whose weights are trained, and stored in the folder.
        loss: given a generator, returns a scalar with a gradient; it draws its examples itself.
        steps: total number of steps, including those of earlier calls with this folder.
        rate: initial learning rate.
        parts: number of losses that a step averages, one after the other: a batch in the memory of one example.
        seed: seed of all randomness.
        parameters: parameters to train; None means all of the module.
        folder: folder of the training state, `training.safetensors`; None stores nothing.
        every: number of steps between two writes of the state.
        progress: called after each step with its number, the number of steps and the loss.

    Returns:
        The loss of every step, from the first.

    Raises:
        ArgumentError: a loss that is not finite; `DataError`: a folder with the state of another training.

    Example:
        >>> import torch
        >>> line = torch.nn.Linear(1, 1, bias=False)
        >>> losses = minimise_loss(line, lambda generator: (line.weight - 3).square().sum(), steps=300, rate=0.1)
        >>> round(line.weight.item(), 1)
        3.0
    """
    trained = [p for p in (module.parameters() if parameters is None else parameters) if p.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=rate)
    losses = [] if folder is None else _load_state(folder, module, optimizer, seed)
    for step in range(len(losses), steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * (1 + math.cos(math.pi * step / steps)) / 2
        optimizer.zero_grad()
        total = 0.0
        for part in range(parts):
            value = loss(make_generator(seed, "step", step, part)) / parts
            value.backward()
            total += float(value.detach())
        if not math.isfinite(total):
            raise ArgumentError(f"the loss of step {step} is {total}; lower rate={rate}, or look for NaN in the data")
        optimizer.step()
        losses.append(total)
        if progress is not None:
            progress(step + 1, steps, total)
        if folder is not None and ((step + 1) % every == 0 or step + 1 == steps):
            _save_state(folder, module, optimizer, losses, seed)
    return losses


def _save_state(folder: Path, module: nn.Module, optimizer: torch.optim.Adam, losses: list[float], seed: int) -> None:
    weights = {f"weights/{name}": tensor for name, tensor in module.state_dict().items()}
    tensors = weights | collect_optimizer_tensors(optimizer) | {"losses": torch.tensor(losses, dtype=torch.float64)}
    write_tensors(folder, tensors, {"seed": seed}, TRAINING_FILES)


def _load_state(folder: Path, module: nn.Module, optimizer: torch.optim.Adam, seed: int) -> list[float]:
    """Load the state of module and optimizer from the folder; return the losses so far."""
    if not (folder / TRAINING_FILES[1]).is_file():
        return []
    tensors, facts = read_tensors(folder, "training state", TRAINING_FILES)
    weights = {name.removeprefix("weights/"): t for name, t in tensors.items() if name.startswith("weights/")}
    others = {name: t for name, t in tensors.items() if not name.startswith(("weights/", "optimizer/"))}
    try:
        if facts.get("seed") != seed:
            raise DataError(f"its seed is {facts.get('seed')}, not {seed}")
        check_tensors(weights, module.state_dict(), folder)
        check_optimizer_tensors(optimizer, tensors, folder)
        losses = others.get("losses", torch.empty(0))
        check_tensors(others, {"losses": torch.empty(losses.numel(), dtype=torch.float64)}, folder)
    except DataError as error:
        raise DataError(
            f"{folder} holds the state of another training ({error}); use the same settings, or another folder"
        ) from error
    module.load_state_dict(weights)
    load_optimizer(optimizer, tensors)
    return losses.tolist()


# A function that returns a map [M, *S], given with a generator, after a random affine map and smooth deformation.
Deform = Callable[[Tensor, torch.Generator], Tensor]


@torch.no_grad()
def augment_maps(
    maps: Float[Tensor, "N M *S"],
    count: int,
    deform: Deform,
    *,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float16,
) -> Float[Tensor, "count M *S"]:
    """Return a bank of `count` maps: the maps themselves, then randomly deformed ones.

    Deformations cost more than a step of training, so they are computed once. Half precision holds 330 maps of 18
    labels on 40 x 48 x 40 voxels in 0.9 GB.

    Args:
        maps: `[N, M, *S]`, aligned maps.
        count: number of maps in the bank, at least N.
        deform: returns a deformed map.
        generator: source of randomness for the choice of maps and the deformations.
        dtype: dtype of the bank.

    Raises:
        ArgumentError: count < N.

    Example:
        >>> import torch
        >>> maps = torch.rand(2, 3, 8, 8)
        >>> flip = lambda label_map, generator: label_map.flip(1)
        >>> augment_maps(maps, 5, flip, generator=torch.Generator().manual_seed(0)).shape
        torch.Size([5, 3, 8, 8])
    """
    if count < len(maps):
        raise ArgumentError(f"a bank holds all {len(maps)} maps and then deformed ones, but count is {count}")
    bank = torch.empty(count, *maps.shape[1:], dtype=dtype)
    bank[: len(maps)] = maps.to(dtype)
    for index in range(len(maps), count):
        source = int(torch.randint(len(maps), (), generator=generator))
        bank[index] = deform(maps[source].float(), generator).to(dtype)
    return bank


def train_label_vae(
    vae: LabelVAE,
    bank: Float[Tensor, "N M *S"],
    *,
    steps: int = 400,
    rate: float = 3e-3,
    batch: int = 4,
    seed: int = 0,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> list[float]:
    """Train a label VAE: maximise the bound of the maps in a bank; return minus the bound per voxel, step by step.

    The maps of a batch are processed one after the other: on 80 x 96 x 80 voxels with 18 labels a map takes about
    0.4 GB.

    Args:
        vae: trained in place; initialise a linear one with `initialize_with_pca` first.
        bank: `[N, M, *S]`, maps of any floating dtype.
        steps: number of steps of Adam.
        rate: learning rate.
        batch: maps per step.
        seed: seed of all randomness.
        folder: folder of the training state, to resume after an interruption; None stores nothing.
        progress: called after each step.

    Example:
        >>> import torch
        >>> bank = torch.softmax(3 * torch.randn(6, 3, 8, 8), 1)
        >>> vae = LabelVAE(bank.mean(0), latents=2)
        >>> len(train_label_vae(vae, bank, steps=3))
        3
    """
    voxels = vae.log_location[0].numel()

    def loss(generator: torch.Generator) -> Tensor:
        index = int(torch.randint(len(bank), (), generator=generator))
        maps = bank[index : index + 1].to(vae.log_location.dtype)
        return -vae(maps, generator=generator).value.mean() / voxels

    return minimise_loss(vae, loss, steps=steps, rate=rate, parts=batch, seed=seed, folder=folder, progress=progress)


@torch.no_grad()
def measure_bound(
    vae: LabelVAE, maps: Float[Tensor, "N M *S"], *, samples: int = 4, generator: torch.Generator | None = None
) -> tuple[float, float]:
    """Return the mean bound of maps in nats per voxel, and the mean log-probability under the location prior only."""
    voxels, bound, location = vae.log_location[0].numel(), 0.0, 0.0
    for part in maps.split(1):
        label_map = part.to(vae.log_location.dtype)
        bound += float(vae(label_map, samples=samples, generator=generator).value.sum())
        location += float((label_map * vae.log_location).sum())
    return bound / voxels / len(maps), location / voxels / len(maps)
