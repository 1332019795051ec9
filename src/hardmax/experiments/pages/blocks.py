"""A page as blocks of text, tables and figures, and its Markdown and HTML forms.

Every text may contain **strong** words, *emphasis* and `code`, marked as in Markdown.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, assert_never

from hardmax.drawing.svg import inline_svg
from hardmax.report.templates import load_template, read_style

_FEW = 3  # commands that are shown; more are folded away
_TEMPLATE = Path(__file__).with_name("page.html.j2")

Kind = Literal["plain", "strong", "emphasis", "code"]

_MARKED = re.compile(r"\*\*(?P<strong>.+?)\*\*|\*(?P<emphasis>.+?)\*|`(?P<code>.+?)`")


@dataclass(frozen=True)
class Heading:
    """The heading of a section."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of whole sentences."""

    text: str


@dataclass(frozen=True)
class Entry:
    """One entry of a table.

    Attributes:
        text: of the entry.
        best: whether it is the best of those it is compared with.
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
class Image:
    """An image, by the name of its files without extension."""

    name: str
    caption: str


@dataclass(frozen=True)
class Code:
    """Commands, one per line."""

    lines: Sequence[str]


Block = Heading | Paragraph | Table | Image | Code


# Draws to files by their format: svg, png.
Draw = Callable[[Mapping[str, Path]], None]


@dataclass(frozen=True)
class Page:
    """A title, the blocks below it, and the functions that draw its images, by name."""

    title: str
    blocks: Sequence[Block]
    pictures: Mapping[str, Draw] = field(default_factory=dict)


def spans(text: str) -> list[tuple[Kind, str]]:
    """Split a text into pieces, each with its kind of markup."""
    pieces: list[tuple[Kind, str]] = []
    end = 0
    for match in _MARKED.finditer(text):
        kind: Kind = match.lastgroup  # pyright: ignore[reportAssignmentType]
        pieces += [("plain", text[end : match.start()]), (kind, match[kind])]
        end = match.end()
    return [(kind, piece) for kind, piece in [*pieces, ("plain", text[end:])] if piece]


def as_markdown(page: Page) -> str:
    """Return the text of a Markdown file; it refers to image files in the same folder."""
    return "\n\n".join([f"# {page.title}", *map(_block, page.blocks)]) + "\n"


def _block(block: Block) -> str:
    match block:
        case Heading():
            return f"## {block.text}"
        case Paragraph():
            return block.text
        case Table():
            return _table(block)
        case Image():
            return f"![{block.caption}]({block.name}.svg)"
        case Code():
            return "\n".join(["```", *block.lines, "```"])
    assert_never(block)


def _table(table: Table) -> str:
    heads = [_entry(Entry(column.head, note=column.note)) for column in table.columns]
    lines = [heads, *([_entry(entry) for entry in line] for line in table.lines)]
    rows = ["| " + " | ".join(line).lstrip() + " |" for line in lines]
    rows.insert(1, "".join(map(_rule, table.columns)) + "|")
    return "\n".join([*([f"**{table.caption}**", ""] if table.caption else []), *rows])


def _rule(column: Column) -> str:
    return "|---:" if column.number else "|---"


def _entry(entry: Entry) -> str:
    text = f"**{entry.text}**" if entry.best else entry.text
    return (f"{text}<br>{entry.note}" if entry.note else text).replace("|", "\\|")


def as_html(page: Page, drawings: Mapping[str, str]) -> str:
    """Return the text of an HTML file, which needs no other file and no network.

    Args:
        page: the page to write.
        drawings: the SVG of its images, by name.
    """
    html = load_template(_TEMPLATE).render(
        title="".join(piece for _, piece in spans(page.title)),
        style=read_style(),
        page=page,
        blocks=[(type(block).__name__, block) for block in page.blocks],
        spans=spans,
        draw=lambda image: inline_svg(drawings[image.name], image.caption, f"{image.name}-"),
        few=_FEW,
    )
    return f"{html}\n"
