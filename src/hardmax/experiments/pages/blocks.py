"""A page as blocks of text, tables and figures, and its Markdown and HTML forms.

Texts may contain **strong** words, *emphasis* and `code`, marked as in Markdown.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, assert_never

from hardmax.drawing.svg import inline_svg
from hardmax.names import escape_control_characters
from hardmax.report.templates import load_template, read_style

_FEW = 3  # maximum number of commands that are shown; more are folded
_TEMPLATE = Path(__file__).with_name("page.html.j2")

Kind = Literal["plain", "strong", "emphasis", "code"]

_MARKED = re.compile(r"\*\*(?P<strong>.+?)\*\*|\*(?P<emphasis>.+?)\*|`(?P<code>.+?)`")


@dataclass(frozen=True)
class Heading:
    """The heading of a section."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of text."""

    text: str


@dataclass(frozen=True)
class Entry:
    """One entry of a table.

    Attributes:
        text: its text.
        best: whether it is the best of the entries that it is compared with.
        note: small text below it.
    """

    text: str
    best: bool = False
    note: str = ""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        head: its heading.
        number: whether it contains numbers, which are aligned to the right.
        note: small text below the heading.
    """

    head: str
    number: bool = True
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table: lines with one entry per column; the first entry of a line is its label."""

    columns: Sequence[Column]
    lines: Sequence[Sequence[Entry]]
    caption: str = ""


@dataclass(frozen=True)
class FigureBlock:
    """A figure, by the name of its files without extension."""

    name: str
    caption: str


@dataclass(frozen=True)
class Code:
    """Commands, one per line."""

    lines: Sequence[str]


Block = Heading | Paragraph | Table | FigureBlock | Code


# A function that draws a figure to files, given by their format: svg, png.
Draw = Callable[[Mapping[str, Path]], None]


@dataclass(frozen=True)
class Page:
    """A title, the blocks below it, and the functions that draw its figures, by name."""

    title: str
    blocks: Sequence[Block]
    figures: Mapping[str, Draw] = field(default_factory=dict)


def split_markup(text: str) -> list[tuple[Kind, str]]:
    """Split a text into pieces, each with its kind of markup."""
    pieces: list[tuple[Kind, str]] = []
    end = 0
    for match in _MARKED.finditer(text):
        kind: Kind = match.lastgroup  # pyright: ignore[reportAssignmentType]
        pieces += [("plain", text[end : match.start()]), (kind, match[kind])]
        end = match.end()
    return [(kind, piece) for kind, piece in [*pieces, ("plain", text[end:])] if piece]


def as_markdown(page: Page) -> str:
    """Return the text of a Markdown file; it refers to figures in the same folder."""
    return "\n\n".join([f"# {page.title}", *map(_format_block, page.blocks)]) + "\n"


def _format_block(block: Block) -> str:
    match block:
        case Heading():
            return f"## {block.text}"
        case Paragraph():
            return block.text
        case Table():
            return _format_table(block)
        case FigureBlock():
            return f"![{block.caption}]({block.name}.svg)"
        case Code():
            lines = [escape_control_characters(line) for line in block.lines]
            fence = "`" * (1 + max(map(len, re.findall("`{2,}", "\n".join(lines))), default=2))
            return "\n".join([fence, *lines, fence])
    assert_never(block)


def _format_table(table: Table) -> str:
    heads = [_format_entry(Entry(column.head, note=column.note)) for column in table.columns]
    lines = [heads, *([_format_entry(entry) for entry in line] for line in table.lines)]
    rows = ["| " + " | ".join(line).lstrip() + " |" for line in lines]
    rows.insert(1, "".join(map(_format_rule, table.columns)) + "|")
    return "\n".join([*([f"**{table.caption}**", ""] if table.caption else []), *rows])


def _format_rule(column: Column) -> str:
    return "|---:" if column.number else "|---"


def _format_entry(entry: Entry) -> str:
    text, note = _escape_markdown(entry.text), _escape_markdown(entry.note)
    text = f"**{text}**" if entry.best else text
    return f"{text}<br>{note}" if note else text


def _escape_markdown(text: str) -> str:
    """Return the text of a table's entry, which may contain names: no HTML, and in one line."""
    return escape_control_characters(text).replace("<", "&lt;").replace("|", "\\|")


def as_html(page: Page, drawings: Mapping[str, str]) -> str:
    """Return the text of an HTML file that needs no other file and no network.

    Args:
        page: the page to write.
        drawings: the SVG of its figures, by name.
    """
    html = load_template(_TEMPLATE).render(
        title="".join(piece for _, piece in split_markup(page.title)),
        style=read_style(),
        page=page,
        blocks=[(type(block).__name__, block) for block in page.blocks],
        split_markup=split_markup,
        draw=lambda figure: inline_svg(drawings[figure.name], figure.caption, f"{figure.name}-"),
        few=_FEW,
    )
    return f"{html}\n"
