"""f and its derivative in z: what the estimators that expand f ask of it."""

import torch
from jaxtyping import Float
from torch import Tensor

from hardmax.errors import ArgumentError
from hardmax.evaluator import Evaluator
from hardmax.validation import values_readable


def with_slopes(
    name: str, f: Evaluator, z: Float[Tensor, "C ..."]
) -> tuple[Float[Tensor, "C *B"], Float[Tensor, "C ..."]]:
    """Evaluate f and, by one backward pass, its derivative in z.

    Args:
        name: of the estimator that asks, for the error.
        f: the objective; counted once for each z.
        z: `[C, *B, *event]`.

    Returns:
        `[C, *B]` f(z), with the gradient of all that f closes over; and `[C, *B, *event]` df/dz, detached.

    Raises:
        ArgumentError: f(z) carries no gradient to z.
    """
    if not values_readable():
        # Neither compiling nor torch.func allows autograd.grad inside. Under vjp, f cannot cut z into chunks itself.
        pairs = [_pulled_back(f, chunk) for chunk in z.split(f.chunk_size or len(z))]
        return torch.cat([values for values, _ in pairs]), torch.cat([slopes for _, slopes in pairs])
    leaf = z.detach().requires_grad_()
    slopes = None
    with torch.enable_grad():
        values = f(leaf)
        if values.requires_grad:
            (slopes,) = torch.autograd.grad(values.sum(), leaf, retain_graph=True, allow_unused=True)
    if slopes is None:
        raise ArgumentError(
            f"{name} needs an f that is differentiable in z, but f(z) carries no gradient to z; use an estimator that "
            f"needs values of f alone, such as LocalExpectation(), Reinforce() or UnorderedSet()"
        )
    return values if torch.is_grad_enabled() else values.detach(), slopes


def _pulled_back(f: Evaluator, z: Tensor) -> tuple[Tensor, Tensor]:
    values, pull = torch.func.vjp(f, z)  # pyright: ignore[reportAssignmentType]
    return values, pull(torch.ones_like(values))[0].detach()
