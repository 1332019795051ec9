"""`hardmax evaluate` for a decision model, and `hardmax decide`."""

from pathlib import Path
from typing import TYPE_CHECKING

from hardmax.applications.command_line import EvaluateOptions, Evaluation, refuse_options
from hardmax.applications.decisions.config import DecideOptions
from hardmax.applications.decisions.examples import solve_examples
from hardmax.applications.decisions.model import DecisionModel
from hardmax.applications.decisions.problems import PROBLEMS
from hardmax.applications.runs import load_run
from hardmax.console import print_line
from hardmax.data.decisions import read_examples
from hardmax.data.npz import write_npz

if TYPE_CHECKING:
    from torch import Tensor

    from hardmax.applications.runs import LoadedRun


def evaluate(options: EvaluateOptions, restored: "LoadedRun[DecisionModel]") -> Evaluation:
    """Return the regret of decisions: on a split of the run's data, or on examples of the user (`--data`).

    Raises:
        ArgumentError: an option is given that other models have.
        DataError: the user's file cannot be read, or does not fit the model.
    """
    refuse_options(options, "samples", "refine", "perturb_and_map", "judge")
    model = restored.model
    features, costs, best = (tensor[: options.images] for tensor in _load_examples(options, restored))
    device = next(model.parameters()).device
    z = model.decide(features.to(device)).cpu()
    numbers = model.problem.measure(z, costs, best, model.space)
    means = {
        name: float(model.space.dot(costs.double(), model.space.statistics(chosen.double())).mean())
        for name, chosen in (("cost", z), ("best_cost", best))
    }
    sign, what = (-1, "value") if model.problem.maximises else (1, "cost")
    rows = [
        (f"regret: {model.problem.regret}", f"{numbers['regret']:.2%}"),
        ("decisions that are as good as the best", f"{numbers['optimal']:.2%}"),
        (f"mean {what} of the decisions", f"{sign * means['cost']:.4f}"),
        (f"mean {what} of the best decisions", f"{sign * means['best_cost']:.4f}"),
    ]
    return Evaluation(len(features), {**numbers, **means}, [(("", "value"), rows)])


def _load_examples(
    options: EvaluateOptions, restored: "LoadedRun[DecisionModel]"
) -> tuple["Tensor", "Tensor", "Tensor"]:
    """Return features, costs and best decisions."""
    model = restored.model
    if options.data is None or options.data in PROBLEMS:
        return solve_examples(restored.load_data(options.data_dir), options.split, model.space)
    features, costs = read_examples(options.data, model.features, model.space.score_shape)
    assert costs is not None  # their shape is given
    return features, costs, model.space.argmax(-costs.double()).to(costs.dtype)


def decide(options: DecideOptions) -> None:
    """Write decisions for features of the user (`hardmax decide`).

    Raises:
        DataError: the run or the features cannot be read, or the file cannot be written.
    """
    model = load_run(options.run, options.checkpoint, kind=DecisionModel).model
    features, _ = read_examples(options.features, model.features)
    scores = model.predict(features)
    path = Path(options.out)
    write_npz(path, decisions=model.space.argmax(scores).numpy(), scores=scores.numpy())
    print_line(f"{len(features):,} decisions in {path}")
