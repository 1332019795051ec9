"""Run tests of spaces with and without Numba."""

import pytest
import torch
from cases import block_numba

from hardmax.tracing import can_run_compiled


@pytest.fixture(params=["compiled", "torch"])
def _backend(request, monkeypatch):
    if request.param == "torch":
        block_numba(monkeypatch)
    else:
        assert can_run_compiled(torch.zeros(1))
