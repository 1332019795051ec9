"""Load the jinja templates and the CSS of HTML pages. Imports no torch."""

from pathlib import Path

import jinja2
from markupsafe import Markup

from hardmax.names import escape_control_characters

_SHARED = Path(__file__).parent


def load_template(path: Path) -> jinja2.Template:
    """Load a template, which may extend or import templates of its own folder and of `hardmax/report`.

    Values are escaped unless they are `Markup`: characters of HTML, and control characters, which would hide what
    follows or change the direction of writing. An undefined variable raises an error.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([path.parent, _SHARED]),
        autoescape=True,
        finalize=_make_visible,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(path.name)


def _make_visible(value: object) -> object:
    """Return a value of a template with its control characters escaped, except line breaks."""
    if isinstance(value, Markup) or not isinstance(value, str | Path):
        return value
    return "\n".join(map(escape_control_characters, str(value).split("\n")))


def read_style(*more: Path) -> Markup:
    """Return the CSS of all pages, followed by these files, to embed in a page."""
    return Markup("".join(path.read_text(encoding="utf-8") for path in (_SHARED / "style.css", *more)))
