"""Print on the terminal. Names from files are shown as they are: not as markup, and without control characters."""

import sys
from typing import TYPE_CHECKING

from hardmax.names import escape_control_characters

if TYPE_CHECKING:
    from rich.console import Console


def print_line(text: str, *, error: bool = False) -> None:
    r"""Print one line of text, to standard output or standard error.

    Example:
        >>> print_line("the report is in a\nb/report.html")
        the report is in a\nb/report.html
    """
    print(escape_control_characters(text), file=sys.stderr if error else sys.stdout)


def make_console(*, stderr: bool = False, quiet: bool = False) -> "Console":
    """Return a console of rich that prints texts and tables as they are: `[red]` and `:heart:` are not replaced."""
    from rich.console import Console
    from rich.text import Text

    class PlainConsole(Console):
        def render_str(self, text: str, **options: object) -> Text:
            lines = map(escape_control_characters, text.split("\n"))
            return super().render_str("\n".join(lines), **options)  # pyright: ignore[reportArgumentType]

    return PlainConsole(stderr=stderr, quiet=quiet, markup=False, emoji=False, highlight=False)
