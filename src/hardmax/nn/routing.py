"""Which experts each token goes to, how evenly, and the weighted sum of their outputs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from hardmax.errors import ShapeError


@dataclass(frozen=True)
class ExpertLoad:
    r"""How evenly the tokens of one call are spread over the experts. Without gradient.

    Attributes:
        share: `[experts]`. Part of all choices that fall on each expert; the sum is 1, or 0 if there are no tokens.
        entropy: `[]`. Entropy of the shares in nats, at most $\log(\mathrm{experts})$.
        drop_rate: `[]`. Part of all choices that experts could not process if each took at most
            $\lceil \mathrm{capacity} \cdot \mathrm{tokens} \cdot k / \mathrm{experts} \rceil$ tokens. Nothing is
            dropped.
    """

    share: Float[Tensor, "experts"]
    entropy: Float[Tensor, ""]
    drop_rate: Float[Tensor, ""]


@dataclass(frozen=True)
class Routing:
    r"""The experts of each token and their weights.

    Attributes:
        weights: `[*B, k]`. Weight of each chosen expert: the entries of `z` at `indices`.
        indices: `[*B, k]`. Chosen experts, int64, in descending order of their scores.
        z: `[*B, experts]`. The weights of all experts, zero where not chosen. Through it, the router learns which
            experts to choose, if the estimator has a gradient of the choice.
        probabilities: `[*B, experts]`. Softmax of the logits.
        loss: `[]`. Balance loss, with its weight; zero if it is off. Add it to the loss of the model.
        load: how evenly the experts are used.
        log_prob: `[*B]`. Log-probability of the chosen set, with a gradient to the logits; only in training with
            `estimator="score-function"`, else None.
        has_choice_gradient: whether the gradient of `z` is not zero for experts that are not chosen. To use it, the
            layer has to evaluate all experts.
    """

    weights: Float[Tensor, "*B k"]
    indices: Int64[Tensor, "*B k"]
    z: Float[Tensor, "*B experts"]
    probabilities: Float[Tensor, "*B experts"]
    loss: Float[Tensor, ""]
    load: ExpertLoad
    log_prob: Float[Tensor, "*B"] | None = None
    has_choice_gradient: bool = False

    def combine(self, outputs: Float[Tensor, "*B experts features"]) -> Float[Tensor, "*B features"]:
        r"""Return the weighted sum of outputs of all experts: `[*B, experts, features] -> [*B, features]`.

        $$ y = \sum_e z_e \, \mathrm{outputs}_e $$

        The gradient of an expert that is not chosen is zero. `mix_experts` returns the same with fewer evaluations.
        """
        if outputs.shape[:-1] != self.z.shape:
            raise ShapeError(
                f"outputs have shape {list(outputs.shape)}, but a routing of shape {list(self.z.shape)} needs outputs "
                f"of all experts, {[*self.z.shape, 'features']}"
            )
        return torch.einsum("...e,...ef->...f", self.z.to(outputs.dtype), outputs)


def mix_experts(
    experts: Iterable[Callable[[Tensor], Tensor]],
    x: Float[Tensor, "*B _"],
    routing: Routing,
    *,
    unchosen: bool = True,
) -> Float[Tensor, "*B _"]:
    r"""Return the weighted sum of the chosen experts' outputs, and evaluate no more than the gradient needs.

    $$ y = \sum_e z_e \, \mathrm{expert}_e(x) $$

    Each expert gets the tokens that chose it. If the routing has a gradient of the choice, it gets all other tokens as
    well, without a graph: their outputs enter only the gradient of the router. The result and all gradients are those
    of `Routing.combine`.

    With `unchosen=False`, the router's gradient uses the chosen experts alone, as if the others returned zero. That is
    an approximation, at the cost of plain top-k. With `normalise=True` and k = 1, where e is chosen with the
    probability $q_e$, and $g_e$ is the derivative of the loss along $\mathrm{expert}_e(x)$, the gradient of the router
    is then $g_e \nabla q_e$ for `StraightThrough()` and $\frac{1}{2} g_e \nabla \log q_e$ for `ReinMax()`: half of the
    score-function gradient of a loss that is linear between zero and the expert's output.

    Args:
        experts: functions of tokens, `[T, d] -> [T, features]`, such as an `nn.ModuleList`. They must treat tokens
            independently, and be deterministic if unchosen tokens are evaluated: dropout, for example, would draw
            another mask.
        x: `[*B, d]`.
        routing: what the router returned for x.
        unchosen: whether experts are evaluated at tokens that did not choose them, where the gradient needs it.

    Returns:
        `[*B, features]`.

    Raises:
        ShapeError: the routing has another batch shape than x, or another number of experts.

    Example:
        >>> import torch, hardmax as hm
        >>> router = hm.nn.TopKRouter(4, experts=3, k=2)
        >>> experts = torch.nn.ModuleList(torch.nn.Linear(4, 5) for _ in range(3))
        >>> x = torch.randn(10, 7, 4)
        >>> hm.nn.mix_experts(experts, x, router(x)).shape
        torch.Size([10, 7, 5])
    """
    experts = list(experts)
    if routing.z.shape != (*x.shape[:-1], len(experts)):
        raise ShapeError(
            f"x has shape {list(x.shape)} and there are {len(experts)} experts, but the routing has shape "
            f"{list(routing.z.shape)}; expected {[*x.shape[:-1], len(experts)]}"
        )
    tokens, z = x.reshape(-1, x.shape[-1]), routing.z.reshape(-1, len(experts))
    is_chosen = torch.zeros_like(z, dtype=torch.bool)
    is_chosen.scatter_(-1, routing.indices.reshape(-1, routing.indices.shape[-1]), True)
    y = None
    for expert, weights, chosen in zip(experts, z.unbind(-1), is_chosen.unbind(-1), strict=True):
        for part in (chosen, ~chosen) if unchosen and routing.has_choice_gradient else (chosen,):
            rows = part.nonzero().squeeze(-1)
            with torch.set_grad_enabled(part is chosen and torch.is_grad_enabled()):
                output = expert(tokens[rows])
            y = output.new_zeros(len(tokens), output.shape[-1]) if y is None else y
            y = y.index_add(0, rows, output * weights[rows, None].to(output.dtype))
    assert y is not None  # a router has at least one expert
    return y.view(*x.shape[:-1], y.shape[-1])
