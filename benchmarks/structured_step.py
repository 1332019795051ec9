"""One training step of a VAE with 15 bits, decoder 30-300-784, B = 100, through the public API.

- Structured compared with unstructured: the cost of couplings, with the same estimator (`Direct`, posterior form).
- Flips: all n flips by shortcuts, and only those that can matter, compared with the n + 1 decoder passes they replace.
"""

import torch
from torch import Tensor

import hardmax as hm
from benchmarks.timing import measure_medians
from hardmax.data import binarize, load_images

N, BATCH, WARM_UP = 15, 100, 150
LIMITS = {"supermodular": 1.25, "general": 1.5}  # over the unstructured step
SPACES = {
    "unstructured": hm.Binary(N),
    "supermodular": hm.PairwiseBinary(N, supermodular=True),
    "general": hm.PairwiseBinary(N),
}
images = binarize(load_images("sample").train, "threshold").flatten(1)


class Bare:
    """A likelihood without its shortcuts."""

    def __init__(self, likelihood: hm.AbstractLikelihood) -> None:
        self.likelihood = likelihood

    def __call__(self, z: Tensor) -> Tensor:
        return self.likelihood(z)


class TrainingStep:
    """A model in training; a call makes one step."""

    def __init__(self, space: hm.AbstractSpace, estimator: hm.AbstractEstimator, shortcuts: bool = True) -> None:
        torch.manual_seed(0)
        self.model = hm.DiscreteVAE.build(space, (1, 28, 28))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, fused=True)
        self.estimator, self.shortcuts, self.step, self.evaluations = estimator, shortcuts, 0, 0.0

    def __call__(self) -> None:
        start = self.step * BATCH % (len(images) - BATCH)
        x = images[start : start + BATCH]
        f = self.model.likelihood(x) if self.shortcuts else Bare(self.model.likelihood(x))
        out = hm.elbo(f, self.model.encoder(x), self.model.space, self.estimator)
        self.optimizer.zero_grad()
        (-out.value.mean()).backward()
        self.optimizer.step()
        self.step += 1
        self.evaluations = out.evaluations


def main() -> bool:
    """Print two tables; return whether the limits hold."""
    print(f"one step, {N} bits, B={BATCH}, one thread, after {WARM_UP} steps of training")
    runs = {name: TrainingStep(space, hm.Direct()) for name, space in SPACES.items()}
    runs["general, all flips evaluated"] = TrainingStep(SPACES["general"], hm.Direct(), shortcuts=False)
    runs["general, conditional gradient"] = TrainingStep(SPACES["general"], hm.ConditionalGradient(roulette=True))
    runs["general, Gibbs covariance"] = TrainingStep(SPACES["general"], hm.GibbsCovariance())
    times = measure_medians(runs, rounds=100, warm_up=WARM_UP)
    within = True
    print(f"{'':<32}{'ms':>8}{'over unstructured':>20}{'limit':>8}{'evaluations':>14}")
    for name, seconds in times.items():
        ratio, limit = seconds / times["unstructured"], LIMITS.get(name)
        within &= limit is None or ratio <= limit
        print(f"{name:<32}{1e3 * seconds:8.2f}{ratio:20.2f}{limit or '':>8}{runs[name].evaluations:14.1f}")
    return within & _measure_flips()


@torch.no_grad()
def _measure_flips() -> bool:
    model = hm.DiscreteVAE.build(hm.Binary(N), (1, 28, 28))
    likelihood = model.likelihood(images[:BATCH])
    z = (torch.rand(1, BATCH, N) < 0.5).float()
    every = torch.ones(1, BATCH, N, dtype=torch.bool)
    few = torch.rand(1, BATCH, N) < 0.2
    neighbours = torch.cat([z, hm.Binary(N).neighbours(z[0])])
    times = measure_medians(
        {
            f"{N + 1} decoder passes": lambda: likelihood(neighbours),
            "all flips by shortcuts": lambda: likelihood.changes(z).gains(every),
            "bounds, a fifth of the flips": lambda: (
                likelihood.changes(z).bounds,
                likelihood.changes(z).gains(few),
            ),
        },
        rounds=60,
    )
    base = times[f"{N + 1} decoder passes"]
    print(f"\n{'':<36}{'ms':>8}{'of the passes':>16}")
    for name, seconds in times.items():
        print(f"{name:<36}{1e3 * seconds:8.2f}{seconds / base:16.2f}")
    return times["all flips by shortcuts"] < base
