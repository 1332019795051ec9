"""Training that is stopped and resumed from a folder gives the same weights as training without a stop."""

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from hardmax.applications.segmentation.vae.label_training import minimise_loss
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


def test_a_stopped_run_resumes_bit_for_bit(tmp_path):
    uninterrupted, halted = network(), network()
    losses = minimise_loss(uninterrupted, noisy(uninterrupted), steps=30, rate=1e-2, parts=2)

    def stop(step, steps, loss):
        if step == 17:
            raise Stop

    with pytest.raises(Stop):
        minimise_loss(halted, noisy(halted), steps=30, rate=1e-2, parts=2, folder=tmp_path, every=5, progress=stop)
    resumed = network()
    rest = []
    resumed_losses = minimise_loss(
        resumed, noisy(resumed), steps=30, rate=1e-2, parts=2, folder=tmp_path, progress=lambda *row: rest.append(row)
    )
    assert [row[0] for row in rest] == list(range(16, 31))  # the folder held the state of step 15
    assert resumed_losses == losses
    for expected, parameter in zip(uninterrupted.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(expected, parameter)
    assert minimise_loss(resumed, noisy(resumed), steps=30, rate=1e-2, parts=2, folder=tmp_path) == losses


def test_parts_are_a_batch():
    in_parts, in_batches = network(), network()
    x = torch.randn(2, 5, 3)
    halves = iter([*x] * 10)
    minimise_loss(in_parts, lambda generator: in_parts(next(halves)).square().mean(), steps=10, rate=1e-2, parts=2)
    minimise_loss(in_batches, lambda generator: in_batches(x.flatten(0, 1)).square().mean(), steps=10, rate=1e-2)
    for first, second in zip(in_parts.parameters(), in_batches.parameters(), strict=True):
        torch.testing.assert_close(first, second)


def test_only_chosen_parameters_change():
    model = network()
    before = [p.clone() for p in model.parameters()]
    minimise_loss(model, noisy(model), steps=3, rate=1e-2, parameters=model[2].parameters())
    same = [torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
    assert same == [True, True, False, False]


def test_another_training_in_the_folder(tmp_path):
    model = network()
    minimise_loss(model, noisy(model), steps=2, rate=1e-2, folder=tmp_path)
    with pytest.raises(DataError, match="another training"):
        minimise_loss(model, noisy(model), steps=4, rate=1e-2, seed=1, folder=tmp_path)
    other = nn.Linear(3, 1)
    with pytest.raises(DataError, match="another training"):
        minimise_loss(other, noisy(other), steps=4, rate=1e-2, folder=tmp_path)


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("optimizer/0/exp_avg_sq", torch.zeros(1)),
        ("optimizer/0/exp_avg", torch.zeros(4, 3, dtype=torch.float16)),
        ("optimizer/one/exp_avg", torch.zeros(1)),
        ("optimizer/9/step", torch.zeros(())),
        ("weights/0.weight", torch.zeros(1)),
        ("weights/more", torch.zeros(1)),
        ("losses", torch.zeros(3, 3)),
    ],
)
def test_a_state_that_does_not_fit(tmp_path, name, tensor):
    model = network()
    minimise_loss(model, noisy(model), steps=2, rate=1e-2, folder=tmp_path)
    tensors = load_file(tmp_path / "training.safetensors")
    save_file({**tensors, name: tensor}, tmp_path / "training.safetensors")
    with pytest.raises(DataError, match="another training"):
        minimise_loss(model, noisy(model), steps=4, rate=1e-2, folder=tmp_path)


def test_a_loss_that_is_not_finite():
    model = network()
    with pytest.raises(ArgumentError, match="step 0 is nan"):
        minimise_loss(model, lambda generator: model(torch.full((1, 3), torch.nan)).sum(), steps=2, rate=1e-2)
