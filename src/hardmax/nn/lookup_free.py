"""Lookup-free quantization: each entry of a vector becomes its sign, and a vector a code of bits."""

from math import isfinite
from typing import final

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from hardmax.errors import ArgumentError
from hardmax.nn.quantization import (
    Quantization,
    bypass_choice,
    check_indices,
    check_vectors,
    count_codes,
    measure_usage,
)
from hardmax.spaces import Binary
from hardmax.spaces.abstract import widen_dtype
from hardmax.validation import check_positive

_BLOCK = 8  # bits whose joint distribution is enumerated


@final
class LookupFreeQuantizer(nn.Module):
    r"""Replaces each entry of a vector by its sign, 1 or -1 (LFQ): a code of bits, without a codebook.

    The gradient bypasses the choice (straight-through). So that all codes are used, the loss has entropies of the
    distribution over codes, $q(c \mid x) \propto \exp(-|x - c|^2 / T)$, whose bits are independent:

    $$ \mathrm{entropy\_weight} \cdot \big(\mathbb{E}_x[H(q(\cdot \mid x))] - H(\mathbb{E}_x[q(\cdot \mid x)])\big)
       + \mathrm{commitment} \cdot \mathbb{E}_x |x - c|^2 / \mathrm{bits} . $$

    The first term makes each choice clear, the second the use of the codes even. The second is exact up to 8 bits;
    beyond, the sum of the entropies of blocks of at most 8 bits, an upper bound.

    Bias: the choice is treated as a shift, a bias that no parameter reduces. Variance: none, given the vectors. As a
    space, the bits are `hm.Binary(bits)`, for any estimator: `hm.sample(quantizer.scores(x), quantizer.space, ...)`.

    Half precision is computed in float32, and what is returned has the dtype of x. Works under `torch.compile` and
    `torch.func`, in training too.

    Args:
        bits: size of a vector, 1 to 24; there are $2^{\mathrm{bits}}$ codes.
        entropy_weight: weight of the entropies, at least 0.
        commitment: weight of the distance to the code, at least 0.
        temperature: T, positive.
        validate: check x for NaN and inf; never while compiling or under `torch.func`.

    Raises:
        ArgumentError: a number is outside its range.

    Example:
        >>> import torch, hardmax as hm
        >>> quantizer = hm.nn.LookupFreeQuantizer(10)
        >>> out = quantizer(torch.randn(7, 10))
        >>> out.quantized.shape, out.indices.shape, quantizer.codes
        (torch.Size([7, 10]), torch.Size([7]), 1024)
        >>> bool(torch.equal(quantizer.decode(out.indices), out.quantized))
        True

    References:
        Yu et al., "Language model beats diffusion: tokenizer is key to visual generation", 2023 (MAGVIT-v2), section 3.
    """

    _place: Tensor

    def __init__(
        self,
        bits: int,
        *,
        entropy_weight: float = 0.1,
        commitment: float = 0.25,
        temperature: float = 1.0,
        validate: bool = True,
    ) -> None:
        super().__init__()
        if not 1 <= bits <= 24:
            raise ArgumentError(f"bits must be from 1 to 24, got {bits}")
        for name, value in (("entropy_weight", entropy_weight), ("commitment", commitment)):
            if not (value >= 0 and isfinite(value)):
                raise ArgumentError(f"{name} must be a finite number, at least 0; got {value}")
        check_positive("temperature", temperature)
        self.dim, self.codes = bits, 2**bits
        self.entropy_weight, self.commitment, self.temperature = entropy_weight, commitment, temperature
        self.validate = validate
        self.register_buffer("_place", 2 ** torch.arange(bits), persistent=False)

    @property
    def space(self) -> Binary:
        """The space of z for one vector: its bits."""
        return Binary(self.dim)

    def scores(self, x: Float[Tensor, "*B _"]) -> Float[Tensor, "*B bits"]:
        r"""Return the scores of the bits: $\log q(c_i = 1) - \log q(c_i = -1) = 4 x_i / T$."""
        return 4 / self.temperature * x

    def look_up(self, z: Float[Tensor, "*B bits"]) -> Float[Tensor, "*B bits"]:
        """Return the codes of bits z, 0 or 1, or of their means: `2 z - 1`."""
        return 2 * z - 1

    def decode(self, indices: Int64[Tensor, "*B"]) -> Float[Tensor, "*B bits"]:
        """Return the codes with these numbers, in the default dtype.

        Raises:
            DtypeError: the indices are not integers.
            ArgumentError: an index is below 0, or the number of codes or more.
        """
        check_indices(indices, self.codes, 1, values=self.validate)
        return self.look_up((indices[..., None] // self._place % 2).to(torch.get_default_dtype()))

    def forward(self, x: Float[Tensor, "*B _"]) -> Quantization:
        """Replace each entry by its sign.

        Args:
            x: `[*B, bits]`.

        Returns:
            The codes, their numbers, the loss and its terms, and how the codes are used.

        Raises:
            ShapeError: the last dimension of x is not the number of bits.
            ArgumentError: an entry of x is not finite.
        """
        check_vectors(x, self.dim, "the quantizer", values=self.validate)
        wide = widen_dtype(x)
        ones = wide.detach() > 0
        codes = self.look_up(ones.to(wide.dtype))
        indices = (ones * self._place).sum(-1)
        commitment = (codes - wide).square().sum(-1)
        entropy, diversity = self._measure_entropies(self.scores(wide))
        count = max(indices.numel(), 1)
        loss = self.entropy_weight * (entropy.sum() / count - diversity)
        loss = loss + self.commitment / self.dim * commitment.sum() / count
        terms = {"commitment": commitment, "entropy": entropy, "diversity": diversity}
        quantized = bypass_choice(wide, codes, "nearest").to(x.dtype)
        return Quantization(quantized, indices, loss, terms, measure_usage(count_codes(indices, self.codes)))

    def _measure_entropies(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return the entropy of q for each vector, `[*B]`, and that of the mean of q, `[]`, in nats."""
        entropy = Binary(self.dim).entropy(scores)
        flat, diversity = scores.reshape(-1, self.dim), scores.new_zeros(())
        for block in flat.split(_BLOCK, -1):
            members = Binary(block.shape[-1]).enumerate(dtype=flat.dtype, device=flat.device)
            log_q = logsigmoid(block) @ members.mT + logsigmoid(-block) @ (1 - members).mT
            mean = log_q.exp().sum(0) / max(len(flat), 1)
            diversity = diversity + torch.special.entr(mean).sum()
        return entropy, diversity

    def extra_repr(self) -> str:
        """Return the arguments, for `repr`."""
        return f"bits={self.dim}"
