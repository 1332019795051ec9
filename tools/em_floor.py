"""The EM floor of table 1: a mixture of k products of Bernoullis, the family of a VAE with one categorical variable.

    python tools/em_floor.py --data mnist fashion-mnist --categories 10 20 30 40 50

prints a line of JSON for each data set and k: test -log p(x) of the start that is best on the validation images, and
the median over starts. No VAE gets far below it: its decoder is such a mixture.
"""

import argparse
import json
from statistics import median

from hardmax.applications.discrete_vae import BernoulliMixture
from hardmax.data import binarize, load_images
from hardmax.random import make_generator


def main() -> None:
    """Fit the mixtures that the options name, and print their results."""
    parser = argparse.ArgumentParser(description="EM floors of table 1")
    parser.add_argument("--data", nargs="+", default=["mnist", "fashion-mnist"])
    parser.add_argument("--categories", nargs="+", type=int, default=[10, 20, 30, 40, 50])
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--starts", type=int, default=8)
    options = parser.parse_args()
    for data in options.data:
        images = load_images(data)
        train, validation, test = (
            binarize(split, "threshold").flatten(1) for split in (images.train, images.validation, images.test)
        )
        for k in options.categories:
            results = []
            for start in range(options.starts):
                mixture = BernoulliMixture.fit(train, k, steps=options.steps, generator=make_generator(start, "em"))
                results.append([-mixture.log_likelihood(split).mean().item() for split in (validation, test)])
            tests = [test for _, test in results]
            row = {"data": data, "k": k, "nll": round(min(results)[1], 2), "median": round(median(tests), 2)}
            print(json.dumps({**row, "starts": options.starts, "steps": options.steps}), flush=True)


if __name__ == "__main__":
    main()
