"""Steps that can be stopped: what goes on from a folder is what would have gone on."""

import pytest
import torch
from torch import nn

from hardmax.applications.segmentation.vae.label_training import optimise
from hardmax.errors import ArgumentError, DataError


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def noisy(model):
    def loss(generator):
        x = torch.randn(8, 3, generator=generator)
        return (model(x)[:, 0] - x.sum(1)).square().mean()

    return loss


class Stop(Exception):
    pass


def test_a_stopped_run_goes_on_bit_for_bit(tmp_path):
    whole, halted = network(), network()
    losses = optimise(whole, noisy(whole), steps=30, rate=1e-2, parts=2)

    def stop(step, steps, loss):
        if step == 17:
            raise Stop

    with pytest.raises(Stop):
        optimise(halted, noisy(halted), steps=30, rate=1e-2, parts=2, folder=tmp_path, every=5, progress=stop)
    again = network()
    rest = []
    found = optimise(
        again, noisy(again), steps=30, rate=1e-2, parts=2, folder=tmp_path, progress=lambda *row: rest.append(row)
    )
    assert [row[0] for row in rest] == list(range(16, 31))  # the state of step 15 is what the folder held
    assert found == losses
    for one, other in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)
    assert optimise(again, noisy(again), steps=30, rate=1e-2, parts=2, folder=tmp_path) == losses


def test_parts_are_a_batch():
    one, other = network(), network()
    x = torch.randn(2, 5, 3)
    halves = iter([*x] * 10)
    optimise(one, lambda generator: one(next(halves)).square().mean(), steps=10, rate=1e-2, parts=2)
    optimise(other, lambda generator: other(x.flatten(0, 1)).square().mean(), steps=10, rate=1e-2)
    for first, second in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(first, second)


def test_only_chosen_parameters_change():
    model = network()
    before = [p.clone() for p in model.parameters()]
    optimise(model, noisy(model), steps=3, rate=1e-2, parameters=model[2].parameters())
    same = [torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
    assert same == [True, True, False, False]


def test_another_training_in_the_folder(tmp_path):
    model = network()
    optimise(model, noisy(model), steps=2, rate=1e-2, folder=tmp_path)
    with pytest.raises(DataError, match="another training"):
        optimise(model, noisy(model), steps=4, rate=1e-2, seed=1, folder=tmp_path)
    other = nn.Linear(3, 1)
    with pytest.raises(DataError, match="another training"):
        optimise(other, noisy(other), steps=4, rate=1e-2, folder=tmp_path)


def test_a_loss_that_is_not_finite():
    model = network()
    with pytest.raises(ArgumentError, match="step 0 is nan"):
        optimise(model, lambda generator: model(torch.full((1, 3), torch.nan)).sum(), steps=2, rate=1e-2)
