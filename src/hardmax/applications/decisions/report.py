"""The report of a decision model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from markupsafe import Markup
from torch import Tensor

from hardmax.applications.decisions.config import DecisionsConfig
from hardmax.applications.decisions.examples import solve_examples
from hardmax.applications.decisions.losses import describe_loss
from hardmax.applications.decisions.map_sheet import draw_map_sheet
from hardmax.applications.decisions.model import DecisionModel
from hardmax.applications.decisions.problems import TOLERANCE
from hardmax.data import Decisions
from hardmax.drawing.images import encode_data_uri, make_grid
from hardmax.drawing.svg import COLOURS, draw_svg
from hardmax.report.curves import Curves, draw_curves, make_lines, make_lines_of_runs
from hardmax.report.run import MetricsRow, Run
from hardmax.report.sections import AbstractReport, spread_indices
from hardmax.report.tables import Fact, Quantity, format_number, format_percent
from hardmax.spaces import GridPath


@dataclass(frozen=True)
class DecisionsRow(MetricsRow):
    """A row of `metrics.jsonl` of a decision model; loss and arg maxes are measured in training only."""

    regret: float | None
    optimal: float | None
    loss: float | None
    solves: float | None

    @property
    def regret_percent(self) -> float | None:
        """The normalised regret in percent."""
        return None if self.regret is None else 100 * self.regret


# The test examples are features `[N, *features]`.
DecisionsRun = Run[DecisionsConfig, DecisionModel, DecisionsRow, Tensor]
_DRAWN, _MAPS, _LISTED = 6, 4, 10  # test examples


def draw_paths(name: str, space: GridPath, chosen: Tensor, best: Tensor) -> Markup:
    """Draw the chosen and the best paths of a few examples through a grid, side by side.

    Args:
        name: name of the figure, unique on the page.
        space: the paths.
        chosen: `[N, E]`, the model's decisions.
        best: `[N, E]`, the best decisions.
    """
    gap = space.width + 0.6
    agreeing = int((chosen == best).all(-1).sum())
    with draw_svg(name, f"{len(chosen)} test examples; {agreeing} paths are the best ones", height=130) as figure:
        axes = figure.axes
        axes.grid(visible=False)
        axes.set_axis_off()
        axes.set_aspect("equal")
        axes.invert_yaxis()
        for place in range(len(chosen)):
            for k, (tail, head) in enumerate(space.edges):
                (row, column), (next_row, next_column) = (divmod(cell, space.width) for cell in (tail, head))
                x, y = [column + place * gap, next_column + place * gap], [row, next_row]
                axes.plot(x, y, color="#999999", linewidth=0.5)
                if best[place, k]:
                    axes.plot(x, y, color=COLOURS[0], linewidth=4, alpha=0.6, solid_capstyle="round")
                if chosen[place, k]:
                    axes.plot(x, y, color=COLOURS[1], linewidth=1.8, solid_capstyle="round")
    return figure.svg


def embed_maps(model: DecisionModel, features: Tensor, costs: Tensor, best: Tensor, numbers: Sequence[int]) -> Markup:
    """Return the sheet of a few maps as an image of the page, see `draw_map_sheet`."""
    sheet = draw_map_sheet(model, features, costs, best, numbers)
    alt = f"{len(numbers)} test maps with predicted costs, the paths of the model and the best paths"
    image = Markup('<img src="{}" width="{}" height="{}" alt="{}" style="max-width: 100%; height: auto">')
    return image.format(encode_data_uri(sheet), sheet.width, sheet.height, alt)


@dataclass(frozen=True)
class Content:
    """The model-specific section of the report: decisions for a few test examples.

    Attributes:
        note: how to read the table.
        headings: headings of the columns of numbers.
        rows: for each example its number, the numbers of the columns, and whether the decision is optimal.
        figure: a drawing of decisions; None if the problem has none.
        figure_note: how to read the drawing.
    """

    note: str
    headings: tuple[str, ...]
    rows: list[tuple[str, tuple[str, ...], bool]]
    figure: Markup | None = None
    figure_note: str = ""


def list_decisions(
    model: DecisionModel, features: Tensor, costs: Tensor, best: Tensor, numbers: Sequence[int]
) -> list[tuple[str, tuple[str, ...], bool]]:
    """Return the rows of the table of decisions.

    Args:
        model: the model.
        features: `[N, *features]`.
        costs: `[N, *score]`, true costs.
        best: `[N, *event]`, best decisions.
        numbers: the numbers of the examples.
    """
    space, sign, rows = model.space, -1 if model.problem.maximises else 1, []
    z = model.decide(features)
    for i, (decision, cost, target) in enumerate(zip(z, costs.double(), best, strict=True)):
        chosen, optimum = (float(space.dot(cost, space.statistics(each.double()))) for each in (decision, target))
        shares = torch.minimum(decision, target).sum() / target.sum().clamp_min(1)
        regret = format_percent((chosen - optimum) / max(abs(optimum), 1e-12))
        texts = (format_number(sign * chosen), format_number(sign * optimum), regret, format_percent(float(shares)))
        rows.append((str(numbers[i]), texts, chosen - optimum <= TOLERANCE * (1 + abs(optimum))))
    return rows


def compare_images(model: DecisionModel, data: Decisions) -> Content:
    """Return a few noisy test images with the model's and the clean ones, and their numbers of wrong pixels."""
    listed = spread_indices(len(data.test), _LISTED)
    noisy, clean = data.test[listed], data.targets["test"][listed].float()
    cleaned = model.decide(noisy)
    rows_of_images = torch.cat([noisy, cleaned.view_as(noisy), clean.view_as(noisy)])
    image = make_grid(rows_of_images, columns=len(listed), padding=1)
    image = image.resize((2 * image.width, 2 * image.height), resample=0)
    figure = Markup('<img src="{}" width="{}" height="{}" alt="noisy, cleaned and clean test images">').format(
        encode_data_uri(image), image.width, image.height
    )
    rows = []
    for number, before, after, target in zip(listed, noisy.flatten(1), cleaned, clean, strict=True):
        wrong = [int((pixels != target).sum()) for pixels in (before, after)]
        rows.append((str(number), tuple(map(str, wrong)), not wrong[1]))
    return Content(
        "Test images from all over the test set: their number of wrong pixels.",
        ("noisy image", "cleaned image"),
        rows,
        figure,
        "Above the noisy images, in the middle those that the model returns, below the clean ones.",
    )


def _format_share(share: float | None) -> str:
    return format_number(None) if share is None else format_percent(share)


def _format_regret(percent: float | None) -> str:
    return format_number(None) if percent is None else f"{percent:.2f} %"


@final
class DecisionsReport(AbstractReport[DecisionsRun]):
    """The report of a decision model: the regret over epochs, and decisions for a few test examples."""

    criterion = "lowest regret"
    row = DecisionsRow
    quantities = (
        Quantity(
            "Regret",
            "sum of regrets / sum of the values of the best decisions",
            lambda row: row.regret_percent,
            "lower",
            _format_regret,
        ),
        Quantity(
            "Optimal",
            "share of decisions that are as good as the best",
            lambda row: row.optimal,
            "higher",
            _format_share,
        ),
    )
    sections = {"decisions": "Decisions"}  # noqa: RUF012
    template = "report.html.j2"

    def prepare_test_examples(self, config: DecisionsConfig, images: Decisions) -> Tensor:
        """Return the features of the test examples."""
        return images.test

    def describe_model(self, run: DecisionsRun) -> str:
        """Return a sentence on the network, the problem and the data."""
        data, network = run.images, run.model.problem.describe_network(run.config.network, run.config.hidden)
        return (
            f"A {network} predicts the scores of {run.model.problem.decision}, trained on {len(data.train):,} "
            f"examples: {data.source}."
        )

    def describe_training(self, run: DecisionsRun) -> str:
        """Return a sentence on the loss."""
        return f"The loss is {describe_loss(run.config)}; best decisions are those of the true costs."

    def describe_measurement(self, run: DecisionsRun) -> str:
        """Return sentences on what the numbers are averaged over."""
        return (
            f"Over {len(run.test_examples):,} test examples. A regret is the true cost of the model's decision minus "
            f"that of the best one; both are exact. The number shown is: {run.model.problem.regret}."
        )

    def list_facts(self, run: DecisionsRun) -> list[Fact]:
        """Return the number of arg maxes of a training step."""
        solves = next((row.solves for row in reversed(run.rows["train"])), None)
        text = format_number(solves)
        return [Fact("Arg maxes", "Arg maxes", "per training example and step", text, text)]

    def draw_run_curves(self, run: DecisionsRun) -> list[Curves]:
        """Draw regret and loss by epoch."""
        regret = make_lines(run, lambda row: row.regret_percent)
        loss = make_lines(run, lambda row: row.loss)
        return [
            draw_curves("regret", "Regret by epoch", "epoch", "regret (%)", regret, clip=True, mark=run.best_epoch),
            draw_curves("loss", "Training loss by epoch", "epoch", f"loss {run.config.loss}", loss, clip=True),
        ]

    def draw_comparison_curves(self, runs: Sequence[DecisionsRun], names: Sequence[str]) -> list[Curves]:
        """Draw the test regret of several runs by epoch; their losses are not comparable."""
        regret = make_lines_of_runs(runs, names, lambda row: row.regret_percent)
        return [draw_curves("regret", "Test regret by epoch", "epoch", "test regret (%)", regret, clip=True)]

    def build_content(self, run: DecisionsRun, index: int) -> Content:
        """Return decisions for a few test examples."""
        model = run.model
        if model.problem.drawing == "images":
            return compare_images(model, run.images)
        features, costs, best = solve_examples(run.images, "test", model.space)
        listed = spread_indices(len(features), _LISTED)
        what = "value" if model.problem.maximises else "cost"
        content = Content(
            f"Test examples from all over the test set: the true {what} of the model's decision and of the best one, "
            "the regret, and the share of the best decision that the model's decision contains.",
            (f"{what} of the decision", f"best {what}", "regret", "in common"),
            list_decisions(model, features[listed], costs[listed], best[listed], listed),
        )
        if model.problem.drawing is None:
            return content
        assert isinstance(model.space, GridPath)
        if model.problem.drawing == "maps":
            drawn = spread_indices(len(features), _MAPS)
            figure = embed_maps(model, features[drawn], costs[drawn], best[drawn], drawn)
            note = "Test maps. Of the predicted costs of a map, the lowest are dark and the highest bright."
            return Content(content.note, content.headings, content.rows, figure, note)
        drawn = spread_indices(len(features), _DRAWN)
        figure = draw_paths(f"paths-{index}", model.space, model.decide(features[drawn]), best[drawn])
        note = f"Test examples {', '.join(map(str, drawn))}: the model's path (orange) on the best path (blue)."
        return Content(content.note, content.headings, content.rows, figure, note)
