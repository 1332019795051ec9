"""The floor of table 1: EM for a mixture of k products of Bernoullis, which a VAE with one categorical variable is.

    python tools/em_floor.py --data mnist fashion-mnist --categories 10 20 30 40 50

prints a line of JSON for each: test -log p(x) of the start that is best on the validation pictures, and the median over
starts. No gradient gets far below it: the decoder of the VAE could be any such mixture.
"""

import argparse
import json
from statistics import median

from hardmax.applications.discrete_vae import BernoulliMixture
from hardmax.data import binarize, load
from hardmax.random import stream


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
                mixture = BernoulliMixture.fit(train, k, steps=options.steps, generator=stream(start, "em"))
                found.append([-mixture.log_likelihood(split).mean().item() for split in (validation, test)])
            tests = [test for _, test in found]
            row = {"data": data, "k": k, "nll": round(min(found)[1], 2), "median": round(median(tests), 2)}
            print(json.dumps({**row, "starts": options.starts, "steps": options.steps}), flush=True)


if __name__ == "__main__":
    main()
