"""HTML pages from jinja templates: one environment and one style for all of them. Imports no torch."""

from pathlib import Path

import jinja2
from markupsafe import Markup

_SHARED = Path(__file__).parent


def load_template(path: Path) -> jinja2.Template:
    """Load a template; it may extend or import those of its own folder and of this one.

    Values are escaped, unless they are `Markup`; an undefined variable is an error.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([path.parent, _SHARED]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(path.name)


def read_style(*more: Path) -> Markup:
    """Return the style of all pages followed by these files; it is embedded in the page, which needs no other file."""
    return Markup("".join(path.read_text(encoding="utf-8") for path in (_SHARED / "style.css", *more)))
