"""Which codes vectors are replaced by, how evenly the codes are used, and gradients that bypass this choice."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from hardmax.errors import ArgumentError, DtypeError, ShapeError
from hardmax.estimators.abstract import attach_gradient
from hardmax.tracing import can_read_values
from hardmax.validation import describe_infinite

Bypass = Literal["nearest", "rotate"]


@dataclass(frozen=True)
class CodeUsage:
    r"""How often the codes are used. Without gradient.

    With several codes for each vector, there is a leading dimension `parts` in every field.

    Attributes:
        share: `[codes]`. Part of the vectors of this call that each code replaces; the sum is 1, or 0 without vectors.
        perplexity: `[]`. $\exp$ of the entropy of the shares: the number of codes if all are used equally.
        in_use: `[]`. Part of the codes that are used at least once in this call.
        dead: `[]`. Number of codes that were hardly used since the last search for such codes, or all along; the next
            search moves them. Zero where nothing is counted: after `eval()`, and without a codebook.
        revived: `[]`. Number of codes that this call moved.
    """

    share: Float[Tensor, "*_ codes"]
    perplexity: Float[Tensor, "*_"]
    in_use: Float[Tensor, "*_"]
    dead: Int64[Tensor, "*_"]
    revived: Int64[Tensor, "*_"]


@dataclass(frozen=True)
class Quantization:
    r"""Vectors that are replaced by codes.

    Attributes:
        quantized: `[*B, dim]`. The codes, with the gradient of the estimator.
        indices: `[*B]`. Number of each code, int64; `[*B, parts]` with several codes for each vector, group by group,
            and within a group from the first residual to the last.
        loss: `[]`. What to add to the loss of the model: the terms with their weights, as means over vectors.
        terms: the parts of the loss without weights, by name, each `[*B]`, or `[]` if it is one number for all
            vectors: "codebook" and "commitment" are the squared distance of a vector to its code, the first with a
            gradient for the code and the second with one for the vector; "kl" is the divergence of the distribution of
            codes from the uniform one, in nats; "entropy" and "diversity" are entropies of bits, in nats.
        usage: how evenly the codes are used.
    """

    quantized: Float[Tensor, "*B dim"]
    indices: Int64[Tensor, "..."]
    loss: Float[Tensor, ""]
    terms: Mapping[str, Float[Tensor, "..."]]
    usage: CodeUsage


def count_codes(indices: Int64[Tensor, "..."], codes: int) -> Float[Tensor, " codes"]:
    """Return how often each code occurs, in float32."""
    flat = indices.reshape(-1)
    ones = torch.ones(flat.shape, device=flat.device)
    return torch.zeros(codes, device=flat.device).scatter_add(0, flat, ones)


def measure_usage(
    counts: Float[Tensor, "*_ codes"], dead: Tensor | None = None, revived: Tensor | None = None
) -> CodeUsage:
    """Return how evenly codes are used that occur so often."""
    share = counts / counts.sum(-1, keepdim=True).clamp_min(1)
    zero = torch.zeros(counts.shape[:-1], dtype=torch.int64, device=counts.device)
    return CodeUsage(
        share,
        torch.special.entr(share).sum(-1).exp() * (counts.sum(-1) > 0),
        (counts > 0).to(share.dtype).mean(-1),
        zero if dead is None else dead,
        zero if revived is None else revived,
    )


def bypass_choice(x: Float[Tensor, "*B d"], codes: Float[Tensor, "*B d"], bypass: Bypass) -> Float[Tensor, "*B d"]:
    r"""Return the codes, with a gradient to the vectors that they replace.

    "nearest" is straight-through: the gradient g of a code is used for its vector. "rotate" is the rotation trick: the
    code is a rotation of the vector times the ratio of their norms, held fixed, so the gradient of x is

    $$ \frac{|c|}{|x|} \, R^T g, \qquad R = I - 2 r r^T + 2 \hat c \hat x^T, \qquad
       r = \frac{\hat x + \hat c}{|\hat x + \hat c|}, $$

    where $\hat x$ and $\hat c$ have norm 1: the angle between gradient and code becomes that between the gradient and
    the vector. R is not defined for vectors of zero, which get the gradient of straight-through.

    Args:
        x: vectors.
        codes: the codes that replace them; they get no gradient.
        bypass: "nearest" or "rotate".

    References:
        Bengio, Leonard & Courville, "Estimating or propagating gradients through stochastic neurons", 2013; van den
        Oord, Vinyals & Kavukcuoglu, "Neural discrete representation learning", 2017; Fifty et al., "Restructuring
        vector quantization with the rotation trick", 2024, section 4.
    """
    codes = codes.detach()
    return attach_gradient(codes, x if bypass == "nearest" else _rotate(x, codes))


def _rotate(x: Tensor, codes: Tensor) -> Tensor:
    """Return x, rotated to the direction of the codes and scaled to their norms; x itself where it is zero."""
    fixed = x.detach()
    tiny = torch.finfo(x.dtype).tiny ** 0.5
    norm = torch.linalg.vector_norm(fixed, dim=-1, keepdim=True)
    code_norm = torch.linalg.vector_norm(codes, dim=-1, keepdim=True)
    before, after = fixed / norm.clamp_min(tiny), codes / code_norm.clamp_min(tiny)
    middle = before + after
    middle = middle / torch.linalg.vector_norm(middle, dim=-1, keepdim=True).clamp_min(tiny)

    def dot(direction: Tensor) -> Tensor:
        return torch.linalg.vecdot(x, direction)[..., None]

    rotated = (x - 2 * dot(middle) * middle + 2 * dot(before) * after) * (code_norm / norm.clamp_min(tiny))
    return torch.where(norm > tiny, rotated, x)


def check_vectors(x: Tensor, size: int, name: str, *, values: bool) -> None:
    """Check that vectors have `size` entries, which are finite numbers.

    Args:
        x: `[*B, size]`.
        size: expected number of entries.
        name: what takes the vectors, for the error.
        values: whether to look for NaN and inf, where values can be read.

    Raises:
        DtypeError: x is not floating point.
        ShapeError: its last dimension is not `size`.
        ArgumentError: an entry is not finite.
    """
    if not x.is_floating_point():
        raise DtypeError(f"x must be floating point, got {x.dtype}; pass x.float()")
    if x.shape[-1:] != (size,):
        raise ShapeError(
            f"{name} needs vectors whose last dimension is {size}, got shape {list(x.shape)}; for feature maps "
            "[B, channels, H, W], pass x.movedim(1, -1)"
        )
    if values and can_read_values() and (problem := describe_infinite(x)) is not None:
        raise ArgumentError(f"x must be finite, {problem}; look for a diverged encoder")


def check_indices(indices: Tensor, codes: int, parts: int, *, values: bool) -> None:
    """Check that numbers of codes are whole numbers below `codes`, with a last dimension for several parts.

    Args:
        indices: `[*B]`, or `[*B, parts]` if there are several.
        codes: the number of codes.
        parts: the number of codes for each vector.
        values: whether to check the range, where values can be read.

    Raises:
        DtypeError: the indices are not integers.
        ShapeError: the last dimension is not the number of parts.
        ArgumentError: an index is below 0, or `codes` or more.
    """
    if indices.is_floating_point() or indices.is_complex() or indices.dtype == torch.bool:
        raise DtypeError(f"indices must be whole numbers, got {indices.dtype}")
    if parts > 1 and indices.shape[-1:] != (parts,):
        raise ShapeError(f"indices need a last dimension of {parts} parts, got shape {list(indices.shape)}")
    if values and can_read_values() and indices.numel():
        low, high = int(indices.min()), int(indices.max())
        if low < 0 or high >= codes:
            raise ArgumentError(f"indices must be from 0 to {codes - 1}, got {low} to {high}")
