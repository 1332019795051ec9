"""Names from files and folders: as text on a terminal, in a spreadsheet, and as names of new files.

A name may hold any character. These functions are for names that hardmax did not choose: of files, folders, scans,
classes and attributes.
"""

import re
import unicodedata
from collections.abc import Iterable
from pathlib import PurePosixPath

# Control characters (among them ESC, which begins a command to the terminal), separators of lines, marks that change
# the direction of writing, and surrogates, which stand for bytes that are not UTF-8 and cannot be printed.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# What a spreadsheet takes for the beginning of a formula, also in the full width of East Asian scripts.
_FORMULA = re.compile("[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


def escape_control_characters(text: str) -> str:
    r"""Return a text in one line of visible characters: each control character is written as in Python, such as \n.

    Example:
        >>> print(escape_control_characters("a\x1b[31mred"))
        a\x1b[31mred
    """
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def quote_formula(text: str) -> str:
    """Return the text of a cell of a CSV file, quoted by ' if a spreadsheet would calculate it; numbers are unchanged.

    Example:
        >>> quote_formula("=1+1"), quote_formula("-1.5"), quote_formula("scan 1")
        ("'=1+1", '-1.5', 'scan 1')

    References:
        OWASP, "CSV Injection".
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def make_file_names(names: Iterable[str], suffix: str) -> list[str]:
    """Return a path for each name, relative to the folder that the files are written to, which none of them leaves.

    The paths are different on every file system, also where `A` and `a`, or `ä` in its two forms, are one name: the
    second file of a name gets `-2`, the third `-3`.

    Args:
        names: names, which may contain folders.
        suffix: suffix of all files, such as ".png"; it replaces that of the name.

    Example:
        >>> make_file_names(["a.jpg", "b/a", "A", "../x"], ".png")
        ['a.png', 'b/a.png', 'A-2.png', 'x.png']
    """
    files: list[str] = []
    used: set[str] = set()
    counts: dict[str, int] = {}
    for name in names:
        stem = _make_stem(name, suffix)
        key = _fold_case(stem)
        candidate = stem
        while _fold_case(candidate) in used:
            counts[key] = counts.get(key, 1) + 1
            candidate = f"{stem}-{counts[key]}"
        used.add(_fold_case(candidate))
        files.append(candidate + suffix)
    return files


def _make_stem(name: str, suffix: str) -> str:
    """Return a relative path without suffix; no folder in it has the suffix, so that none has the path of a file."""
    plain = _CONTROL.sub("_", name).replace("\\", "/").replace(":", "/")
    parts = [stripped for part in plain.split("/") if (stripped := part.rstrip(". ")).strip(". ")]
    if not parts:
        return "image"
    folders = [f"{part}_" if _fold_case(part).endswith(suffix) else part for part in parts[:-1]]
    return str(PurePosixPath(*folders, PurePosixPath(parts[-1]).with_suffix("")))


def _fold_case(text: str) -> str:
    """Return the form in which file systems that ignore case compare names."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
