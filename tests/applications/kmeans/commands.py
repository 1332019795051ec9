"""`hardmax evaluate` for k-means."""

from typing import Any

import torch

from hardmax.applications.command_line import EvaluateOptions, Evaluation, refuse_options
from hardmax.training.task import prepare_split


def evaluate(options: EvaluateOptions, run: Any) -> Evaluation:
    """Return the mean distance of images to the centre of their cluster."""
    refuse_options(options, "samples", "refine", "perturb_and_map", "judge")
    x = prepare_split(run.config, run.load_data(options.data_dir), options.split)[: options.images]
    with torch.no_grad():
        distance = float(run.model(x).mean())
    return Evaluation(len(x), {"distance": distance}, [(("", "mean"), [("distance", f"{distance:.3f}")])])
