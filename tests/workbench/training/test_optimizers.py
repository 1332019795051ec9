"""RAdam in fused steps is torch's RAdam."""

import pytest
import torch

from hardmax.training.optimizers import RAdam, make_optimizer


def _train(optimizer_class, steps, betas, lr=0.01):
    """Return weights after each step of noisy gradients, one of them zero for a while and one of them missing."""
    generator = torch.Generator().manual_seed(0)
    weights = [torch.nn.Parameter(torch.ones(5, dtype=torch.float64)), torch.nn.Parameter(torch.zeros(3))]
    unused = torch.nn.Parameter(torch.ones(2))
    optimizer = optimizer_class(
        [{"params": [weights[0]], "betas": betas}, {"params": [weights[1], unused], "lr": 0.1 * lr}], lr=lr
    )
    path = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] *= 0.99
        for weight in weights:
            weight.grad = torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
        weights[0].grad[0] = 0.0 if step < 8 else 1.0
        optimizer.step()
        path.append(torch.cat([weight.detach().double() for weight in weights]))
    assert unused.eq(1).all()
    return torch.stack(path)


@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.5, 0.9), (0.0, 0.99)])
def test_radam_is_torchs_radam(betas):
    ours, theirs = _train(RAdam, 40, betas), _train(torch.optim.RAdam, 40, betas)
    torch.testing.assert_close(ours[:, :5], theirs[:, :5], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(ours[:, 5:], theirs[:, 5:], rtol=1e-4, atol=1e-7)
    assert (ours - _train(torch.optim.Adam, 40, betas)).abs().max() > 1e-3  # Adam is another method


def test_the_learning_rate_and_eps_are_unchanged_after_a_step_also_after_an_error():
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = make_optimizer("radam", [{"params": [weight]}], 0.1)

    def fail():
        raise RuntimeError("no loss")

    for _ in range(7):
        weight.grad = torch.ones(2)
        optimizer.step()
    with pytest.raises(RuntimeError, match="no loss"):
        optimizer.step(fail)
    assert (optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["eps"]) == (0.1, 1e-8)


def test_state_can_be_exchanged_with_torchs_radam():
    weight = torch.nn.Parameter(torch.ones(2))
    ours, theirs = make_optimizer("radam", [{"params": [weight]}], 0.1), torch.optim.RAdam([weight], lr=0.1)
    weight.grad = torch.ones(2)
    ours.step()
    stored = ours.state_dict()["state"]
    theirs.step()
    assert stored[0].keys() == theirs.state_dict()["state"][0].keys()
