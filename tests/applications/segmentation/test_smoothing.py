"""Alpha-expansion: energies that never rise, the best labels of small grids, moves that are exactly the best."""

import pytest
import torch

from hardmax.applications.segmentation.fit import smoothing as module
from hardmax.applications.segmentation.fit.smoothing import (
    energy,
    expand,
    grid_edges,
    reduce_problem,
    settle_voxels,
    smooth,
)
from hardmax.errors import ArgumentError


def grid(shape, labels, seed, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(labels, *shape, generator=generator, dtype=torch.float64)


def flat(cost, mask=None, spacing=None):
    inside = torch.ones(cost.shape[1:], dtype=torch.bool) if mask is None else mask
    return cost[:, inside], *grid_edges(inside, spacing)


def energies(cost, all_labels, edges, bonds):
    """Return the energy of each row of labels `[R, N]`, written out again."""
    own = cost[all_labels, torch.arange(cost.shape[1])].sum(1)
    return own + ((all_labels[:, edges[:, 0]] != all_labels[:, edges[:, 1]]) * bonds).sum(1)


def brute(cost, edges, bonds):
    """Return the least energy of all labellings."""
    members = torch.cartesian_prod(*[torch.arange(len(cost))] * cost.shape[1])
    return energies(cost, members, edges, bonds).min().item()


def best_move(cost, labels, edges, bonds, alpha):
    """Return the least energy of all labellings that keep a label or take alpha."""
    take = torch.cartesian_prod(*[torch.tensor([False, True])] * len(labels))
    return energies(cost, torch.where(take, alpha, labels), edges, bonds).min().item()


def check_moves(move):
    """A move must be the best among all that keep a label or take alpha, and change nothing else."""
    for seed in range(40):
        shape, strength = [(2, 2, 2), (3, 3), (8,)][seed % 3], [0.2, 0.7, 2.0][seed % 3]
        table, edges, bonds = flat(grid(shape, 3, seed))
        bonds = (
            strength * bonds * (0.5 + torch.rand(len(bonds), generator=torch.Generator().manual_seed(seed)).double())
        )
        labels = torch.randint(3, (table.shape[1],), generator=torch.Generator().manual_seed(seed))
        for alpha in range(3):
            found = move(table, labels, edges, bonds, alpha)
            assert ((found == labels) | (found == alpha)).all()
            assert energy(table, found, edges, bonds) == pytest.approx(best_move(table, labels, edges, bonds, alpha))


def test_every_move_is_the_best():
    check_moves(expand)


def greedy(cost, labels, edges, bonds, alpha):
    """Voxels switch on their own costs alone."""
    return torch.where(cost[alpha] < cost.gather(0, labels[None])[0], alpha, labels)


def half_the_bonds(cost, labels, edges, bonds, alpha):
    return expand(cost, labels, edges, bonds / 2, alpha)


@pytest.mark.parametrize("wrong", [greedy, half_the_bonds])
def test_wrong_moves_are_caught(wrong):
    with pytest.raises(AssertionError):
        check_moves(wrong)


@pytest.mark.parametrize("labels", [2, 3])
def test_against_all_labellings(labels):
    """Two labels: exact. Three: a local minimum, at most twice the best here, and nearly always the best."""
    hits = 0
    for seed in range(30):
        cost = grid((2, 2, 2) if labels == 2 else (2, 4), labels, seed).abs()
        table, edges, bonds = flat(cost)
        found = energy(table, smooth(cost, 0.4).flatten(), edges, 0.4 * bonds)
        best = brute(table, edges, 0.4 * bonds)
        assert found <= 2 * best + 1e-9
        hits += found <= best + 1e-9
    assert hits == 30 if labels == 2 else hits >= 27


def check_settled(settle):
    """A settled voxel has its label in every best labelling, and the open ones alone give the same energies."""
    for seed in range(40):
        table, edges, bonds = flat(grid((2, 2, 2), 3, seed, scale=2.0))
        bonds = 0.5 * bonds
        labels, open_ = settle(table, edges, bonds)
        members = torch.cartesian_prod(*[torch.arange(3)] * 8)
        every = energies(table, members, edges, bonds)
        best = members[every < every.min() + 1e-9]
        assert (best[:, ~open_] == labels[~open_]).all()
        small = reduce_problem(table, labels, open_, edges, bonds)
        agreeing = (members[:, ~open_] == labels[~open_]).all(1)
        gap = every[agreeing] - energies(small[0], members[agreeing][:, open_], *small[1:])
        torch.testing.assert_close(gap, gap[:1].expand_as(gap))


def test_settled_voxels_are_settled():
    check_settled(settle_voxels)


def test_settling_too_many_is_caught():
    with pytest.raises(AssertionError):
        check_settled(lambda cost, edges, bonds: settle_voxels(cost, edges, bonds / 6))


def test_energy_never_rises(monkeypatch):
    cost = grid((12, 10, 8), 5, 0)
    table, edges, bonds = flat(cost)
    seen = []

    def watched(table, labels, edges, bonds, alpha):
        out = expand(table, labels, edges, bonds, alpha)
        seen.append([energy(table, labels, edges, bonds), energy(table, out, edges, bonds)])
        return out

    monkeypatch.setattr(module, "expand", watched)
    labels = smooth(cost, 0.8)
    assert len(seen) > 6
    assert (torch.tensor(seen).flatten().diff() <= 1e-9).all()
    start, end = (energy(table, s, edges, 0.8 * bonds) for s in (table.argmin(0), labels.flatten()))
    assert end - start == pytest.approx(seen[-1][1] - seen[0][0])
    assert end < start


def test_a_move_that_rises_is_not_taken(monkeypatch):
    """As a solver without a proof may offer one."""
    monkeypatch.setattr(module, "expand", lambda cost, labels, edges, bonds, alpha: torch.full_like(labels, alpha))
    cost = grid((4, 4), 3, 0, scale=9.0)
    assert torch.equal(smooth(cost, 0.1), cost.argmin(0))


def test_outside_the_mask_nothing_happens():
    cost = grid((6, 6, 6), 3, 1)
    mask = torch.rand(6, 6, 6, generator=torch.Generator().manual_seed(0)) < 0.6
    labels = smooth(cost, 0.7, mask=mask)
    assert (labels[~mask] == 0).all()
    changed = torch.where(mask, cost, torch.randn(3, 6, 6, 6).double())
    assert torch.equal(smooth(changed, 0.7, mask=mask), labels)


def test_edges_of_a_grid():
    edges, bonds = grid_edges(torch.ones(3, 4, 5, dtype=torch.bool), (1.0, 1.0, 4.0))
    assert len(edges) == 2 * 4 * 5 + 3 * 3 * 5 + 3 * 4 * 4
    assert bonds.tolist() == [1.0] * (40 + 45) + [0.25] * 48
    place = torch.stack(torch.meshgrid(torch.arange(3), torch.arange(4), torch.arange(5), indexing="ij"), -1).view(
        -1, 3
    )
    assert ((place[edges[:, 0]] - place[edges[:, 1]]).abs().sum(1) == 1).all()


def test_strength():
    cost = grid((8, 8, 8), 3, 2)
    assert torch.equal(smooth(cost, 0.0), cost.argmin(0))
    assert (smooth(cost, 1e3) == cost.sum((1, 2, 3)).argmin()).all()
    noise = [int((smooth(cost, b).diff(dim=0) != 0).sum()) for b in (0.0, 0.3, 1.0)]
    assert noise == sorted(noise, reverse=True)
    assert noise[0] > 2 * noise[2]


def test_noise_on_blocks_is_removed():
    truth = (torch.arange(20) >= 10).long()[:, None, None].expand(20, 20, 20)
    generator = torch.Generator().manual_seed(0)
    x = truth + 0.8 * torch.randn(20, 20, 20, generator=generator)
    cost = torch.stack([x.square(), (x - 1).square()]) / (2 * 0.8**2)
    before, after = ((labels != truth).float().mean() for labels in (cost.argmin(0), smooth(cost, 0.7)))
    assert before > 0.2
    assert after < 0.02


def test_start_is_kept_where_it_is_best():
    cost = grid((5, 5), 3, 3)
    done = smooth(cost, 0.5)
    assert torch.equal(smooth(cost, 0.5, start=done), done)


def test_bad_input():
    cost = grid((4, 4), 2, 0)
    with pytest.raises(ArgumentError, match="negative"):
        smooth(cost, -1.0)
    with pytest.raises(ArgumentError, match="finite"):
        smooth(torch.full((2, 3), torch.inf), 1.0)
    with pytest.raises(ArgumentError, match="2 positive numbers"):
        smooth(cost, 1.0, spacing=(1.0, 1.0, 1.0))
