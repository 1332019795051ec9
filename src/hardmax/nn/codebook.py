"""A codebook: vectors that others are replaced by, where they are placed, and how those that are not used move."""

import math
from typing import Literal, final

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from hardmax._deprecation import RenamedMember
from hardmax.errors import ArgumentError
from hardmax.spaces.abstract import find_largest, widen_dtype

_JITTER = 1e-2  # noise on the entries of a vector, of their scale: codes placed on the same point can separate
_LEARNING = ("gradient", "average", "linear")


@final
class Codebook(nn.Module):
    r"""K codes, vectors $c_k$, with scores that are highest for the code nearest to a vector.

    The scores of a vector e are $-s \, |e - c_k|^2$, without the term $-s \, |e|^2$, which is the same for all k. The
    arg max of the scores is the nearest code. Scores are linear in e: the codebook is the weight of a last linear layer
    of the encoder. The scale s is learned.

    | `learning` | codes | they learn by |
    |---|---|---|
    | `"gradient"` | parameters | the gradient of the scores, of the codes that are looked up, or of their distance |
    | `"average"` | buffers | `average`: the mean of the vectors nearest to each, exponentially weighted |
    | `"linear"` | $c_k = W v_k + b$ with fixed random $v_k$ (SimVQ) | the gradient for W, b: all codes move together |

    Args:
        codes: K, the number of codes, at least 2.
        dimensions: d, the number of dimensions of a code, at least 1.
        learning: see above.
        decay: weight of the past in a running mean, from 0 to 1, for "average".

    Raises:
        ArgumentError: a number is outside its range, or an unknown `learning`.

    Example:
        >>> import torch
        >>> book = Codebook(128, 32)
        >>> scores = book.scores(torch.randn(5, 49, 32))
        >>> scores.shape, book.look_up(scores.softmax(-1)).shape
        (torch.Size([5, 49, 128]), torch.Size([5, 49, 32]))

    References:
        Scores: Takida et al., "SQ-VAE: variational Bayes on discrete representation with self-annealed stochastic
        quantization", 2022. Running means: van den Oord, Vinyals & Kavukcuoglu, "Neural discrete representation
        learning", 2017, appendix A. Linear: Zhu et al., "Addressing representation collapse in vector quantized models
        with one linear layer", 2024 (SimVQ).
    """

    vectors: Tensor
    """`[K, d]`. The codes; with `learning="linear"` the fixed vectors that W and b map to codes."""
    used: Tensor
    """`[K]`. How often each code was the nearest since the last `revive`; the caller adds to it."""
    mass: Tensor | None
    """`[K]`. Running mean of the number of vectors nearest to each code; only with `learning="average"`."""

    def __init__(
        self,
        codes: int,
        dimensions: int,
        *,
        learning: Literal["gradient", "average", "linear"] = "gradient",
        decay: float = 0.99,
    ) -> None:
        super().__init__()
        if codes < 2 or dimensions < 1:
            raise ArgumentError(
                f"a codebook needs at least 2 codes and at least 1 dimension, got {codes=}, {dimensions=}"
            )
        if learning not in _LEARNING:
            raise ArgumentError(f"learning must be 'gradient', 'average' or 'linear', got {learning!r}")
        if not 0 <= decay < 1:
            raise ArgumentError(f"decay must be at least 0 and below 1, got {decay}")
        self.learning, self.decay = learning, decay
        vectors = torch.randn(codes, dimensions)
        if learning == "gradient":
            self.vectors = nn.Parameter(vectors)
        else:
            self.register_buffer("vectors", vectors)
        self.linear = nn.Linear(dimensions, dimensions) if learning == "linear" else None
        if self.linear is not None:
            nn.init.eye_(self.linear.weight)
            nn.init.zeros_(self.linear.bias)
        self.log_scale = nn.Parameter(torch.tensor(-math.log(dimensions)))
        self.register_buffer("used", torch.zeros(codes, dtype=torch.float64))
        self.register_buffer("mass", torch.ones(codes) if learning == "average" else None)

    @property
    def codes(self) -> int:
        """K, the number of codes."""
        return len(self.vectors)

    def compute_codes(self) -> Float[Tensor, "K d"]:
        """Return all codes, `[K, d]`, with the gradient of what they are computed from."""
        return self.vectors if self.linear is None else self.linear(self.vectors)

    def scores(self, e: Float[Tensor, "*B d"]) -> Float[Tensor, "*B K"]:
        """Return the scores of each code for each vector."""
        codes = self.compute_codes()
        dtype = torch.promote_types(codes.dtype, e.dtype)
        codes, e = codes.to(dtype), e.to(dtype)
        return self.log_scale.exp() * (2 * e @ codes.mT - codes.square().sum(-1))

    def look_up(self, z: Float[Tensor, "*B K"]) -> Float[Tensor, "*B d"]:
        """Return the codes that one-hot z selects, or mixtures of codes for relaxed z."""
        codes = self.compute_codes()
        dtype = torch.promote_types(codes.dtype, z.dtype)
        return z.to(dtype) @ codes.to(dtype)

    def forward(self, e: Float[Tensor, "*B d"]) -> tuple[Float[Tensor, "*B d"], Int64[Tensor, "*B"]]:
        """Return the nearest codes, with a gradient for the codes only, and their numbers."""
        codes = widen_dtype(self.compute_codes())
        codes = codes.to(torch.promote_types(codes.dtype, e.dtype))
        fixed, flat = codes.detach(), e.detach().reshape(-1, e.shape[-1]).to(codes.dtype)
        # Half of |e|^2 - |e - c|^2: the largest is the nearest.
        closeness = torch.addmm(-fixed.square().sum(-1) / 2, flat, fixed.mT)
        indices = find_largest(closeness).squeeze(-1)
        return codes.index_select(0, indices).view(e.shape), indices.view(e.shape[:-1])

    @torch.no_grad()
    def initialize(
        self, e: Float[Tensor, "*B d"], generator: torch.Generator | None = None, *, jitter: float = _JITTER
    ) -> None:
        """Initialise the codes: place them on vectors of the encoder, before the first step.

        With `learning="linear"`, W and b give the codes the mean and the covariance of the vectors instead. Also sets
        the scale s so that scores differ by about log K: q is neither uniform nor deterministic.
        """
        points = e.flatten(0, -2)
        if self.linear is None:
            everything = torch.ones(self.codes, dtype=torch.bool, device=e.device)
            self.move_codes(everything, points, generator, jitter=jitter)
        else:
            self._match_moments(points)
        some = points[:: max(1, len(points) // 1000)]
        distance = torch.cdist(some, self.compute_codes().to(some.dtype)).square().mean()
        self.log_scale.fill_(math.log(2 * math.log(self.codes) / max(float(distance), 1e-6)))
        if self.mass is not None:
            self.mass.fill_(len(points) / self.codes)

    place = RenamedMember("initialize")

    @torch.no_grad()
    def revive(
        self,
        e: Float[Tensor, "*B d"],
        least: float,
        generator: torch.Generator | None = None,
        *,
        jitter: float = _JITTER,
    ) -> Bool[Tensor, " K"]:
        """Move rarely used codes to vectors that are far from all other codes, and reset the counts.

        With `learning="linear"` no code is moved alone.

        Args:
            e: `[*B, d]`, vectors of the encoder to choose from.
            least: a code is moved if its count is below `least` times the mean count.
            generator: random generator of the choice.
            jitter: standard deviation of the noise on the entries of a moved code.

        Returns:
            `[K]`, a mask of the moved codes.

        References:
            Choice of the vectors: Arthur & Vassilvitskii, "k-means++: the advantages of careful seeding", 2007.
        """
        dead = self.find_dead(least)
        if self.linear is not None:
            dead = torch.zeros_like(dead)
        self.move_codes(dead, e.flatten(0, -2), generator, jitter=jitter)
        self.used.zero_()
        return dead

    def find_dead(self, least: float) -> Bool[Tensor, " K"]:
        """Return a mask of the codes whose count is below `least` times the mean count."""
        return self.used < least * self.used.mean()

    @torch.no_grad()
    def add_up(self, e: Float[Tensor, "*B d"], indices: Int64[Tensor, "*B"]) -> Float[Tensor, "K d"]:
        """Return the sum of the vectors nearest to each code, `[K, d]`; over several processes, add them up."""
        sums = torch.zeros_like(self.vectors)
        return sums.index_add(0, indices.reshape(-1), e.reshape(-1, e.shape[-1]).to(sums.dtype))

    @torch.no_grad()
    def average(self, sums: Float[Tensor, "K d"], counts: Float[Tensor, " K"]) -> None:
        r"""Move each code towards the mean of its vectors, for `learning="average"`.

        With the number $n_k$ and the sum $t_k$ of the vectors nearest to code k, and the decay $\gamma$,

        $$ m_k \leftarrow \gamma m_k + (1 - \gamma) \, n_k, \qquad
           c_k \leftarrow c_k + \frac{1 - \gamma}{m_k} \, (t_k - n_k \, c_k). $$

        This is the ratio of the running means of $t_k$ and $n_k$; a code without vectors stays where it is.

        Args:
            sums: `[K, d]`, from `add_up`.
            counts: `[K]`, the number of vectors nearest to each code.
        """
        assert self.mass is not None
        counts = counts.to(self.mass.dtype)
        self.mass.lerp_(counts, 1 - self.decay)
        step = (1 - self.decay) / self.mass.clamp_min(torch.finfo(self.mass.dtype).tiny)
        self.vectors += step[:, None] * (sums - counts[:, None] * self.vectors)

    def _match_moments(self, points: Tensor) -> None:
        """Give the codes of a linear codebook the mean and the covariance of points."""
        assert self.linear is not None
        centred = (points - points.mean(0)).double()
        values, axes = torch.linalg.eigh(centred.mT @ centred / max(len(points) - 1, 1))
        self.linear.weight.copy_(axes * values.clamp_min(0).sqrt() @ axes.mT)
        self.linear.bias.copy_(points.mean(0))

    @torch.no_grad()
    def move_codes(
        self,
        which: Bool[Tensor, " K"],
        points: Float[Tensor, "N d"],
        generator: torch.Generator | None = None,
        *,
        jitter: float = _JITTER,
    ) -> None:
        """Place codes one by one on points, sampled in proportion to the squared distance to the nearest code."""
        kept = self.vectors[~which].to(points.dtype)
        nearest = torch.cdist(points, kept).square().amin(1) if len(kept) else torch.full_like(points[:, 0], torch.inf)
        for code in which.nonzero().flatten().tolist():
            # If there is no code yet, or every point is a code, draw uniformly.
            weights = nearest if 0 < nearest.sum() < torch.inf else torch.ones_like(nearest)
            chosen = points[torch.multinomial(weights, 1, generator=generator)]
            noise = torch.randn(chosen.shape, generator=generator, dtype=chosen.dtype, device=chosen.device)
            self.vectors[code] = (chosen + jitter * noise).squeeze(0)
            nearest = torch.minimum(nearest, (points - chosen).square().sum(1))
        if self.mass is not None and which.any():
            self.mass[which] = self.mass.mean()

    def _apply(self, *args: object, **options: object) -> "Codebook":
        super()._apply(*args, **options)  # pyright: ignore[reportArgumentType]
        self.used = widen_dtype(self.used)  # float16 counts only up to 2,048
        if self.mass is not None:  # a running mean needs more digits than half precision has
            self.mass, self.vectors = widen_dtype(self.mass), widen_dtype(self.vectors)
        return self

    def extra_repr(self) -> str:
        """Return the arguments, for `repr`."""
        return f"codes={self.codes}, dimensions={self.vectors.shape[1]}, learning={self.learning!r}"
