"""A layer that chooses k of n experts for each token: logits in, experts with weights out."""

from math import ceil, isfinite
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from hardmax.errors import ArgumentError, DtypeError, ShapeError
from hardmax.estimators import AbstractSampler, GumbelSoftmax
from hardmax.estimators.abstract import attach_gradient
from hardmax.expectations import sample
from hardmax.nn.routing import ExpertLoad, Routing
from hardmax.spaces import Categorical, Subset
from hardmax.spaces.abstract import IMPOSSIBLE, widen_dtype
from hardmax.tracing import can_read_values
from hardmax.validation import check_positive, describe_infinite, find_first_index

_ESTIMATORS = ("softmax", "dense", "score-function")
_BALANCES = (None, "loss", "bias")


class TopKRouter(nn.Module):
    r"""The router of a mixture of experts: chooses k experts for each token, and learns by a gradient of your choice.

    With $p = \operatorname{softmax}(\mathrm{logits})$ and $h \in \{0, 1\}^{\mathrm{experts}}$ the k chosen experts,

    $$ z_e = h_e \, p_e, \quad\text{or normalised}\quad z_e = \frac{h_e \, p_e}{\sum_j h_j \, p_j}, \qquad
       y = \sum_e z_e \, \mathrm{expert}_e(x). $$

    After `eval()`, h is the k largest logits. In training the estimator says what h is and how it is differentiated;
    p always has its ordinary gradient.

    | estimator | h in training | gradient of h | evaluations |
    |---|---|---|---|
    | `"softmax"` | k largest | none | k |
    | `"dense"` | k largest | that of p (straight-through, DenseMixer) | all |
    | `"score-function"` | sample of q | none; `Routing.log_prob`, for a loss of your own | k |
    | `StraightThrough()` | sample of q | that of the exact marginals of q | all |
    | `ReinMax()`, `GumbelRao()`, ... | k draws without replacement | accurate to second order for k = 1 | all |
    | `ImplicitMLE()`, `GumbelSoftmax(hard=True)`, ... | k largest of perturbed logits | see the estimator | all |

    q is the Gibbs distribution over sets of k experts (`hm.Subset`), for k = 1 the softmax. Where all experts are
    needed, those that are not chosen are evaluated forward only: `mix_experts` does it, and `Routing.combine` takes
    outputs of all.

    Bias: `"softmax"` ignores that the choice depends on the logits. `"dense"` and the estimators that use slopes are
    biased, except that `StraightThrough()` has no bias where the loss is linear in h, and `ReinMax()` none for k = 1
    where it is quadratic in h. Beyond k = 1, estimators of independent variables ignore that a draw depends on the
    earlier ones. `"score-function"` is unbiased for any loss that treats tokens independently. Variance: none of
    `"softmax"` and `"dense"` has any, given the tokens; that of `"score-function"` is usually the largest.

    `balance="loss"` adds $\mathrm{experts} \sum_e \mathrm{share}_e \, \bar p_e$ to the loss, where `share` is the part
    of all choices that fall on e, and $\bar p_e$ the mean of p over tokens: it is 1 if both are uniform.
    `balance="bias"` needs no loss: a bias for each expert is added to the logits for the choice only, not in p, and
    each call in training then moves it by $\mathrm{bias\_step} \cdot \operatorname{sign}(\mathrm{mean\ load} -
    \mathrm{load}_e)$.

    Half precision is computed in float32, and what is returned has the dtype of the logits.

    Args:
        dim: size of a token; None if the router receives logits, `[*B, experts]`, instead of tokens.
        experts: number of experts, at least 1.
        k: number of experts for each token, 1 to `experts`.
        estimator: "softmax", "dense", "score-function", or a sample-style estimator.
        normalise: divide the weights of the chosen experts by their sum. For k = 1 the weight is then 1, and z is h.
        noise: standard deviation of normal noise that is added to the logits in training (noisy top-k).
        balance: None, "loss" or "bias".
        loss_weight: factor of the balance loss.
        bias_step: how far a call in training moves each bias.
        capacity: how many tokens an expert takes, for `ExpertLoad.drop_rate`, relative to an even load.
        generator: source of the randomness; None is torch's global generator. A copy or a saved model does not keep it.
        validate: check logits for NaN and inf, and masks for k experts; never while compiling or under `torch.func`.

    Raises:
        ArgumentError: k outside 1 ... experts, an unknown estimator or balance, or a number that cannot be used;
            with "softmax" also `normalise` for k = 1, where all weights are 1 and nothing is learned.
        NotExactError: the estimator does not suit sets of k experts.

    Example:
        >>> import torch, hardmax as hm
        >>> router = hm.nn.TopKRouter(16, experts=8, k=2, estimator=hm.StraightThrough(), balance="loss")
        >>> routing = router(torch.randn(5, 10, 16))
        >>> routing.weights.shape, routing.indices.shape, routing.z.shape
        (torch.Size([5, 10, 2]), torch.Size([5, 10, 2]), torch.Size([5, 10, 8]))
        >>> round(routing.load.share.sum().item(), 4), routing.loss.requires_grad
        (1.0, True)

    References:
        Noisy top-k: Shazeer et al., "Outrageously large neural networks: the sparsely-gated mixture-of-experts layer",
        2017, eqs. 3-5. Balance loss: Lepikhin et al., "GShard", 2021; Fedus, Zoph & Shazeer, "Switch transformers",
        2022, eqs. 4-6. Bias: Wang, Gao, Zhao, Sun & Dai, "Auxiliary-loss-free load balancing strategy for
        mixture-of-experts", 2024; DeepSeek-AI, "DeepSeek-V3", 2024, eq. 16 (there the scores are sigmoids). Dense:
        Yao et al., "DenseMixer: improving MoE post-training with precise router gradient", 2025. SparseMixer: Liu, Gao
        & Chen, "Sparse backpropagation for MoE training", 2023.
    """

    bias: Tensor | None

    def __init__(
        self,
        dim: int | None,
        experts: int,
        k: int = 1,
        *,
        estimator: Literal["softmax", "dense", "score-function"] | AbstractSampler = "softmax",
        normalise: bool = False,
        noise: float = 0.0,
        balance: Literal["loss", "bias"] | None = None,
        loss_weight: float = 0.01,
        bias_step: float = 0.001,
        capacity: float = 1.25,
        generator: torch.Generator | None = None,
        validate: bool = True,
    ) -> None:
        super().__init__()
        if dim is not None and dim < 1:
            raise ArgumentError(f"dim must be at least 1, or None for a router that receives logits; got {dim}")
        if experts < 1:
            raise ArgumentError(f"experts must be at least 1, got {experts}")
        if not 1 <= k <= experts:
            raise ArgumentError(f"k must be between 1 and the number of experts, {experts}; got {k}")
        if balance not in _BALANCES:
            raise ArgumentError(f"balance must be None, 'loss' or 'bias', got {balance!r}")
        for name, value in (("noise", noise), ("loss_weight", loss_weight)):
            if not (value >= 0 and isfinite(value)):
                raise ArgumentError(f"{name} must be a finite number, at least 0; got {value}")
        check_positive("bias_step", bias_step)
        check_positive("capacity", capacity)
        _check_estimator(estimator, experts, k, normalise)
        self.dim, self.experts, self.k = dim, experts, k
        self.estimator = estimator
        self.normalise = normalise
        self.noise = noise
        self.balance = balance
        self.loss_weight, self.bias_step, self.capacity = loss_weight, bias_step, capacity
        self.generator = generator
        self.validate = validate
        self.linear = None if dim is None else nn.Linear(dim, experts, bias=False)
        self.register_buffer("bias", torch.zeros(experts) if balance == "bias" else None)

    def forward(self, x: Float[Tensor, "*B _"], *, mask: Bool[Tensor, "..."] | None = None) -> Routing:
        """Choose the experts of each token.

        Args:
            x: `[*B, dim]`, or `[*B, experts]` logits if `dim` is None.
            mask: `[*B, experts]` or a shape that broadcasts to it: True where the expert may be chosen.

        Returns:
            The experts, their weights, the balance loss and the load.

        Raises:
            ShapeError: x or the mask has a wrong shape.
            ArgumentError: a logit is not finite, or the mask leaves fewer than k experts to a token.
        """
        raw = self._compute_logits(x)
        logits = widen_dtype(raw)
        if self.training and self.noise:
            options = {"generator": self.generator, "dtype": logits.dtype, "device": logits.device}
            logits = logits + self.noise * torch.randn(logits.shape, **options)
        if mask is not None:
            logits = logits.masked_fill(~self._check_mask(mask, logits), IMPOSSIBLE)
        scores = logits if self.bias is None else logits + self.bias
        choice, indices, log_prob = self._choose(scores)
        probabilities = logits.softmax(-1)
        z = self._weigh(choice, probabilities)
        loss, load = self._measure(choice.detach(), probabilities)
        return Routing(
            weights=z.gather(-1, indices).to(raw.dtype),
            indices=indices,
            z=z.to(raw.dtype),
            probabilities=probabilities.to(raw.dtype),
            loss=loss,
            load=load,
            log_prob=log_prob,
            has_choice_gradient=self._has_choice_gradient,
        )

    @property
    def _has_choice_gradient(self) -> bool:
        return self.training and self.estimator not in ("softmax", "score-function")

    def _compute_logits(self, x: Tensor) -> Tensor:
        if not x.is_floating_point():
            raise DtypeError(f"x must be floating point, got {x.dtype}; pass x.float()")
        size = self.experts if self.dim is None else self.dim
        if x.shape[-1:] != (size,):
            name = "logits [*B, experts]" if self.dim is None else "tokens [*B, dim]"
            raise ShapeError(f"the router needs {name} whose last dimension is {size}, got shape {list(x.shape)}")
        logits = x if self.linear is None else self.linear(x)
        if self.validate and can_read_values() and (problem := describe_infinite(logits)) is not None:
            raise ArgumentError(
                f"logits must be finite, {problem}; look for a diverged network, and exclude experts by mask=, not by "
                "infinite logits"
            )
        return logits

    def _check_mask(self, mask: Tensor, logits: Tensor) -> Tensor:
        if mask.dtype != torch.bool:
            raise DtypeError(f"mask must be of dtype bool, True where an expert may be chosen; got {mask.dtype}")
        try:
            mask = mask.expand(logits.shape)
        except RuntimeError as error:
            raise ShapeError(
                f"mask has shape {list(mask.shape)}, which does not broadcast to that of the logits, "
                f"{list(logits.shape)}; for a mask of tokens, route x[mask]"
            ) from error
        if self.validate and can_read_values() and (too_few := mask.sum(-1) < self.k).any():
            index = find_first_index(too_few)
            raise ArgumentError(
                f"the mask leaves {int(mask[tuple(index)].sum())} experts to the token at index {index}, but k="
                f"{self.k} are chosen ({int(too_few.sum())} of {too_few.numel()} tokens have too few)"
            )
        return mask

    def _choose(self, scores: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return h `[*B, experts]`, with its gradient if it has one; the experts `[*B, k]`; and log q(h) or None."""
        if not self.training or self.estimator in ("softmax", "dense"):
            indices = scores.detach().topk(self.k).indices
            return torch.zeros_like(scores.detach()).scatter(-1, indices, 1.0), indices, None
        log_prob = None
        space = _make_space(self.experts, self.k)
        if isinstance(self.estimator, str):
            choice = space.sample(scores, 1, generator=self.generator)[0]
            log_prob = space.log_prob(scores, choice)
        elif self.estimator.independent and self.k > 1:
            choice = self._draw_in_sequence(scores, self.estimator)
        else:
            choice = sample(scores, space, self.estimator, samples=1, generator=self.generator, validate=False)[0]
        # Of the experts that are not chosen, none is larger than the smallest number.
        chosen = torch.where(choice.detach() > 0.5, scores.detach(), torch.finfo(scores.dtype).min)
        return choice, chosen.topk(self.k).indices, log_prob

    def _draw_in_sequence(self, scores: Tensor, estimator: AbstractSampler) -> Tensor:
        """Draw k experts one after the other, without replacement."""
        space, draws = Categorical(self.experts), []
        for _ in range(self.k):
            z = sample(scores, space, estimator, samples=1, generator=self.generator, validate=False)[0]
            scores = scores.masked_fill(z.detach() > 0.5, IMPOSSIBLE)
            draws.append(z)
        return torch.stack(draws).sum(0)

    def _weigh(self, choice: Tensor, probabilities: Tensor) -> Tensor:
        """Return z."""
        z = choice * probabilities
        if self.training and self.estimator == "dense":
            z = attach_gradient(z.detach(), probabilities)
        elif self.normalise and self.k == 1:
            return choice
        return z / z.sum(-1, keepdim=True).clamp_min(torch.finfo(z.dtype).tiny) if self.normalise else z

    def _measure(self, choice: Tensor, probabilities: Tensor) -> tuple[Tensor, ExpertLoad]:
        """Return the balance loss and the load; move the bias."""
        choice, probabilities = choice.reshape(-1, self.experts), probabilities.reshape(-1, self.experts)
        tokens = len(choice)
        counts = choice.sum(0)
        share = counts / max(tokens * self.k, 1)
        limit = ceil(self.capacity * tokens * self.k / self.experts)
        drop_rate = (counts - limit).clamp_min(0).sum() / max(tokens * self.k, 1)
        load = ExpertLoad(share, torch.special.entr(share).sum(), drop_rate)
        if self.bias is not None and self.training:
            self.bias += self.bias_step * (counts.mean() - counts).sign()
        if self.balance != "loss":
            return probabilities.new_zeros(()), load
        mean = probabilities.sum(0) / max(tokens, 1)
        return self.loss_weight * self.experts * (share * mean).sum(), load

    def extra_repr(self) -> str:
        """Return the arguments, for `repr`."""
        options = [str(self.dim), f"experts={self.experts}", f"k={self.k}", f"estimator={self.estimator}"]
        options += [f"{name}={value}" for name in ("normalise", "noise", "balance") if (value := getattr(self, name))]
        return ", ".join(options)

    def _apply(self, *args: object, **options: object) -> "TopKRouter":
        super()._apply(*args, **options)  # pyright: ignore[reportArgumentType]
        if self.bias is not None:
            self.bias = widen_dtype(self.bias)  # in bfloat16, a step of 0.001 is rounded away from 0.25 on
        return self

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "generator": None}  # generators can be neither copied nor pickled


def _make_space(experts: int, k: int) -> Categorical | Subset:
    """Return the space of sets of k experts; for k = 1, the faster one of the same distribution."""
    return Categorical(experts) if k == 1 else Subset(experts, k)


def _check_estimator(estimator: object, experts: int, k: int, normalise: bool) -> None:
    if not isinstance(estimator, AbstractSampler):
        if estimator not in _ESTIMATORS:
            raise ArgumentError(
                f"estimator must be 'softmax', 'dense', 'score-function', or a sample-style estimator such as "
                f"StraightThrough(), ReinMax() or ImplicitMLE(); got {estimator!r}. Estimators that need values of the "
                f"loss, such as Reinforce(), need estimator='score-function' and Routing.log_prob"
            )
        if estimator == "softmax" and normalise and k == 1:
            raise ArgumentError(
                "with k=1 and normalise=True all weights are 1, and estimator='softmax' gives the router no gradient; "
                "use normalise=False, or another estimator"
            )
        return
    if isinstance(estimator, GumbelSoftmax) and not estimator.hard:
        raise ArgumentError(f"{estimator} does not choose k experts; use {GumbelSoftmax(estimator.tau, hard=True)}")
    estimator.check(Categorical(experts) if estimator.independent else _make_space(experts, k), 1)
