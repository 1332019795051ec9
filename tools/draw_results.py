"""Draw two figures of docs/results/discrete-vae.md from runs: ``draw_results.py RUNS_FOLDER``."""

import json
import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure

from hardmax.applications.discrete_vae.model import DiscreteVAE
from hardmax.applications.runs import load_run
from hardmax.drawing.images import make_grid
from hardmax.training.run_folder import read_rows

OUT = Path(__file__).parents[1] / "docs" / "results"
CURVES = {
    "mnist-k10-auto-s0": "auto: posterior direct, then exact",
    "mnist-k10-exact-s0": "exact gradient",
    "mnist-k10-none-s0": "direct, KL not trained (released code)",
    "mnist-k10-gsm-s0": "Gumbel-softmax",
    "mnist-k10-beside-s0": "direct, KL beside (paper)",
}


def draw_curves(runs: Path) -> None:
    """Draw the test bound of each estimator by epoch, on MNIST with ten categories."""
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    for name, label in CURVES.items():
        rows = [
            row for row in read_rows(runs / name / "metrics.jsonl") if row["split"] == "test" and row["epoch"] <= 18
        ]
        axes.plot([row["epoch"] for row in rows], [-row["elbo"] for row in rows], label=label)
    axes.set(xlabel="epoch", ylabel="test -ELBO, nats", xlim=(1, 18), ylim=(160, 215))
    axes.set_title("MNIST, one categorical variable with ten values", loc="left")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="center", bbox_to_anchor=(0.55, 0.41))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(OUT / "mnist-k10.svg", metadata={"Date": None})


def draw_categories(runs: Path) -> None:
    """Draw the decoder's image of each of fifty categories of Fashion-MNIST."""
    model = load_run(runs / "fashion-k50-auto-s0", kind=DiscreteVAE).model
    image = make_grid(model.decode(torch.eye(50)), columns=10)
    image.resize((image.width * 2, image.height * 2), resample=0).save(OUT / "fashion-k50.png", optimize=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: draw_results.py RUNS_FOLDER")
    draw_curves(Path(sys.argv[1]))
    draw_categories(Path(sys.argv[1]))
    print(json.dumps([path.name for path in sorted(OUT.glob("*.[sp][vn]g"))]))
