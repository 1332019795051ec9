"""One page in three formats: nothing is lost, nothing is taken for a command, nothing is fetched from elsewhere."""

import re

import pytest
from experiments.parsed_pages import Html, markdown_tables

from hardmax.drawing.svg import inline_svg
from hardmax.experiments.pages.blocks import (
    Code,
    Column,
    Entry,
    FigureBlock,
    Heading,
    Page,
    Paragraph,
    Table,
    as_html,
    as_markdown,
    split_markup,
)
from hardmax.experiments.pages.latex import as_latex

NASTY = r"50% & a_b #1 $x$ {c} ~ ^ \d <i> p(x | z) [q]"
SVG = """<?xml version="1.0"?><!-- made by hand --><svg width="9pt" viewBox="0 0 9 9" xmlns="http://www.w3.org/2000/svg">
<metadata><rdf href="http://purl.org"/></metadata><defs><style type="text/css">*{stroke-linecap: butt}</style></defs>
<g id="axes_1"><clipPath id="p1"><path d="M 0 0" style="fill: #ffffff"/></clipPath>
<path clip-path="url(#p1)" style="stroke: #3b82c4; fill: #444444"/><use xlink:href="#p1"/></g></svg>"""
PAGE = Page(
    f"Title: {NASTY}",
    [
        Paragraph(f"**Strong** words, *emphasis*, `code --with|pipes`, and {NASTY}"),
        Heading("Numbers"),
        Table(
            [Column("", number=False), Column("ours", note="a note"), Column("p(x | z)"), Column("s", number=False)],
            [
                [Entry("`A_b`"), Entry("1.00 ± 0.10", best=True), Entry("−2.00 †", note="p (+0.50)"), Entry("1 of 2")],
                [Entry("[c]"), Entry("–"), Entry("3", note="50%"), Entry("not run")],
            ],
            "A caption of 50%",
        ),
        FigureBlock("figure-1", "what <it> shows"),
        Code([f"hardmax train --out a_{i} --lr 1e-3" for i in range(5)]),
    ],
)  # fmt: skip


def test_split_markup():
    assert split_markup("a **b** *c* `d*e*`, f*") == [
        ("plain", "a "), ("strong", "b"), ("plain", " "), ("emphasis", "c"), ("plain", " "), ("code", "d*e*"),
        ("plain", ", f*"),
    ]  # fmt: skip
    assert split_markup("") == []


def test_markdown_is_read_back():
    page = as_markdown(PAGE)
    (table,) = markdown_tables(page)
    assert table == [
        ["", "ours<br>a note", "p(x | z)", "s"],
        ["---", "---:", "---:", "---"],
        ["`A_b`", "**1.00 ± 0.10**", "−2.00 †<br>p (+0.50)", "1 of 2"],
        ["[c]", "–", "3<br>50%", "not run"],
    ]
    assert page.startswith("# Title: 50% & a_b")
    assert "\n\n## Numbers\n\n**A caption of 50%**\n\n| | ours" in page
    assert "\n\n![what <it> shows](figure-1.svg)\n\n```\nhardmax train --out a_0 --lr 1e-3\n" in page
    assert page.endswith("--lr 1e-3\n```\n")


def test_latex_has_its_signs_escaped():
    page = as_latex(PAGE)
    escaped = (
        r"50\% \& a\_b \#1 \$x\$ \{c\} \textasciitilde{} \textasciicircum{} \textbackslash{}d "
        r"\textless{}i\textgreater{} p(x \textbar{} z) {[}q]"
    )
    assert page.count(escaped) == 2
    assert r"\textbf{Strong} words, \emph{emphasis}, \texttt{code -{}-with\textbar{}pipes}" in page
    for sign in "±−–†":
        assert sign not in page
    body = page.split("\n", 1)[1]  # what follows the comment
    assert not re.search(r"(?<!\\)[%#](?!\n)", body)  # at the end of a line it is ours
    assert body.count("{") - body.count(r"\{") == body.count("}") - body.count(r"\}")


def test_latex_tables():
    lines = as_latex(PAGE).splitlines()
    begin, end = lines.index(r"\toprule"), lines.index(r"\bottomrule")
    assert lines[begin - 1] == r"\begin{tabular}{@{}lrrl@{}}"
    assert lines[begin + 1 : end] == [
        r" & ours & p(x \textbar{} z) & s \\",
        r" & \scriptsize a note &  &  \\",
        r"\addlinespace[2pt]",
        r"\midrule",
        r"\texttt{A\_b} & \textbf{1.00 $\pm$ 0.10} & $-$2.00 $\dagger$ & 1 of 2 \\",
        r" &  & \scriptsize p (+0.50) &  \\",
        r"\addlinespace[2pt]",
        r"{[}c] & -- & 3 & not run \\",
        r" &  & \scriptsize 50\% &  \\",
        r"\addlinespace[2pt]",
    ]
    for row in lines[begin + 1 : end]:
        assert not row.endswith(r"\\") or row.count("&") == 3
    opened, closed = ([line for line in lines if line.startswith(rf"\{word}{{")] for word in ("begin", "end"))
    assert len(opened) == len(closed) == 3  # two environments that float, and the table itself
    assert r"\caption{A caption of 50\%}" in lines
    assert r"\includegraphics[width=\linewidth]{figure-1}" in lines
    assert r"\noindent hardmax train -{}-out a\_4 -{}-lr 1e-3\par" in lines


def test_html_needs_nothing_else():
    page = as_html(PAGE, {"figure-1": SVG})
    read = Html(page)
    assert read.references
    assert all(value.startswith("#figure-1-") or value == "url(#figure-1-p1)" for value in read.references)
    assert "http" not in page.replace("http-equiv", "")
    assert "@import" not in page
    assert len(read.ids) == len(set(read.ids))
    assert "script" not in read.tags
    assert "link" not in read.tags


def test_html_is_read_back():
    read = Html(as_html(PAGE, {"figure-1": SVG}))
    assert read.tables == [[
        ["", "ours~a note~", "p(x | z)", "s"],
        ["A_b", "*1.00 ± 0.10*", "−2.00 †~p (+0.50)~", "1 of 2"],
        ["[c]", "–", "3~50%~", "not run"],
    ]]  # fmt: skip
    assert read.text.count(NASTY) == 3  # in the title of the window, above the page, in the paragraph
    assert "code --with|pipes" in read.text
    assert "5 commands" in read.text  # folded away
    assert read.tags.count("pre") == 5


@pytest.mark.parametrize("writer", [as_markdown, as_latex, lambda page: as_html(page, {})])
def test_a_page_may_be_empty(writer):
    for blocks in ([], [Code([])], [Table([Column("a")], [])]):
        assert "Nothing yet" in writer(Page("Nothing yet", blocks))


def test_drawings_take_the_colours_of_the_page():
    drawing = inline_svg(SVG, 'says "<hello>"', "a-")
    assert drawing.startswith('<svg viewBox="0 0 9 9" role="img" aria-label="says &#34;&lt;hello&gt;&#34;">')
    assert "fill: var(--paper)" in drawing
    assert "stroke: #3b82c4; fill: currentColor" in drawing
    for gone in ("axes_1", "purl", "stroke-linecap", "made by hand", "xmlns"):
        assert gone not in drawing
