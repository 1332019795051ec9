"""A layer that replaces vectors by codes of a codebook, learns through this choice, and keeps the codes in use."""

from dataclasses import dataclass
from math import isfinite
from typing import Literal, final

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from hardmax.errors import ArgumentError, NotExactError
from hardmax.estimators import AbstractEstimator, AbstractSampler
from hardmax.expectations import sample
from hardmax.nn.codebook import Codebook
from hardmax.nn.quantization import (
    Bypass,
    Quantization,
    bypass_choice,
    check_indices,
    check_vectors,
    count_codes,
    measure_usage,
)
from hardmax.spaces import Categorical
from hardmax.spaces.abstract import find_largest, widen_dtype
from hardmax.tracing import can_read_values, is_transformed

_BYPASSES = ("nearest", "rotate")
_STATISTICS = ("counts", "dead", "revived")
_POINTS = 16_384  # vectors that codes are placed on, at most, or twice as many as there are codes
_JITTER = 1e-2  # of the standard deviation of the entries: codes placed on the same point can separate


@final
class Quantizer(nn.Module):
    r"""Replaces each vector by a code of a learned codebook (vector quantization), with the gradient of your choice.

    After `eval()`, a vector x becomes the nearest of the codes $c_1, \ldots, c_K$. In training, the estimator says
    which code it becomes, and how the choice is differentiated:

    | `estimator` | code in training | gradient for x | loss |
    |---|---|---|---|
    | `"nearest"` | nearest | that of the code (straight-through, VQ-VAE) | distances |
    | `"rotate"` | nearest | that of the code, rotated (rotation trick) | distances |
    | `GumbelSoftmax()` | mixture of codes | through the softmax | KL |
    | `ReinMax()`, `StraightThrough()`, ... | sample of q | accurate to second order, to first order, ... | KL |

    where q is the softmax of $-s \, |x - c_k|^2$ with a learned scale s. The loss of the first two is, with sg for what
    gets no gradient, a mean over vectors and their entries,

    $$ |\operatorname{sg}(x) - c|^2 + \mathrm{commitment} \cdot |x - \operatorname{sg}(c)|^2, $$

    the first term only if codes have a gradient, and are not running means of the vectors nearest to them. That of the
    others is $\mathrm{kl\_weight} \cdot \mathrm{KL}(q \,\|\, 1 / K)$, a mean over vectors. If the loss of
    the model is a mean squared error over D entries of an example, of noise with variance $\sigma^2$, and an example
    has n vectors, $\mathrm{kl\_weight} = 2 \sigma^2 n / D$ makes it the variational bound.

    Estimators that need values of the loss (`Direct`, `LocalExpectation`, `Reinforce`, ...) take `scores` and
    `look_up`: `hm.elbo(f, quantizer.scores(x), space, hm.Direct())`, where f decodes `quantizer.look_up(z)`, with
    `learning="gradient"`.

    **The codes stay in use** without further code. The first call in training places them on its vectors, far from each
    other (k-means++); with fewer vectors than codes, the next calls go on. Every `revive_every` calls, codes that were
    nearest to less than `revive_below` of an even share of the vectors since the last search move to vectors that are
    far from all codes; not before there are `1 / revive_below` vectors for each code, as a count of zero may be chance.

    Residual: the second codebook replaces what remains of x after the first, and so on; the result is the sum. Groups:
    x is cut into parts, each with codebooks of its own. Then K codes for each of `groups * residual` parts describe x.

    Bias: "nearest" and "rotate" treat the choice as a shift or a rotation that does not depend on x, a bias that no
    parameter reduces; see the estimators for theirs. Variance: "nearest" and "rotate" have none, given the vectors.

    Half precision is computed in float32, and what is returned has the dtype of x. While compiling, codes are counted
    and averaged, but neither placed nor revived: call it once before. Under `torch.func` it changes no buffer. Of
    several processes, each changes its own codebook: set `maintain=False`, and call `codebooks[i].initialize` and
    `revive` with the vectors of all.

    Args:
        dim: size of a vector.
        codes: K, the number of codes of each codebook, at least 2.
        groups: number of parts of equal size that a vector is cut into.
        residual: number of codebooks in sequence, for each part.
        estimator: "nearest", "rotate", or a sample-style estimator.
        learning: how the codes learn: as running means of their vectors ("average"), by their "gradient", or by that of
            a "linear" map of fixed vectors (SimVQ); see `Codebook`. By default "average" for "nearest", and "gradient"
            for all others: codes that are drawn need it, and with "rotate" more codes stay in use.
        commitment: weight of the second term of the loss, at least 0.
        kl_weight: weight of the KL, at least 0.
        decay: weight of the past in running means of codes.
        revive_every: number of calls in training between two searches for rarely used codes.
        revive_below: part of the mean count below which a code is moved; 0: never.
        maintain: whether calls in training place, count, average and revive codes.
        generator: source of the randomness; None is torch's global generator. A copy or a saved model does not keep it.
        validate: check x for NaN and inf; never while compiling or under `torch.func`.

    Raises:
        ArgumentError: fewer than 2 codes, a number outside its range, or an estimator that does not suit.

    Example:
        >>> import torch, hardmax as hm
        >>> quantizer = hm.nn.Quantizer(16, codes=64)
        >>> out = quantizer(torch.randn(5, 7, 7, 16, requires_grad=True))
        >>> out.quantized.shape, out.indices.shape, out.loss.requires_grad
        (torch.Size([5, 7, 7, 16]), torch.Size([5, 7, 7]), True)
        >>> bool(out.usage.perplexity > 30), bool(out.usage.in_use > 0.9)
        (True, True)

    References:
        van den Oord, Vinyals & Kavukcuoglu, "Neural discrete representation learning", 2017, eq. 3 (VQ-VAE). Rotation:
        Fifty et al., "Restructuring vector quantization with the rotation trick", 2024. Residual: Zeghidour et al.,
        "SoundStream: an end-to-end neural audio codec", 2021, algorithm 1. Samples: Jang, Gu & Poole, 2017; Takida et
        al., "SQ-VAE", 2022.
    """

    calls: Tensor
    """`[]`. Number of calls in training that had vectors."""
    placed: Tensor
    """`[]`. Number of codes of each codebook that have been placed on vectors."""

    def __init__(
        self,
        dim: int,
        codes: int,
        *,
        groups: int = 1,
        residual: int = 1,
        estimator: Literal["nearest", "rotate"] | AbstractSampler = "nearest",
        learning: Literal["gradient", "average", "linear"] | None = None,
        commitment: float = 0.25,
        kl_weight: float = 1e-3,
        decay: float = 0.99,
        revive_every: int = 50,
        revive_below: float = 0.1,
        maintain: bool = True,
        generator: torch.Generator | None = None,
        validate: bool = True,
    ) -> None:
        super().__init__()
        for name, value in (("dim", dim), ("groups", groups), ("residual", residual), ("revive_every", revive_every)):
            if value < 1:
                raise ArgumentError(f"{name} must be at least 1, got {value}")
        if dim % groups:
            raise ArgumentError(f"dim must be a multiple of groups, got dim={dim} and groups={groups}")
        for name, value in (("commitment", commitment), ("kl_weight", kl_weight), ("revive_below", revive_below)):
            if not (value >= 0 and isfinite(value)):
                raise ArgumentError(f"{name} must be a finite number, at least 0; got {value}")
        if learning is None:
            learning = "average" if estimator == "nearest" else "gradient"
        _check_estimator(estimator, codes, learning)
        self.dim, self.codes, self.groups, self.residual = dim, codes, groups, residual
        self.estimator = estimator
        self.commitment, self.kl_weight = commitment, kl_weight
        self.revive_every, self.revive_below, self.maintain = revive_every, revive_below, maintain
        self.generator = generator
        self.validate = validate
        books = (Codebook(codes, dim // groups, learning=learning, decay=decay) for _ in range(groups * residual))
        self.codebooks = nn.ModuleList(books)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("placed", torch.zeros((), dtype=torch.int64))

    @property
    def space(self) -> Categorical:
        """The space of z for one vector: one choice of K codes, or one for each group."""
        self._need_one_stage()
        return Categorical(self.codes, self.groups if self.groups > 1 else None)

    def scores(self, x: Float[Tensor, "*B _"]) -> Float[Tensor, "..."]:
        """Return the scores of each code, `[*B, K]`, or `[*B, groups, K]`; places, counts and revives as a call does.

        Half precision becomes float32.

        Raises:
            NotExactError: there are several residual codebooks, whose choices depend on the earlier ones.
            ArgumentError: in training, the codes are running means, which scores do not move.
        """
        self._need_one_stage()
        if self.training and self.maintain and self._books[0].learning == "average":
            raise ArgumentError(
                "scores need codes with a gradient, but learning='average' makes them running means; create the "
                "quantizer with learning='gradient' (or maintain=False to keep the codes fixed)"
            )
        check_vectors(x, self.dim, "the quantizer", values=self.validate)
        upkeep, scores = self._plan_upkeep(x), []
        for book, part in zip(self._books, self._cut(widen_dtype(x)), strict=True):
            self._prepare(book, part, upkeep)
            scores.append(book.scores(part))
            if upkeep.counts:
                book.used += count_codes(find_largest(scores[-1].detach()), self.codes)
        return scores[0] if self.groups == 1 else torch.stack(scores, -2)

    def look_up(self, z: Float[Tensor, "..."]) -> Float[Tensor, "*B dim"]:
        """Return the codes of one-hot z, or mixtures of codes: `[*B, K]`, or `[*B, groups, K]`, to `[*B, dim]`."""
        self._need_one_stage()
        parts = [z] if self.groups == 1 else z.unbind(-2)
        return torch.cat([book.look_up(part) for book, part in zip(self._books, parts, strict=True)], -1)

    def decode(self, indices: Int64[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return the codes with these numbers, as `Quantization.indices`: `[*B]`, or `[*B, parts]`, to `[*B, dim]`.

        Raises:
            DtypeError: the indices are not integers.
            ShapeError: the last dimension is not the number of parts.
            ArgumentError: an index is below 0, or K or more.
        """
        count = len(self.codebooks)
        check_indices(indices, self.codes, count, values=self.validate)
        numbers = [indices] if count == 1 else indices.unbind(-1)
        codes = [book.compute_codes()[number] for book, number in zip(self._books, numbers, strict=True)]
        return torch.cat([sum(codes[first + 1 : first + self.residual], codes[first]) for first in self._firsts], -1)

    def forward(self, x: Float[Tensor, "*B _"]) -> Quantization:
        """Replace each vector by a code.

        Args:
            x: `[*B, dim]`.

        Returns:
            The codes, their numbers, the loss and its terms, and how the codes are used.

        Raises:
            ShapeError: the last dimension of x is not `dim`.
            ArgumentError: an entry of x is not finite.
        """
        check_vectors(x, self.dim, "the quantizer", values=self.validate)
        upkeep, quantized, steps = self._plan_upkeep(x), [], []
        for first, part in zip(self._firsts, self._cut(widen_dtype(x)), strict=True):
            rest, total = part, torch.zeros_like(part)
            for book in self._books[first : first + self.residual]:
                steps.append(self._quantize(book, rest, upkeep))
                total, rest = total + steps[-1].code, rest - steps[-1].code.detach()
            quantized.append(total if self._samples else bypass_choice(part, total, self._bypass))
        terms = {name: torch.stack([step.terms[name] for step in steps]).sum(0) for name in steps[0].terms}
        weights = {"codebook": 1 / self.dim, "commitment": self.commitment / self.dim, "kl": self.kl_weight}
        count = max(x.numel() // self.dim, 1)
        loss = sum((weights[name] / count * term.sum() for name, term in terms.items()), x.new_zeros(()).float())
        usage = measure_usage(*(self._join([getattr(step, name) for step in steps], 0) for name in _STATISTICS))
        indices = self._join([step.indices for step in steps], -1)
        return Quantization(torch.cat(quantized, -1).to(x.dtype), indices, loss, terms, usage)

    @property
    def _books(self) -> list[Codebook]:
        return list(self.codebooks)  # pyright: ignore[reportReturnType]

    @property
    def _firsts(self) -> range:
        """The number of the first codebook of each group."""
        return range(0, self.groups * self.residual, self.residual)

    @property
    def _samples(self) -> bool:
        return self.training and not isinstance(self.estimator, str)

    @property
    def _bypass(self) -> Bypass:
        return "rotate" if self.estimator == "rotate" else "nearest"

    def _cut(self, x: Tensor) -> tuple[Tensor, ...]:
        return x.unflatten(-1, (self.groups, -1)).unbind(-2)

    def _join(self, parts: list[Tensor], dim: int) -> Tensor:
        """Return what belongs to each codebook in one tensor, without a dimension for one codebook."""
        return parts[0] if len(parts) == 1 else torch.stack(parts, dim)

    def _quantize(self, book: Codebook, e: Tensor, upkeep: "_Upkeep") -> "_Step":
        """Return the codes of vectors; before, place and revive codes; after, count and average them."""
        revived = self._prepare(book, e, upkeep)
        if isinstance(self.estimator, str):
            code, indices = book(e)
            counts = count_codes(indices, self.codes)
            terms = {"commitment": (code.detach() - e).square().sum(-1)}
            if book.learning != "average":
                terms["codebook"] = (code - e.detach()).square().sum(-1)
            if upkeep.counts and book.learning == "average":
                book.average(book.add_up(e.detach(), indices), counts)
        else:
            scores, space = book.scores(e), Categorical(self.codes)
            terms = {"kl": space.kl(scores)}
            indices = find_largest(scores.detach()).squeeze(-1)
            counts = count_codes(indices, self.codes)
            if self.training:
                z = sample(scores, space, self.estimator, generator=self.generator, validate=False)
                code, indices = book.look_up(z), find_largest(z.detach()).squeeze(-1)
            else:
                code = book.compute_codes()[indices]
        dead = torch.zeros_like(revived)
        if upkeep.counts:
            book.used += counts
            dead = book.find_dead(self.revive_below).sum()
        return _Step(code, indices, terms, counts, dead, revived)

    def _plan_upkeep(self, x: Tensor) -> "_Upkeep":
        """Decide what is done with the codebooks in this call, and count the call."""
        if not (self.training and self.maintain and x.numel()) or is_transformed():
            return _Upkeep()
        if not can_read_values():
            return _Upkeep(counts=True)
        first, calls = int(self.placed), int(self.calls)
        last = min(self.codes, first + x.numel() // self.dim)
        self.placed.fill_(last)
        self.calls.fill_(calls + 1)
        is_due = first == self.codes and calls % self.revive_every == 0 and self.revive_below > 0
        return _Upkeep(True, first, last, is_due)

    @torch.no_grad()
    def _prepare(self, book: Codebook, e: Tensor, upkeep: "_Upkeep") -> Tensor:
        """Place or revive codes, where that is due; return the number of those that were revived."""
        none = torch.zeros((), dtype=torch.int64, device=e.device)
        if upkeep.first == upkeep.last and not upkeep.searches:
            return none
        points = widen_dtype(e.detach()).reshape(-1, e.shape[-1])
        points = points[:: max(1, len(points) // max(_POINTS, 2 * self.codes))]
        jitter = _JITTER * float(points.square().mean().sqrt())
        if upkeep.searches:
            enough = float(book.used.mean()) * self.revive_below >= 1
            return book.revive(points, self.revive_below, self.generator, jitter=jitter).sum() if enough else none
        if upkeep.first == 0 or book.linear is not None:
            book.initialize(points, self.generator, jitter=jitter)
        else:
            number = torch.arange(self.codes, device=e.device)
            chosen = (upkeep.first <= number) & (number < upkeep.last)
            book.move_codes(chosen, points, self.generator, jitter=jitter)
        return none

    def _need_one_stage(self) -> None:
        if self.residual > 1:
            raise NotExactError(
                f"with residual={self.residual}, the scores of a codebook depend on the choice before it; use "
                "residual=1, or call the quantizer with a sample-style estimator"
            )

    def extra_repr(self) -> str:
        """Return the arguments, for `repr`."""
        options = [str(self.dim), f"codes={self.codes}", f"estimator={self.estimator}"]
        options += [f"{name}={value}" for name in ("groups", "residual") if (value := getattr(self, name)) > 1]
        return ", ".join(options)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "generator": None}  # generators can be neither copied nor pickled


@dataclass(frozen=True)
class _Upkeep:
    """What a call does with the codebooks: count; place the codes from `first` to `last`; search for unused ones."""

    counts: bool = False
    first: int = 0
    last: int = 0
    searches: bool = False


@dataclass(frozen=True)
class _Step:
    """The codes of one codebook."""

    code: Tensor
    indices: Tensor
    terms: dict[str, Tensor]
    counts: Tensor
    dead: Tensor
    revived: Tensor


def _check_estimator(estimator: object, codes: int, learning: str) -> None:
    if isinstance(estimator, AbstractSampler):
        if learning == "average":
            raise ArgumentError(
                f"learning='average' needs the nearest codes, but {estimator} draws codes and gives them a gradient; "
                "use learning='gradient'"
            )
        estimator.check(Categorical(max(codes, 1)), 1)
    elif isinstance(estimator, AbstractEstimator):
        raise ArgumentError(
            f"{estimator} needs values of the loss, which a layer does not have; create the quantizer with "
            "learning='gradient', and call hm.elbo or hm.expectation with f = lambda z: minus the loss at "
            "quantizer.look_up(z), quantizer.scores(x) and quantizer.space, as on the page 'Quantize vectors'; or use "
            "a sample-style estimator such as ReinMax()"
        )
    elif estimator not in _BYPASSES:
        raise ArgumentError(
            f"estimator must be 'nearest', 'rotate', or a sample-style estimator such as ReinMax() or GumbelSoftmax(); "
            f"got {estimator!r}"
        )
