"""HardAttention and SelectK: what they read, their gradients against enumeration, and what they learn."""

import copy
import itertools

import pytest
import torch
from torch import nn

import hardmax as hm


def randn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_attention_reads_the_best_keys(k):
    query, key, value = randn(3, 5, 8), randn(3, 4, 8, seed=1), randn(3, 4, 6, seed=2)
    output, z = hm.nn.HardAttention(k).eval()(query, key, value)
    best = (query @ key.mT).topk(k).indices
    expected = torch.stack([value[b][best[b]].mean(1) for b in range(3)])
    torch.testing.assert_close(output, expected)
    assert (z.sum(-1) == k).all()


@pytest.mark.parametrize("k", [1, 2])
def test_gradient_of_attention_is_unbiased_for_linear_losses(k):
    """The loss is linear in z, so the mean gradient over draws is that of the marginals, by a z-test."""
    draws, (query, key, value) = 20_000, (randn(1, 3), randn(4, 3, seed=1), randn(4, 2, seed=2))
    weights = randn(2, seed=3)
    subsets = torch.tensor([[float(i in s) for i in range(4)] for s in itertools.combinations(range(4), k)]).double()
    leaf = query.clone().requires_grad_()
    scores = leaf @ key.T / 3**0.5
    q = (scores @ subsets.T).softmax(-1)
    (exact,) = torch.autograd.grad((q @ (subsets @ value @ weights / k)).sum(), leaf)
    many = query.expand(draws, 1, 3).clone().requires_grad_()
    layer = hm.nn.HardAttention(k)
    output, _ = layer(many, key.expand(draws, 4, 3), value, generator=torch.Generator().manual_seed(4))
    (gradient,) = torch.autograd.grad((output @ weights).sum(), many)
    error = gradient.std(0) / draws**0.5 + 1e-12
    assert ((gradient.mean(0) - exact).abs() < 5 * error).all()
    assert exact.norm() > 20 * error.norm()  # a factor of two or a sign would be noticed


def test_attention_masks():
    mask = torch.tensor([True, False, True, False])
    layer = hm.nn.HardAttention(2)
    for training in (True, False):
        _, z = layer.train(training)(randn(6, 5, 8), randn(6, 4, 8), randn(6, 4, 3), mask=mask)
        assert torch.equal(z, mask.double().expand(6, 5, 4))
    with pytest.raises(hm.ArgumentError, match="allow more"):
        layer(randn(5, 8), randn(4, 8), randn(4, 3), mask=torch.tensor([True, False, False, False]))


def test_attention_learns_where_to_look():
    """The query says which of eight cells has the answer; only the projection of the query is learned."""
    torch.manual_seed(0)
    cells = torch.eye(8)
    project, layer = nn.Linear(8, 8), hm.nn.HardAttention()
    optimizer = torch.optim.Adam(project.parameters(), lr=0.05)
    for _ in range(300):
        index = torch.randint(8, (64,))
        value = torch.randint(2, (64, 8, 1)).float()
        output, _ = layer(project(cells[index])[:, None] * 8, cells.expand(64, 8, 8), value)
        target = value[torch.arange(64), (index + 3) % 8]
        optimizer.zero_grad()
        (output[:, 0] - target).square().mean().backward()
        optimizer.step()
    _, z = layer.eval()(project(cells)[:, None] * 8, cells.expand(8, 8, 8), torch.zeros(8, 8, 1))
    assert z[:, 0].argmax(-1).tolist() == [(i + 3) % 8 for i in range(8)]


def test_select_keeps_k_features():
    layer, x = hm.nn.SelectK(6, 2).double(), randn(100, 6)
    with torch.no_grad():
        layer.scores.copy_(torch.tensor([0.0, 3.0, 0.0, 0.0, 2.0, 0.0]))
    y = layer(x)
    assert ((y != 0).sum(-1) == 2).all()
    assert len(torch.unique(y != 0, dim=0)) > 2  # each example has its own subset
    assert layer.indices.tolist() == [1, 4]
    kept = layer.eval()(x) != 0
    assert kept[:, layer.indices].all()
    assert kept.sum() == 200


@pytest.mark.parametrize("k", [1, 2])
def test_gradient_of_select_is_unbiased_for_linear_losses(k):
    draws, x, weights = 20_000, randn(4), randn(4, seed=1)
    layer = hm.nn.SelectK(4, k).double()
    with torch.no_grad():
        layer.scores.copy_(randn(4, seed=2))
    subsets = torch.tensor([[float(i in s) for i in range(4)] for s in itertools.combinations(range(4), k)]).double()
    scores = layer.scores.detach().requires_grad_()
    (exact,) = torch.autograd.grad((scores @ subsets.T).softmax(-1) @ (subsets @ (x * weights)), scores)
    y = layer(x.expand(draws, 4), generator=torch.Generator().manual_seed(3))
    (gradient,) = torch.autograd.grad((y @ weights).mean(), layer.scores)
    # The variance of one draw is below max |x weights|^2 times that of a derivative of a marginal, at most 1/4.
    assert (gradient - exact).norm() < 5 * (x * weights).norm() / draws**0.5
    assert exact.norm() > 20 * (x * weights).norm() / draws**0.5


def test_select_learns_the_features_that_matter():
    torch.manual_seed(0)
    x = torch.randn(512, 12)
    y = x[:, 3] - 2 * x[:, 8] + x[:, 9]
    layer = hm.nn.SelectK(12, 3)
    network = nn.Sequential(layer, nn.Linear(12, 1))
    groups = [{"params": network[1].parameters(), "lr": 0.02}, {"params": [layer.scores], "lr": 0.1}]
    optimizer = torch.optim.Adam(groups)
    for _ in range(300):
        optimizer.zero_grad()
        (network(x)[:, 0] - y).square().mean().backward()
        optimizer.step()
    assert layer.indices.tolist() == [3, 8, 9]
    other = hm.nn.SelectK(12, 3)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other.indices, layer.indices)
    assert torch.equal(copy.deepcopy(network).eval()(x), network.eval()(x))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_dtypes_and_empty_batches(dtype):
    query, key, value = (randn(2, 3, 4, seed=seed).to(dtype) for seed in range(3))
    output, z = hm.nn.HardAttention(2)(query, key, value)
    assert output.dtype == z.dtype == dtype
    assert hm.nn.HardAttention(2)(query[:0], key[:0], value[:0])[0].shape == (0, 3, 4)
    assert hm.nn.SelectK(4, 2)(query).dtype == dtype
    assert hm.nn.SelectK(4, 2)(query[:0]).shape == (0, 3, 4)
