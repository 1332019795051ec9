"""Names in rows and declarations are text on the pages of tables and figures, whatever they contain."""

import torch
from browser import TEXTS, assert_inert, dump_dom, needs_browser
from experiments.parsed_pages import markdown_tables

from hardmax.drawing.images import encode_data_uri, make_grid
from hardmax.experiments.pages.blocks import Code, Column, Entry, FigureBlock, Heading, Page, Paragraph, Table
from hardmax.experiments.pages.render import render, write_page
from hardmax.experiments.rows import ModelFigure, identify_run
from hardmax.experiments.tables.declaration import Cell, FigureSpec, Gallery, Quick
from hardmax.experiments.tables.figure4 import AGREEMENT
from hardmax.experiments.tables.metrics import BOUND

HOSTILE = " ".join(TEXTS)


def write_gallery(out):
    """Write the page of a gallery whose rows, names and captions are hostile."""
    gallery = Gallery(
        name="tiny",
        title=TEXTS[7],
        claim=HOSTILE,
        setting=HOSTILE,
        options={"model": "mixed"},
        cells=tuple(Cell("data", TEXTS[-1], method, 1e-3, {"labels": 0}) for method in ("a", "b")),
        figure=FigureSpec("categories", {"rows": 1}),
        metrics=(AGREEMENT, BOUND),
        notes=(HOSTILE,),
        quick=Quick({}, "one step"),
    )
    planned = gallery.plan(out)
    image = encode_data_uri(make_grid(torch.rand(2, 1, 8, 8), columns=2))
    figure = ModelFigure(image, ["$x", "a\n\x1b[1mb"], 1, [{"of": text, "agreement": 0.5} for text in TEXTS])
    rows = [
        {
            "cell": run.cell.name, "seed": run.seed, "config": identify_run(run.config),
            "command": f"{HOSTILE}\n```\n#", "exhibit": figure.to_dict(),
            "look": {"rows": 1}, "test": [{"epoch": 1}], "seconds": [1.0],
        }
        for run in planned
    ]  # fmt: skip
    render(gallery, planned, rows, out, quick=False)
    return out / "results.html"


def write_blocks(out):
    """Write a page with every kind of block, each with a hostile text."""
    blocks = [
        Heading(HOSTILE),
        Paragraph(f"**{HOSTILE}** *{HOSTILE}* `{HOSTILE}`"),
        Table([Column(HOSTILE, number=False, note=HOSTILE)], [[Entry(HOSTILE, best=True, note=HOSTILE)]], HOSTILE),
        Code([HOSTILE]),
    ]
    write_page(Page(HOSTILE, blocks), out)
    return out / "results.html"


def test_pages_are_inert(tmp_path):
    for write in (write_gallery, write_blocks):
        (tmp_path / write.__name__).mkdir()
        page = write(tmp_path / write.__name__).read_text(encoding="utf-8")
        assert_inert(page, TEXTS[0], TEXTS[1], TEXTS[2], *TEXTS[-2:])
        assert "\x1b" not in page


@needs_browser
def test_pages_in_a_browser(tmp_path):
    for write in (write_gallery, write_blocks):
        (tmp_path / write.__name__).mkdir()
        page = dump_dom(write(tmp_path / write.__name__), tmp_path / "browser")
        assert_inert(page, TEXTS[0], TEXTS[1], TEXTS[2])


def test_a_caption_of_a_figure(tmp_path):
    """The caption describes the figure for readers who do not see it, in an attribute."""

    def draw(files):
        for path in files.values():
            path.write_text('<svg viewBox="0 0 1 1" width="1"><path id="a"/><use href="#a"/></svg>')

    write_page(Page("title", [FigureBlock(r'x"\1', HOSTILE)], {r'x"\1': draw}), tmp_path)
    page = (tmp_path / "results.html").read_text(encoding="utf-8")
    assert_inert(page, *TEXTS, '#x"\\1-a')


def test_markdown_tables_keep_their_shape(tmp_path):
    page = write_blocks(tmp_path).with_suffix(".md").read_text(encoding="utf-8")
    (table,) = markdown_tables(page)
    assert [len(line) for line in table] == [1, 1, 1]
    assert "<script" not in "".join(line[0] for line in table)
    write_page(Page("title", [Code(["a ``` b", "c\n```"])]), tmp_path)
    assert "````\na ``` b\nc\\n```\n````" in (tmp_path / "results.md").read_text(encoding="utf-8")
