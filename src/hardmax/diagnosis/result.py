"""The result of a diagnosis: a row for each estimator, the table, the figure, the recommendation."""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hardmax.diagnosis.advice import BATCH, Quality, Recommendation, Refusal, recommend

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

_ROUNDING = 1e-5  # smaller numbers, relative to the gradient, are rounding


@dataclass(frozen=True)
class Diagnosis:
    r"""The quality of several estimators of one gradient; print it to see the table.

    Attributes:
        rows: one `Quality` for each estimator, in the order of the call.
        refused: estimators that could not be measured, with their reasons.
        notes: remarks on some of the estimators.
        space: the space of z.
        examples: number of examples in the batch, `prod(*B)`.
        draws: number of independent estimates behind each row.
        evaluations: budget of every estimator, in evaluations of f for each example.
        source: how the exact gradient was computed.
        source_error: relative standard error of that gradient; zero if it is exact.
        norm: $\sqrt{\sum_b |G_b|^2}$ of the exact gradient, to which all numbers are relative.
        with_gradient: number of examples that the cosines are a mean over; the others have no gradient, or one below
            1 % of the root mean square over examples.

    Example:
        >>> import torch, hardmax as hm
        >>> scores = torch.zeros(8, 6)
        >>> f = lambda z: (4 * z.sum(-1) - 14).sigmoid()
        >>> diagnosis = hm.diagnose(f, scores, hm.Binary(6), [hm.LocalExpectation(), hm.StraightThrough()], draws=256)
        >>> [row.samples for row in diagnosis.rows], diagnosis.rows[1].biased
        ([1, 7], True)
        >>> diagnosis.recommendation.name
        'LocalExpectation()'
    """

    rows: tuple[Quality, ...]
    refused: tuple[Refusal, ...]
    notes: tuple[str, ...]
    space: str
    examples: int
    draws: int
    evaluations: float
    source: str
    source_error: float
    norm: float
    with_gradient: int

    @property
    def recommendation(self) -> Recommendation | None:
        """The estimator to use for batches of 100 examples; None if every estimator refused."""
        return self.recommend()

    def recommend(self, batch: int = BATCH) -> Recommendation | None:
        r"""Return the estimator to use for batches of this size, and why.

        It has the least $\mathrm{bias}^2 + \mathrm{deviation}^2 / \mathrm{batch}$ at equal evaluations.
        """
        return recommend(self.rows, self.evaluations, batch)

    def table(self, batch: int = BATCH) -> "Table":
        """Return a table for `rich`; the best estimator for batches of this size comes first."""
        from rich import box
        from rich.table import Table

        table = Table(
            title=f"{self.space}: {self.draws:,} estimates, {self.examples:,} examples, {self.evaluations:.4g} "
            "evaluations of f",
            caption=self._caption(batch),
            title_justify="left",
            caption_justify="left",
            title_style="bold",
            caption_style="",
            box=box.SIMPLE_HEAD,
            show_edge=False,
            pad_edge=False,
            padding=0,
        )
        table.add_column("estimator")
        for head in HEADINGS:
            table.add_column(head, justify="right", no_wrap=True)
        for row in sorted(self.rows, key=lambda row: row.error(batch)):
            table.add_row(row.name, *format_quality({**row.to_dict(), "error": row.error(batch)}))
        return table

    def figure(self, batch: int = BATCH) -> "Figure":
        """Return a figure of bias against standard deviation; `figure.savefig("diagnosis.png")` writes it."""
        from hardmax.diagnosis.figure import draw_diagnosis

        return draw_diagnosis(self, batch)

    def to_dict(self, batch: int = BATCH) -> dict[str, Any]:
        """Return all fields, with the recommendation, for JSON."""
        advice = self.recommend(batch)
        return {
            **vars(self),
            "rows": [{**row.to_dict(), "error": row.error(batch)} for row in self.rows],
            "refused": [refusal.to_dict() for refusal in self.refused],
            "notes": list(self.notes),
            "batch": batch,
            "recommendation": None if advice is None else advice.to_dict(),
        }

    def __str__(self) -> str:
        from rich.console import Console

        text = io.StringIO()
        console = Console(file=text, width=110, color_system=None, highlight=False, markup=False, emoji=False)
        console.print(self.table())
        for refusal in self.refused:
            console.print(f"refused: {refusal.name}: {refusal.reason}", markup=False, soft_wrap=True)
        if (advice := self.recommendation) is not None:
            console.print(f"recommended: {advice}", markup=False, soft_wrap=True)
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())

    def _caption(self, batch: int) -> str:
        source = f"the exact gradient, by {self.source}"
        if self.source_error:
            source = f"the mean of {self.source}, whose relative error is {self.source_error:.2g}"
        lines = [
            f"Relative to {source}: bias, in brackets if it is not significant; floor, the noise of the bias; std, the "
            f"standard deviation of one estimate; error, sqrt(bias^2 + std^2 / {batch}), in a batch of {batch}. "
            f"cos: the cosine of one estimate and the gradient, {self._describe_cosine()}. S: samples. evals, solves: "
            "evaluations of f and arg maxes for each example. ms: milliseconds for one estimate of all examples.",
            *self.notes,
        ]
        return "\n" + "\n".join(lines)

    def _describe_cosine(self) -> str:
        if self.with_gradient == self.examples:
            return "mean over all examples"
        return (
            f"mean over {self.with_gradient:,} of the {self.examples:,} examples; the others have no gradient, or one "
            "below 1 % of the root mean square"
        )


HEADINGS = ("S", "evals", "solves", "bias", "floor", "std", "cos", "error", "ms")
"""Headings of the table of a diagnosis, after that of the names."""


def format_quality(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the numbers of an estimator as texts, one for each of `HEADINGS`.

    Args:
        row: a row of `Diagnosis.to_dict`.
    """
    bias = _format_number(row["bias"])
    return (
        str(row["samples"]),
        f"{row['evaluations']:.3g}",
        f"{row['solves']:.3g}",
        bias if row["biased"] or row["bias"] < _ROUNDING else f"({bias})",
        _format_number(row["floor"]),
        _format_number(row["deviation"]),
        f"{row['cosine']:.2f}",
        _format_number(row["error"]),
        _format_number(1e3 * row["seconds"]),
    )


def _format_number(value: float) -> str:
    """Format with two significant digits, or as an integer from 100 on."""
    return "0" if value < _ROUNDING else f"{value:.2g}" if value < 100 else f"{value:.0f}"
