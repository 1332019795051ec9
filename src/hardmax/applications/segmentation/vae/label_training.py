"""Train a label VAE on augmented maps, with a loop that resumes bit for bit.

The loop of `hardmax.training` iterates over a data set in epochs, measures a validation and a test split after each of
them, and keeps the best checkpoint by a criterion. Here there are neither epochs nor splits: each of a few hundred
steps draws its examples (maps of a bank, scans synthesised from them), nothing is held out, and the randomness of a
step comes from the seed and the step's number, so that no state of generators is stored. Both loops store the state in
the same way: that of the optimizer as tensors (`hardmax.training.checkpoint`), in a pair of files that is written
atomically.
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
from hardmax.random import stream
from hardmax.training.checkpoint import TRAINING_FILES, collect_optimizer_tensors, load_optimizer

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

    The randomness of a step comes from the seed and the step's number alone, so that a run that is stopped and
    resumed from its folder has the same draws.

    Args:
        module: module whose weights are stored in the folder.
        loss: given a generator, returns a scalar with a gradient; it draws its examples itself.
        steps: total number, including those of earlier calls with this folder.
        rate: initial learning rate.
        parts: number of losses averaged for a step, one after the other: a batch in the memory of one example.
        seed: seed of all randomness.
        parameters: parameters to train; None is all of the module.
        folder: folder of the state, `training.safetensors`; None stores none.
        every: number of steps between two writes of the state.
        progress: called after each step with its number, steps and the loss.

    Returns:
        The loss of every step, from the first.

    Raises:
        ArgumentError: a loss that is not finite; `DataError`: a folder with the state of another training.

    Example:
        >>> import torch
        >>> line = torch.nn.Linear(1, 1, bias=False)
        >>> losses = optimise(line, lambda generator: (line.weight - 3).square().sum(), steps=300, rate=0.1)
        >>> round(line.weight.item(), 1)
        3.0
    """
    chosen = [p for p in (module.parameters() if parameters is None else parameters) if p.requires_grad]
    optimizer = torch.optim.Adam(chosen, lr=rate)
    losses = [] if folder is None else _load_state(folder, module, optimizer, seed)
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
    shapes = [tensor.shape for tensor in optimizer.param_groups[0]["params"]]
    # Neither torch's load_state_dict nor a step would report that moments are of other parameters.
    moments = {int(name.split("/")[1]): t.shape for name, t in tensors.items() if name.endswith("/exp_avg")}
    try:
        if facts["seed"] != seed or not moments or any(shapes[index] != shape for index, shape in moments.items()):
            raise RuntimeError(f"seed {facts['seed']}, {len(moments)} parameters")
        module.load_state_dict(weights)
        load_optimizer(optimizer, tensors)
        return tensors["losses"].tolist()
    except (KeyError, IndexError, RuntimeError) as error:
        raise DataError(
            f"{folder} holds the state of another training ({error}); use the same settings, or another folder"
        ) from error


# From one map [M, *S] and a generator to the map after a random affine map and a random smooth deformation.
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
    """Return the maps themselves, then deformed ones, until there are `count`.

    Deformations cost more than a step of training, so they are computed once. Half precision holds 330 maps of 18
    labels on 40 x 48 x 40 voxels in 0.9 GB.

    Args:
        maps: `[N, M, *S]`, aligned.
        count: at least N.
        deform: returns a deformed map.
        generator: source of randomness for the choice of maps and the deformations.
        dtype: dtype of the bank.

    Raises:
        ArgumentError: count < N.

    Example:
        >>> import torch
        >>> maps = torch.rand(2, 3, 8, 8)
        >>> flip = lambda one, generator: one.flip(1)
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
    """Raise the bound of the maps in a bank; return minus the bound per voxel, step by step.

    The maps of a batch are processed one after the other: on 80 x 96 x 80 voxels with 18 labels one takes about 0.4 GB.

    Args:
        vae: trained in place; a linear one after `initialize_with_pca`.
        bank: `[N, M, *S]`, of any floating dtype.
        steps: number of steps of Adam.
        rate: learning rate.
        batch: maps per step.
        seed: seed of all randomness.
        folder: folder of the state, to resume after a stop; None stores none.
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

    return optimise(vae, loss, steps=steps, rate=rate, parts=batch, seed=seed, folder=folder, progress=progress)


@torch.no_grad()
def measure_bound(
    vae: LabelVAE, maps: Float[Tensor, "N M *S"], *, samples: int = 4, generator: torch.Generator | None = None
) -> tuple[float, float]:
    """Return the mean bound of maps in nats per voxel, and that of the location prior alone."""
    voxels, bound, alone = vae.log_location[0].numel(), 0.0, 0.0
    for part in maps.split(1):
        one = part.to(vae.log_location.dtype)
        bound += float(vae(one, samples=samples, generator=generator).value.sum())
        alone += float((one * vae.log_location).sum())
    return bound / voxels / len(maps), alone / voxels / len(maps)
