"""A page as Markdown."""

from typing import assert_never

from hardmax.experiments.page import Block, Code, Column, Entry, Heading, Image, Page, Paragraph, Table


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
