"""A page as HTML: one file that needs no other and no network."""

from collections.abc import Mapping
from importlib import resources
from typing import assert_never

from markupsafe import Markup

from hardmax.drawing.svg import inlined
from hardmax.experiments.pages.blocks import Block, Code, Column, Entry, Heading, Image, Page, Paragraph, Table, spans

_STYLE = """
caption { padding-bottom: .3rem; text-align: left; font-weight: 650; }
td { white-space: nowrap; }
th.number { min-width: 5.5rem; max-width: 9rem; white-space: normal; }
.number + :not(.number) { padding-left: 1.4rem; }
tr > :first-child { position: sticky; left: 0; min-width: 8rem; padding-right: 1rem; background: var(--paper); }
td small { display: block; color: var(--muted); font-size: .8rem; }
figure { margin: 1.5rem 0; }
figure svg { display: block; width: 100%; min-width: 700px; height: auto; fill: currentColor; }
details pre { padding: .4rem .6rem; }
@media (min-width: 641px) { tbody th { white-space: nowrap; } }
"""
_FEW = 3  # so many commands are shown; more are folded away
_MARKS = {
    "plain": Markup("{}"),
    "strong": Markup("<strong>{}</strong>"),
    "emphasis": Markup("<em>{}</em>"),
    "code": Markup("<code>{}</code>"),
}
_PAGE = Markup("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} – hardmax</title>
<style>
{style}</style>
</head>
<body>
<h1>{heading}</h1>
{blocks}
</body>
</html>
""")


def as_html(page: Page, drawings: Mapping[str, str]) -> str:
    """Return the text of a file.

    Args:
        page: what to write.
        drawings: the SVG of its pictures, by name.
    """
    style = resources.files("hardmax.report").joinpath("style.css").read_text(encoding="utf-8") + _STYLE
    blocks = Markup("\n").join(_block(block, drawings) for block in page.blocks)
    plain = "".join(piece for _, piece in spans(page.title))
    return str(_PAGE.format(title=plain, style=Markup(style), heading=_text(page.title), blocks=blocks))


def _block(block: Block, drawings: Mapping[str, str]) -> Markup:
    match block:
        case Heading():
            return Markup("<h2>{}</h2>").format(_text(block.text))
        case Paragraph():
            return Markup("<p>{}</p>").format(_text(block.text))
        case Table():
            return _table(block)
        case Image():
            drawing = inlined(drawings[block.name], block.name, block.caption)
            return Markup('<figure class="scroll">{}</figure>').format(drawing)
        case Code():
            return _code(block)
    assert_never(block)


def _text(text: str) -> Markup:
    return Markup("").join(_MARKS[kind].format(piece) for kind, piece in spans(text))


def _table(table: Table) -> Markup:
    heads = [_place("th", column, Entry(column.head, note=column.note)) for column in table.columns]
    rows = [Markup("<tr>{}</tr>").format(Markup("").join(heads))]
    for line in table.lines:
        first, *others = zip(table.columns, line, strict=True)
        places = [_place("th", *first), *(_place("td", *other) for other in others)]
        rows.append(Markup("<tr>{}</tr>").format(Markup("").join(places)))
    caption = Markup("<caption>{}</caption>\n").format(_text(table.caption)) if table.caption else ""
    head, body = rows[0], Markup("\n").join(rows[1:])
    return Markup('<div class="scroll"><table>\n{}<thead>{}</thead>\n<tbody>\n{}\n</tbody>\n</table></div>').format(
        caption, head, body
    )


def _place(tag: str, column: Column, entry: Entry) -> Markup:
    text = Markup("<strong>{}</strong>").format(_text(entry.text)) if entry.best else _text(entry.text)
    note = Markup("<small>{}</small>").format(_text(entry.note)) if entry.note else ""
    kind = Markup(' class="number"') if column.number else ""
    return Markup("<{0}{1}>{2}{3}</{0}>").format(Markup(tag), kind, text, note)


def _code(code: Code) -> Markup:
    lines = Markup("\n").join(Markup("<pre><code>{}</code></pre>").format(line) for line in code.lines)
    if len(code.lines) <= _FEW:
        return lines
    return Markup("<details>\n<summary>{} commands</summary>\n{}\n</details>").format(len(code.lines), lines)
