"""A drawing inside a page: in the page's own colours, and with no name that another drawing has."""

import re

from markupsafe import Markup, escape

# What `hardmax.drawing.style` and its users draw all but curves with, and what a page has for it, by day and by night.
_COLOURS = {
    "#ffffff": "var(--paper)",
    "#000000": "currentColor",
    "#444444": "currentColor",
    "#777777": "var(--muted)",
    "#888888": "var(--muted)",
    "#999999": "var(--muted)",
    "#e4e4e4": "var(--line)",
}


def inlined(svg: str, name: str, alt: str) -> Markup:
    """Return a drawing that can stand in a page.

    Args:
        svg: text of a file that matplotlib wrote.
        name: of the drawing, which all ids inside begin with.
        alt: what it shows, for those who do not see it.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<g id=\"[^\"]*\"", "<g", svg)
    svg = re.sub(r"(\bid=\"|href=\"#|url\(#)", rf"\g<1>{name}-", svg)
    svg = re.sub(r"#[0-9a-f]{6}\b", lambda found: _COLOURS.get(found[0], found[0]), svg)
    box = re.search(r"viewBox=\"[^\"]*\"", svg)
    head = f'<svg {box[0] if box else ""} role="img" aria-label="{escape(alt)}">'
    return Markup(re.sub(r"<svg [^>]*>", lambda _: head, svg, count=1))
