"""A page as blocks of text, tables and figures; and as Markdown.

Every text may hold **strong** words, *emphasis* and `code`, marked as in Markdown.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, assert_never

Kind = Literal["plain", "strong", "emphasis", "code"]

_MARKED = re.compile(r"\*\*(?P<strong>.+?)\*\*|\*(?P<emphasis>.+?)\*|`(?P<code>.+?)`")


@dataclass(frozen=True)
class Heading:
    """Begins a section."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """Whole sentences."""

    text: str


@dataclass(frozen=True)
class Entry:
    """What stands in one place of a table.

    Attributes:
        text: itself.
        best: whether it is the best among its like.
        note: what stands beneath it, small.
    """

    text: str
    best: bool = False
    note: str = ""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        head: what stands above it.
        number: whether it holds numbers, which are aligned to the right.
        note: what stands beneath the head, small.
    """

    head: str
    number: bool = True
    note: str = ""


@dataclass(frozen=True)
class Table:
    """Lines of as many entries as there are columns; the first entry of a line says what it is about."""

    columns: Sequence[Column]
    lines: Sequence[Sequence[Entry]]
    caption: str = ""


@dataclass(frozen=True)
class Image:
    """A picture, by the name of its files without their ending."""

    name: str
    caption: str


@dataclass(frozen=True)
class Code:
    """Commands, a line each."""

    lines: Sequence[str]


Block = Heading | Paragraph | Table | Image | Code


# Draws to files by their format: svg, png.
Draw = Callable[[Mapping[str, Path]], None]


@dataclass(frozen=True)
class Page:
    """A title, what stands beneath it, and how its pictures are drawn, by name."""

    title: str
    blocks: Sequence[Block]
    pictures: Mapping[str, Draw] = field(default_factory=dict)


def spans(text: str) -> list[tuple[Kind, str]]:
    """Return a text piece by piece, with how each is marked."""
    pieces: list[tuple[Kind, str]] = []
    end = 0
    for match in _MARKED.finditer(text):
        kind: Kind = match.lastgroup  # pyright: ignore[reportAssignmentType]
        pieces += [("plain", text[end : match.start()]), (kind, match[kind])]
        end = match.end()
    return [(kind, piece) for kind, piece in [*pieces, ("plain", text[end:])] if piece]


def as_markdown(page: Page) -> str:
    """Return the text of a file; pictures are those beside it."""
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
