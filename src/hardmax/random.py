"""Noise that turns an arg max into a sample, never inf or NaN; and generators derived by name from one seed."""

from hashlib import sha256

import torch
from torch import Tensor


def stream(seed: int, *names: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """Return the generator of these names for a seed: always the same, and different from every other.

    Example:
        >>> a, b = stream(0, "noise", 3), stream(0, "noise", 3)
        >>> a.initial_seed() == b.initial_seed() != stream(0, "data", 3).initial_seed()
        True
    """
    digest = sha256("/".join(map(str, (seed, *names))).encode()).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def noise_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return float32 or wider: in half precision, perturbed scores tie and the arg max is no longer a sample."""
    return torch.promote_types(dtype, torch.float32)


def gumbel(
    shape: tuple[int, ...],
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Tensor:
    """Draw standard Gumbel noise, `-log(Exponential(1))`.

    The density is `exp(-(g + exp(-g)))` and the CDF `exp(-exp(-g))`; `argmax_k (scores_k + g_k)` is then a sample of
    `softmax(scores)` (Gumbel-max). `torch.distributions.Gumbel` takes no generator and inverts a uniform, whose edges
    are the reason for the clamp below.

    Args:
        shape: any.
        generator: where the randomness comes from; None is torch's global generator.
        dtype: half precision is drawn, and returned, as float32.
        device: of the noise.

    Returns:
        `[*shape]`, finite.

    Example:
        >>> import torch
        >>> g = gumbel((2, 3), generator=torch.Generator().manual_seed(0))
        >>> g.shape, bool(g.isfinite().all())
        (torch.Size([2, 3]), True)

    References:
        Gumbel, 1954; Maddison, Tarlow & Minka, "A* sampling", 2014.
    """
    exponential = torch.empty(shape, dtype=noise_dtype(dtype), device=device).exponential_(generator=generator)
    return from_exponential(exponential)


def from_exponential(exponential: Tensor) -> Tensor:
    """Return Gumbel noise from Exponential(1) draws; a draw of zero gives the largest noise the dtype can hold."""
    return -exponential.clamp_min(torch.finfo(exponential.dtype).tiny).log()


def logistic(
    shape: tuple[int, ...],
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Tensor:
    """Draw standard logistic noise: the difference of two Gumbels, so both tails are equally accurate.

    With it `1[logit + noise > 0]` is a Bernoulli sample of `sigmoid(logit)`. Arguments as for `gumbel`.

    Example:
        >>> import torch
        >>> logistic((4,), generator=torch.Generator().manual_seed(0)).shape
        torch.Size([4])
    """
    first, second = gumbel((2, *shape), generator=generator, dtype=dtype, device=device)
    return first - second
