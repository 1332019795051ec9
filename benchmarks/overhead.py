"""Overhead of a call of hm.expectation over the bare tensor operations: B = 100, k = 10, without the backward pass.

Each bare version does the arithmetic of the estimator by hand, without checks, counts or generality.
"""

import torch
from torch import Tensor

import hardmax as hm
from benchmarks.timing import measure_medians

B, K = 100, 10
LIMIT = 0.3e-3  # seconds over the bare operations

scores = torch.randn(B, K, requires_grad=True)
values = torch.randn(B, K)
space = hm.Categorical(K)


class Objective:
    """The smallest possible f, so that the time is that of the library."""

    def __call__(self, z: Tensor) -> Tensor:
        return (z * values).sum(-1)

    def table(self) -> Tensor:
        return values


def draw_gumbel() -> Tensor:
    return -torch.empty(B, K).exponential_().log()


def attach_gradient(value: Tensor, surrogate: Tensor) -> Tensor:
    return value + (surrogate - surrogate.detach())


def bare_exact() -> Tensor:
    return (scores.softmax(-1) * values).sum(-1)


def bare_direct() -> Tensor:
    with torch.no_grad():
        perturbed = scores + draw_gumbel()
        z, moved = perturbed.argmax(-1, keepdim=True), (perturbed + values).argmax(-1, keepdim=True)
        gradient = torch.zeros(B, K).scatter_(-1, moved, 1.0).scatter_add_(-1, z, -torch.ones(B, 1))
    return attach_gradient(values.gather(-1, z).squeeze(-1), (gradient * scores).sum(-1))


def bare_gumbel_softmax() -> Tensor:
    return (torch.nn.functional.gumbel_softmax(scores, 1.0) * values).sum(-1)


def bare_straight_through() -> Tensor:
    z = torch.zeros(B, K).scatter_(-1, (scores.detach() + draw_gumbel()).argmax(-1, keepdim=True), 1.0)
    return (attach_gradient(z, scores.softmax(-1)) * values).sum(-1)


def bare_reinforce() -> Tensor:
    z = (scores.detach() + draw_gumbel()).argmax(-1, keepdim=True)
    value = values.gather(-1, z).squeeze(-1)
    return attach_gradient(value, value * scores.log_softmax(-1).gather(-1, z).squeeze(-1))


def bare_local_expectation() -> Tensor:
    z = (scores.detach() + draw_gumbel()).argmax(-1, keepdim=True)
    return attach_gradient(values.gather(-1, z).squeeze(-1), (scores.softmax(-1) * values).sum(-1))


CASES = {
    hm.Exact(): bare_exact,
    hm.Direct(): bare_direct,
    hm.GumbelSoftmax(): bare_gumbel_softmax,
    hm.StraightThrough(): bare_straight_through,
    hm.Reinforce(): bare_reinforce,
    hm.LocalExpectation(): bare_local_expectation,
}


def main() -> bool:
    """Print a table; return whether every overhead is within the limit."""
    f, within = Objective(), True
    print(f"hm.expectation over the bare operations, B={B}, k={K}, one thread (limit {LIMIT * 1e6:.0f} us)")
    print(f"{'estimator':<44}{'bare us':>9}{'hardmax us':>12}{'over us':>9}{'without checks':>16}")
    for estimator, bare in CASES.items():
        times = measure_medians(
            {
                "bare": bare,
                "hardmax": lambda e=estimator: hm.expectation(f, scores, space, e),
                "unchecked": lambda e=estimator: hm.expectation(f, scores, space, e, validate=False),
            }
        )
        over, unchecked = times["hardmax"] - times["bare"], times["unchecked"] - times["bare"]
        within &= over < LIMIT
        row = [times["bare"], times["hardmax"], over]
        print(f"{estimator!s:<44}{row[0] * 1e6:9.0f}{row[1] * 1e6:12.0f}{row[2] * 1e6:9.0f}{unchecked * 1e6:16.0f}")
    return within
