"""Text files in UTF-8."""

from pathlib import Path

from hardmax.errors import DataError


def read_text(path: Path) -> str:
    """Read a text file; a byte order mark, as some editors write it, is left out.

    Raises:
        DataError: the file cannot be read, is empty, or is not UTF-8.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    if not data.strip():
        raise DataError(f"{path} is empty")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}, line {line}: this is not UTF-8 text; save the file as UTF-8") from error
