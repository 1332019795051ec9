"""Hook of mkdocs: formulas become MathML while the pages are built; they show with no script and no network.

The Markdown extension arithmatex finds `$...$` and `$$...$$` in pages and in docstrings, never in code, and
keeps Markdown away from them. Here its marks are replaced in the finished HTML.
"""

import html
import logging
import re
from collections.abc import Iterable
from typing import Any
from xml.etree import ElementTree

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files
from mkdocs.structure.toc import AnchorLink

log = logging.getLogger("mkdocs.hooks.mathml")

STYLE = """\
math {
  font-family: "Latin Modern Math", "STIX Two Math", "Cambria Math", "DejaVu Math TeX Gyre", math;
  font-size: 1.08em;
}
math[display="block"] { margin: 1em 0; overflow-x: auto; overflow-y: hidden; padding: 0.15em 0; }
/* Attributes that browsers leave to style sheets. */
math [mathvariant="bold"] { font-weight: bold; }
math [mathvariant="bold-italic"] { font-weight: bold; font-style: italic; }
math mtd[columnalign="left"] { text-align: left; }
math mtd[columnalign="right"] { text-align: right; text-align: -webkit-right; }
math mtable[columnspacing^="0em"] > mtr > mtd { padding-left: 0; padding-right: 0; }
"""

# Two dollar signs within a paragraph leave one on each side of arithmatex's mark.
FORMULA = re.compile(
    r'(?P<dollar>\$?)<(?P<tag>span|div) class="arithmatex">\s*'
    r"\\[(\[](?P<latex>.*?)\\[)\]]\s*</(?P=tag)>(?P=dollar)",
    re.DOTALL,
)
FORMULA_IN_CONTENTS = re.compile(r"(?P<dollar>)(?P<tag>)\\\((?P<latex>.*?)\\\)")

# What latex2mathml does not know, or shows poorly, in words that it shows well.
REWRITES = [
    (r"\\operatorname\*?\{arg(?:\\[,;: ]|~|\s)*(max|min)\}|\\arg\s*\\(max|min)(?![a-zA-Z])", r"\\arg\1\2"),
    (r"\\sim(?![a-zA-Z])", r"\\thicksim"),
    (r"\\(begin|end)\{align(?:ed)?\}", r"\\\1{align*}"),
    (r"\\(math(?:bb|bf|cal|sf))\s+(\w)", r"\\\1{\2}"),
    (r"(\\[bB]igg?[lr]?)\s*\\langle(?![a-zA-Z])", r"\1⟨"),
    (r"(\\[bB]igg?[lr]?)\s*\\rangle(?![a-zA-Z])", r"\1⟩"),
]
# In a displayed formula, the range of these is set below them.
LIMITS = (r"(\\(?:argmax|argmin|max|min|sup|inf|lim))\s*_", r"\1\\limits_")
# What latex2mathml writes, made better.
REPAIRS = [
    # These are operators, not names of variables.
    (r"<mi>([⟨⟩⌊⌋⌈⌉{}:;±∓∖])</mi>", r'<mo stretchy="false">\1</mo>'),
    # A bar is a bracket of a norm, with no space around it; "given" is another sign.
    (r'<mo stretchy="false">\|</mo>', r'<mo stretchy="false" lspace="0" rspace="0">|</mo>'),
    # Directly before a bracket the max and the arg max are functions.
    (r'<mo(?: movablelimits="true")?>((?:arg\s)?(?:max|min))</mo>(?=<mo stretchy="false">\()', r"<mi>\1</mi>"),
    # A minus after an opening bracket, a relation or a comma is a sign.
    (r"(<mo[^>]*>[(\[{⟨=≤≥∝,]</mo>)<mo>−</mo>", r'\1<mo form="prefix">−</mo>'),
    # Names of functions are not operators; they stand a little apart from an argument without brackets.
    (r"<mo>(?!max|min|sup|inf|lim)([A-Za-z]{2,})</mo>", r"<mi>\1</mi>"),
    (
        r"(?<!<msub>)(?<!<msup>)(?<!<msubsup>)(?<!<mfrac>)(<mi>[A-Za-z]{2,}</mi>)(?=<m(?!o|space))",
        r'\1<mspace width="0.167em" />',
    ),
    # And a little apart from a factor before them.
    (
        r'((?<!<msub>)(?<!<msup>)(?<!<msubsup>)(?<!<mfrac>)<mi>[^<]</mi>|</msu[bp]>|<mo stretchy="false">[)\]]</mo>'
        r"|<mo>∇</mo>)(?=<mi>[A-Za-z]{2,}</mi>)",
        r'\1<mspace width="0.167em" />',
    ),
]
DOUBLE_STRUCK = re.compile(r'<mn mathvariant="double-struck">(\d)</mn>')


def to_mathml(latex: str, display: bool) -> str:
    """Return a formula as MathML.

    Raises:
        ValueError: a command or an alignment sign that latex2mathml does not know.
        ElementTree.ParseError: latex2mathml has not written well-formed MathML.
    """
    for pattern, replacement in [*REWRITES, LIMITS] if display else REWRITES:
        latex = re.sub(pattern, replacement, latex)
    mathml = convert(latex.strip(), display="block" if display else "inline")
    # All signs are character references. Replace them by characters, except the three that HTML itself uses.
    mathml = html.unescape(re.sub(r"&#x0*(26|3C|3E);", r"&amp;#x\1;", mathml))
    unknown = re.search(r">(\\\w*|&)<", mathml)
    if unknown:
        raise ValueError(f"latex2mathml does not know {unknown[1]}")
    for pattern, replacement in REPAIRS:
        mathml = re.sub(pattern, replacement, mathml)
    mathml = DOUBLE_STRUCK.sub(lambda digit: f"<mn>{chr(ord('𝟘') + int(digit[1]))}</mn>", mathml)
    ElementTree.fromstring(mathml)  # a stray < would spoil the whole page
    return mathml


def on_config(config: Any) -> None:
    """Add the style sheet to every page."""
    config.extra_css.append("assets/math.css")


def on_files(files: Files, config: Any) -> None:
    """Write the style sheet."""
    files.append(File.generated(config, "assets/math.css", content=STYLE))


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """Replace all formulas of a page; one that cannot be shown is a warning, with --strict an error."""

    def replace(match: re.Match[str]) -> str:
        latex = html.unescape(match["latex"])
        try:
            return to_mathml(latex, display=match["tag"] == "div" or match["dollar"] == "$")
        except Exception as error:
            log.warning("%s: formula %r: %s", page.file.src_uri, latex, str(error) or type(error).__name__)
            return match[0]

    def replace_in_contents(links: Iterable[AnchorLink]) -> None:
        for link in links:
            link.title = FORMULA_IN_CONTENTS.sub(replace, link.title)
            replace_in_contents(link.children)

    replace_in_contents(page.toc)
    return FORMULA.sub(replace, content)
