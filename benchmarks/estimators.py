"""Time and memory of one training step with every estimator, compared with Gumbel-softmax.

A small discrete VAE through the public API: 784-200-scores, decoder with 200 hidden units, batch 100, one thread. Each
estimator takes the fewest samples that it can use, so the evaluations of f differ: the table lists them.
"""

from collections.abc import Callable

import torch
from torch import nn

import hardmax as hm
from benchmarks.speed.comparison import measure_peak_bytes
from benchmarks.timing import measure_medians

PIXELS, HIDDEN, BATCH = 784, 200, 100
images = torch.rand(10_000, 1, 28, 28, generator=torch.Generator().manual_seed(0)).round()

FACTORISED: dict[str, tuple[hm.AbstractEstimator, int]] = {
    "GumbelSoftmax": (hm.GumbelSoftmax(), 1),
    "StraightThrough": (hm.StraightThrough(), 1),
    "GappedStraightThrough": (hm.GappedStraightThrough(), 1),
    "ReinMax": (hm.ReinMax(), 1),
    "GumbelRao, 10 draws": (hm.GumbelRao(10), 1),
    "ImplicitMLE": (hm.ImplicitMLE(), 1),
    "AdaptiveImplicitMLE": (hm.AdaptiveImplicitMLE(), 1),
    "PerturbedOptimizer": (hm.PerturbedOptimizer(), 2),
    "Blackbox": (hm.Blackbox(), 1),
    "IdentityBackward": (hm.IdentityBackward(), 1),
    "Reinforce": (hm.Reinforce("leave-one-out"), 2),
    "UnorderedSet": (hm.UnorderedSet(), 2),
    "MuProp": (hm.MuProp(), 1),
    "Rebar": (hm.Rebar(), 1),
    "Rebar, learned": (hm.Rebar(learned=True), 1),
    "GibbsCovariance": (hm.GibbsCovariance(), 2),
    "LocalExpectation": (hm.LocalExpectation(), 1),
    "LocalExpectation, roulette": (hm.LocalExpectation(roulette=True), 1),
    "Direct": (hm.Direct(), 1),
    "AdaptiveDirect": (hm.AdaptiveDirect(), 1),
    "AveragedDirect": (hm.AveragedDirect(), 1),
    "DebiasedDirect, 32 draws": (hm.DebiasedDirect(), 1),
    "Antithetic(Direct)": (hm.Antithetic(hm.Direct()), 1),
}
BITS: dict[str, tuple[hm.AbstractEstimator, int]] = {
    "Arm": (hm.Arm(), 1),
    "DisArm": (hm.DisArm(), 1),
    "DoubleControlVariates": (hm.DoubleControlVariates(), 2),
    "Rodeo": (hm.Rodeo(), 2),
}
CATEGORIES: dict[str, tuple[hm.AbstractEstimator, int]] = {
    "DisArmCategorical": (hm.DisArmCategorical(), 1),
    "Arsm": (hm.Arsm(), 1),
}


def make_step(space: hm.AbstractSpace, estimator: hm.AbstractEstimator, samples: int) -> Callable[[], hm.Elbo]:
    """Return a function that makes one step of training."""
    torch.manual_seed(0)
    model = hm.DiscreteVAE.build(space, (1, 28, 28), hidden=HIDDEN)
    learned: list[nn.Parameter] = estimator.parameters() if isinstance(estimator, hm.AbstractControlled) else []
    optimizer = torch.optim.Adam([*model.parameters(), *learned], lr=1e-4, fused=True)

    def step() -> hm.Elbo:
        x = images[torch.randint(0, len(images), (BATCH,))]
        out = model(x, estimator=estimator, samples=samples)
        optimizer.zero_grad()
        loss = -out.value.mean()
        (loss if out.auxiliary is None else loss + out.auxiliary).backward()
        optimizer.step()
        return out

    return step


def main() -> bool:
    """Print a table for bits and one for categories; always returns True, since there is no limit."""
    for space, more in ((hm.Binary(20), BITS), (hm.Categorical(8, 4), CATEGORIES)):
        steps = {name: make_step(space, *chosen) for name, chosen in (FACTORISED | more).items()}
        evaluations = {name: step().evaluations for name, step in steps.items()}
        memory = {name: measure_peak_bytes(step) for name, step in steps.items()}
        times = measure_medians(steps, rounds=60, warm_up=5)
        print(f"one training step, {space}, decoder of {HIDDEN} hidden units, batch {BATCH}, one thread")
        print(f"{'estimator':<28}{'evaluations':>12}{'ms':>8}{'over GSM':>10}{'peak MB':>9}")
        for name, seconds in times.items():
            ratio = seconds / times["GumbelSoftmax"]
            print(f"{name:<28}{evaluations[name]:12.1f}{seconds * 1e3:8.2f}{ratio:10.2f}{memory[name] / 2**20:9.1f}")
    return True
