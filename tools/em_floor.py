"""The floor of table 1: EM for a mixture of k products of Bernoullis, which a VAE with one categorical variable is.

    python tools/em_floor.py --data mnist fashion-mnist --categories 10 20 30 40 50

prints a line of JSON for each: test -log p(x) of the start that is best on the validation pictures, and the median over
starts. No gradient gets far below it: the decoder of the VAE could be any such mixture.
"""

import argparse
import json
from statistics import median

import torch
from torch import Tensor

from hardmax.data import binarize, load
from hardmax.random import stream

_SMOOTH = 1e-3  # pseudo-counts of each pixel: one that is always on in a component must not be impossible
_SURE = 1e-6  # nor certain, which a mean of many pictures is once it is rounded


def log_joint(x: Tensor, weights: Tensor, means: Tensor) -> Tensor:
    """Return log p(x, z) `[N, k]` of x `[N, D]` under weights `[k]` and means `[k, D]`."""
    on, off = means.log(), (-means).log1p()
    return x @ (on - off).T + off.sum(-1) + weights.log()


def fit(x: Tensor, k: int, steps: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return weights `[k]` and means `[k, D]` after EM from k pictures, each mixed with the mean picture."""
    chosen = torch.randperm(len(x), generator=generator)[:k]
    weights, means = torch.full((k,), 1 / k), (0.5 * x[chosen] + 0.5 * x.mean(0)).clamp(0.01, 0.99)
    for _ in range(steps):
        posterior = log_joint(x, weights, means).softmax(-1)
        counts = posterior.sum(0)
        weights = (counts + _SMOOTH) / (counts + _SMOOTH).sum()
        means = ((posterior.T @ x + _SMOOTH) / (counts[:, None] + 2 * _SMOOTH)).clamp(_SURE, 1 - _SURE)
    return weights, means


def main() -> None:
    """Fit what is asked for."""
    parser = argparse.ArgumentParser(description="EM floors of table 1")
    parser.add_argument("--data", nargs="+", default=["mnist", "fashion-mnist"])
    parser.add_argument("--categories", nargs="+", type=int, default=[10, 20, 30, 40, 50])
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--starts", type=int, default=8)
    options = parser.parse_args()
    for data in options.data:
        images = load(data)
        train, validation, test = (
            binarize(split, "threshold").flatten(1) for split in (images.train, images.validation, images.test)
        )
        for k in options.categories:
            found = []
            for start in range(options.starts):
                mixture = fit(train, k, options.steps, stream(start, "em"))
                found.append([-log_joint(split, *mixture).logsumexp(-1).mean().item() for split in (validation, test)])
            tests = [test for _, test in found]
            row = {"data": data, "k": k, "nll": round(min(found)[1], 2), "median": round(median(tests), 2)}
            print(json.dumps({**row, "starts": options.starts, "steps": options.steps}), flush=True)


if __name__ == "__main__":
    main()
