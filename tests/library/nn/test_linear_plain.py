"""`Linear` under torch.compile."""

import pytest
import torch

from hardmax.nn.linear import Linear
from hardmax.random import make_generator

pytestmark = pytest.mark.plain


def test_compiles_without_a_break() -> None:
    layer, x = Linear(150, 100), torch.randn(120, 150, generator=make_generator(0))
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), layer(x))
