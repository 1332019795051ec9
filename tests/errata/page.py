"""Reads the tables of the errata page; each line names a check and the numbers that it must give."""

import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "errata.md"
# The sections of the page, and the module that holds the checks of each.
MODULES = {
    "Completion of images": "completion",
    "Reparameterization and the Gumbel-max trick": "reparameterization",
    "Auto-encoding variational Bayes and segmentation": "segmentation",
    "Direct optimization": "direct",
    "Notes on the discrete VAE": "tokens",
    "ReinMax-Rao and ReinMax-CV": "reinmax",
}
_ROW = re.compile(
    r"\| .+ \| .+ \| `(?P<check>\w+)`: [^|]*? "
    r"(?P<right>-?[\d.]+)(?:, as written (?P<written>-?[\d.]+|inf)| either way) \|"
)


@dataclass(frozen=True)
class Line:
    """One line of the page: its section, its check, and its two numbers; `written` is None if both forms agree."""

    section: str
    check: str
    right: str
    written: str | None


def read_lines() -> list[Line]:
    """Return the lines of all tables.

    Raises:
        ValueError: a line names no check, or has no numbers.
    """
    lines, section = [], ""
    for number, text in enumerate(PAGE.read_text(encoding="utf-8").splitlines(), 1):
        if text.startswith("## "):
            section = text.removeprefix("## ")
        elif text.startswith("| ") and not text.startswith("| as written |"):
            row = _ROW.fullmatch(text)
            if row is None:
                raise ValueError(f"{PAGE.name}, line {number}: no check, or no numbers: {text}")
            lines.append(Line(section, row["check"], row["right"], row["written"]))
    return lines
