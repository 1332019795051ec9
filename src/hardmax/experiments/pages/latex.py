r"""A page as LaTeX, for inclusion in a document with \input."""

import re
from collections.abc import Sequence
from typing import assert_never

from hardmax.experiments.pages.blocks import (
    Block,
    Code,
    Column,
    Entry,
    FigureBlock,
    Heading,
    Page,
    Paragraph,
    Table,
    split_markup,
)

_PREAMBLE = r"% For \input into a document with \usepackage{booktabs,graphicx}."

# Characters that TeX reads as commands, or that its fonts do not have.
_SIGNS = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",  # at the beginning of a line of a table it would be an option
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "×": r"$\times$",
    "†": r"$\dagger$",
}
_SIGN = re.compile("|".join(map(re.escape, _SIGNS)))
_MARKS = {"plain": "{}", "strong": r"\textbf{{{}}}", "emphasis": r"\emph{{{}}}", "code": r"\texttt{{{}}}"}


def as_latex(page: Page) -> str:
    """Return the text of a LaTeX file; it refers to figures in the same folder."""
    return (
        "\n\n".join([_PREAMBLE, rf"\section*{{{_format_text(page.title)}}}", *map(_format_block, page.blocks)]) + "\n"
    )


def _format_block(block: Block) -> str:
    match block:
        case Heading():
            return rf"\subsection*{{{_format_text(block.text)}}}"
        case Paragraph():
            return _format_text(block.text)
        case Table():
            return _format_table(block)
        case FigureBlock():
            return _format_figure(block)
        case Code():
            return _format_code(block)
    assert_never(block)


def _format_text(text: str) -> str:
    return "".join(_MARKS[kind].format(_escape(piece, code=kind == "code")) for kind, piece in split_markup(text))


def _escape(text: str, *, code: bool = False) -> str:
    text = _SIGN.sub(lambda sign: _SIGNS[sign[0]], text)
    return text.replace("--", "-{}-") if code else text  # TeX would join two hyphens into a dash


def _format_table(table: Table) -> str:
    """Return a table, scaled down if it is wider than the text."""
    places = "".join(_choose_alignment(column) for column in table.columns)
    lines = [
        rf"\begin{{tabular}}{{@{{}}{places}@{{}}}}",
        r"\toprule",
        *_format_rows([Entry(column.head, note=column.note) for column in table.columns]),
        r"\midrule",
        *(row for line in table.lines for row in _format_rows(line)),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(
        [
            r"\begin{table}[htbp]",
            r"\centering",
            *([rf"\caption{{{_format_text(table.caption)}}}"] if table.caption else []),
            r"\sbox0{%",
            *lines[:-1],
            lines[-1] + "}",
            r"\ifdim\wd0>\linewidth\resizebox{\linewidth}{!}{\usebox0}\else\usebox0\fi",
            r"\end{table}",
        ]
    )


def _choose_alignment(column: Column) -> str:
    return "r" if column.number else "l"


def _format_rows(line: Sequence[Entry]) -> list[str]:
    """Return a line, and a small one with the notes below it if there are any."""
    rows = [
        " & ".join(
            rf"\textbf{{{_format_text(entry.text)}}}" if entry.best else _format_text(entry.text) for entry in line
        )
    ]
    if any(entry.note for entry in line):
        notes = [rf"\scriptsize {_format_text(entry.note)}" if entry.note else "" for entry in line]
        rows.append(" & ".join(notes))
    return [*(rf"{row} \\" for row in rows), *([r"\addlinespace[2pt]"] if len(rows) > 1 else [])]


def _format_figure(figure: FigureBlock) -> str:
    return "\n".join(
        [
            r"\begin{figure}[htbp]",
            r"\centering",
            rf"\includegraphics[width=\linewidth]{{{figure.name}}}",
            rf"\caption{{{_format_text(figure.caption)}}}",
            r"\end{figure}",
        ]
    )


def _format_code(code: Code) -> str:
    """Return commands as paragraphs, so that long ones are wrapped."""
    lines = [rf"\noindent {_escape(line, code=True)}\par" for line in code.lines]
    return "\n".join([r"{\footnotesize\ttfamily\raggedright", *lines, "}"])
