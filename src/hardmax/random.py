"""Random numbers: generators derived by name from one seed, and the noise that turns an arg max into a sample."""

import math
from collections.abc import Callable
from hashlib import sha256

import torch
from torch import Tensor

from hardmax._deprecation import load_renamed
from hardmax.tracing import can_read_values

_RENAMED = {
    "stream": "make_generator",
    "gumbel": "draw_gumbel",
    "logistic": "draw_logistic",
    "noise_dtype": "choose_noise_dtype",
    "from_exponential": "transform_to_gumbel",
}
__getattr__ = load_renamed(__name__, _RENAMED)

_BLOCK = 2**15  # numbers that are drawn at a time: 256 kB in float64
_LEAST = 1e-17  # uniform numbers are above zero, so that -log(u) is between 1e-16 and 39

VERSION = 2
"""Increases when the same seed gives other noise than before. Checkpoints store it."""


def make_generator(seed: int, *names: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """Create a generator from a seed and names: the same arguments always give the same random numbers.

    Other names give independent random numbers. The names are part of the seed: renaming one changes the results of
    runs.

    Example:
        >>> a, b = make_generator(0, "noise", 3), make_generator(0, "noise", 3)
        >>> a.initial_seed() == b.initial_seed() != make_generator(0, "data", 3).initial_seed()
        True
    """
    digest = sha256("/".join(map(str, (seed, *names))).encode()).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def choose_noise_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of noise, float32 or wider: in half precision scores tie and the arg max is not a sample."""
    return torch.promote_types(dtype, torch.float32)


def draw_gumbel(
    shape: tuple[int, ...],
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Tensor:
    r"""Draw standard Gumbel noise, $-\log(-\log u)$ with u uniform on (0, 1).

    The density is $\exp(-(g + e^{-g}))$ and the CDF $\exp(-e^{-g})$;
    $\operatorname{argmax}_k (\mathrm{scores}_k + g_k)$ is then a sample of $\operatorname{softmax}(\mathrm{scores})$
    (Gumbel-max). On the CPU, u has the 53 bits of float64 also for noise in float32, so both tails are complete:
    `torch.distributions.Gumbel` takes no generator and inverts a uniform of 24 bits, which ends at 16.6. This takes 0.4
    of the time of `Tensor.exponential_`, which other devices use.

    Args:
        shape: any shape.
        generator: source of the randomness; None is torch's global generator.
        dtype: half precision is drawn, and returned, as float32.
        device: device of the noise.

    Returns:
        `[*shape]`, finite.

    Example:
        >>> import torch
        >>> g = draw_gumbel((2, 3), generator=torch.Generator().manual_seed(0))
        >>> g.shape, bool(g.isfinite().all())
        (torch.Size([2, 3]), True)

    References:
        Gumbel, 1954; Maddison, Tarlow & Minka, "A* sampling", 2014.
    """
    dtype, device = choose_noise_dtype(dtype), torch.get_default_device() if device is None else torch.device(device)
    if device.type != "cpu" and can_read_values():  # float64 is slow there, and exponential_ is fast
        return transform_to_gumbel(torch.empty(shape, dtype=dtype, device=device).exponential_(generator=generator))
    return _transform_uniform(lambda u, dtype: u.log_().to(dtype).neg_().log_().neg_(), shape, generator, dtype, device)


def _transform_uniform(
    transform: Callable[[Tensor, torch.dtype], Tensor],
    shape: tuple[int, ...],
    generator: torch.Generator | None,
    dtype: torch.dtype,
    device: torch.device | str | None,
) -> Tensor:
    """Draw uniform numbers of 53 bits on (0, 1), and return what `transform(uniform, dtype)` makes of them, in place.

    In blocks that fit the cache; while compiling, or under vmap, all at once.
    """
    if not can_read_values():
        uniform = torch.rand(shape, dtype=torch.float64, device=device, generator=generator)
        return transform(uniform.clamp_min(_LEAST), dtype)
    if math.prod(shape) <= _BLOCK:
        uniform = torch.empty(shape, dtype=torch.float64, device=device)
        return transform(uniform.uniform_(_LEAST, 1.0, generator=generator), dtype)
    noise = torch.empty(shape, dtype=dtype, device=device)
    for block in noise.view(-1).split(_BLOCK):
        uniform = torch.empty(block.shape, dtype=torch.float64, device=device)
        block.copy_(transform(uniform.uniform_(_LEAST, 1.0, generator=generator), dtype))
    return noise


def transform_to_gumbel(exponential: Tensor) -> Tensor:
    """Transform Exponential(1) draws to Gumbel noise; a draw of zero gives the largest finite noise of the dtype."""
    return -exponential.clamp_min(torch.finfo(exponential.dtype).tiny).log()


def draw_logistic(
    shape: tuple[int, ...],
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Tensor:
    r"""Draw standard logistic noise, $\log u - \log(1 - u)$ with u uniform on (0, 1).

    With it $\mathbb{1}[\mathrm{logit} + \mathrm{noise} > 0]$ is a Bernoulli sample of `sigmoid(logit)`. u has the 53
    bits of float64, so both tails are complete and equally accurate. Arguments as for `draw_gumbel`.

    Example:
        >>> import torch
        >>> draw_logistic((4,), generator=torch.Generator().manual_seed(0)).shape
        torch.Size([4])
    """
    dtype = choose_noise_dtype(dtype)
    return _transform_uniform(lambda u, dtype: u.logit_(eps=2.0**-54).to(dtype), shape, generator, dtype, device)


def draw_uniform(
    shape: tuple[int, ...],
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Tensor:
    """Draw uniform noise on [0, 1). Arguments as for `draw_gumbel`.

    Example:
        >>> import torch
        >>> draw_uniform((4,), dtype=torch.float16).dtype
        torch.float32
    """
    dtype = choose_noise_dtype(dtype)
    if not can_read_values():  # vmap has no numbers in place
        return torch.rand(shape, dtype=dtype, device=device, generator=generator)
    return torch.empty(shape, dtype=dtype, device=device).uniform_(generator=generator)
