"""Denormal numbers are zero during a training, and unchanged outside of it."""

import pytest
import torch

from hardmax.training.denormals import flush_denormals


def _is_flushed():
    return bool(torch.full((), 1e-40) * 1 == 0)


def test_numbers_are_flushed_inside_only_also_after_an_error():
    with flush_denormals():
        assert _is_flushed()
        with flush_denormals():
            assert _is_flushed()
        assert _is_flushed()  # the outer setting
    assert not _is_flushed()
    with pytest.raises(ValueError, match="stop"), flush_denormals():
        raise ValueError("stop")
    assert not _is_flushed()


def test_moments_that_shrink_become_zero():
    weight = torch.nn.Parameter(torch.ones(1000))
    optimizer = torch.optim.Adam([weight], fused=True)
    weight.grad = torch.ones(1000)
    with flush_denormals():
        optimizer.step()
        weight.grad = torch.zeros(1000)
        for _ in range(900):
            optimizer.step()
    assert optimizer.state[weight]["exp_avg"].eq(0).all()
