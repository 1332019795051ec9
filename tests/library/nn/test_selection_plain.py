"""HardAttention and SelectK under torch.compile and vmap; bad arguments."""

import pytest
import torch

import hardmax as hm

pytestmark = [
    pytest.mark.plain,
    # torch.compile itself instantiates custom autograd functions.
    pytest.mark.filterwarnings("ignore:.*autograd.function.Function.* should not be instantiated"),
]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("k", [1, 2])
def test_compiled_gives_the_same(k, training):
    layer = hm.nn.HardAttention(k).train(training)
    inputs = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 6)
    results = []
    for run in (layer, torch.compile(layer, fullgraph=True, backend="aot_eager")):
        torch.manual_seed(1)
        results.append(run(*inputs)[0])
    torch.testing.assert_close(*results)


def test_vmap():
    query, key, value = torch.randn(7, 3, 4), torch.randn(7, 5, 4), torch.randn(7, 5, 6)
    layer = hm.nn.HardAttention(2).eval()
    torch.testing.assert_close(torch.func.vmap(lambda *a: layer(*a)[0])(query, key, value), layer(query, key, value)[0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hm.nn.HardAttention(0), "k must be at least 1, got 0"),
        (lambda: hm.nn.SelectK(4, 5), "k must be between 1 and the number of features, 4; got 5"),
        (lambda: hm.nn.SelectK(4, 2)(torch.zeros(3, 5)), r"expected x \[\*B, 4\], got \[3, 5\]"),
        (
            lambda: hm.nn.HardAttention()(torch.zeros(3, 5), torch.zeros(4, 6), torch.zeros(4, 6)),
            r"expected query .* got \[3, 5\], \[4, 6\] and \[4, 6\]",
        ),
        (lambda: hm.nn.HardAttention(3)(torch.zeros(1, 5), torch.zeros(2, 5), torch.zeros(2, 6)), "got k=3"),
        (lambda: hm.nn.HardAttention()(torch.full((1, 5), torch.nan), torch.zeros(2, 5), torch.zeros(2, 6)), "got nan"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(hm.HardmaxError, match=message):
        make()
