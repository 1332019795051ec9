"""Numbers of a measurement as a reader wants them."""

import math
from decimal import Decimal

from hardmax.experiments.results import Row

_NOTHING = 1e-5  # of the gradient: rounding


def number(value: float) -> str:
    """Return three digits, and no exponent."""
    if value < _NOTHING:
        return "0"
    return f"{value:,.0f}" if value >= 999.5 else format(Decimal(f"{value:.3g}"), "f")


def seen(row: Row) -> str:
    """Return a row's bias, a dash where none shows."""
    return number(row["bias"]) if row["biased"] else "–"


def error(row: Row, batch: int) -> float:
    """Return the error of a mean over so many pictures, `sqrt(bias^2 + deviation^2 / batch)`; a bias unseen is none."""
    return math.hypot(row["bias"] if row["biased"] else 0.0, row["deviation"] / math.sqrt(batch))
