"""Read JSON that may come from anyone: every file and line of JSON in hardmax passes through `parse_json`."""

import json
import math
from pathlib import Path
from typing import Any

from hardmax.errors import DataError

# A file of this size with this number of values takes less than 1 GB in memory, and less than 5 s. The largest that
# hardmax writes, the complete graph of 1,000 bits, has 1.5 million values in 30 MB.
_MAX_BYTES = 64 * 2**20
_MAX_VALUES = 4_000_000
_MAX_DEPTH = (
    64  # hardmax writes 5 levels; Python's own limit depends on the version, and code that recurses has another
)


def read_json(path: Path) -> dict[str, Any]:
    """Read a file that holds one JSON object.

    Raises:
        DataError: the file is missing, cannot be read, is too large, or is not a JSON object (see `parse_json`).

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "config.json"
        >>> _ = path.write_text('{"labels": 3}')
        >>> read_json(path)
        {'labels': 3}
    """
    try:
        if path.exists() and not path.is_file():
            raise DataError(f"{path} is not a file; expected a file of JSON")
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        return parse_json(content.decode(), str(path))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a JSON object: it is not text in UTF-8") from error


def parse_json(text: str, source: str) -> dict[str, Any]:
    """Parse text that holds one JSON object.

    NaN and Infinity are accepted: rows and checkpoints of diverged runs hold them (see `check_finite`).

    Args:
        text: the text.
        source: the file or line that it comes from, for error messages.

    Raises:
        DataError: it is not JSON, or not an object; a key occurs twice; or it is too large or too deeply nested.

    Example:
        >>> parse_json('{"epoch": 1, "epoch": 2}', "line 3 of metrics.jsonl")
        Traceback (most recent call last):
        hardmax.errors.DataError: line 3 of metrics.jsonl is not a JSON object: the key 'epoch' occurs twice
    """
    try:
        if len(text) > _MAX_BYTES or sum(map(text.count, ",[{")) > _MAX_VALUES:
            raise ValueError(f"it has more than {_MAX_BYTES >> 20} MB or {_MAX_VALUES:,} values")
        content = json.loads(text, object_pairs_hook=_make_object)
        if not isinstance(content, dict):
            raise TypeError(f"it is a {type(content).__name__}, expected {{...}}")
        _check_depth(content)
    except RecursionError as error:
        raise DataError(f"{source} is not a JSON object: it is nested more than {_MAX_DEPTH} levels deep") from error
    except (ValueError, TypeError) as error:  # ValueError also for integers of more than 4,300 digits
        raise DataError(f"{source} is not a JSON object: {error}") from error
    return content


def check_finite(content: object, source: str) -> None:
    """Check that all numbers of parsed JSON are finite, such as those of a configuration.

    Raises:
        DataError: a number is NaN or infinite.
    """
    if isinstance(content, dict):
        for value in content.values():
            check_finite(value, source)
    elif isinstance(content, list):
        for value in content:
            check_finite(value, source)
    elif isinstance(content, float) and not math.isfinite(content):
        raise DataError(f"{source} holds the number {content}; expected finite numbers")


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for name, value in pairs:
        if name in content:
            raise ValueError(f"the key {name[:80]!r} occurs twice")
        content[name] = value
    return content


def _check_depth(content: object) -> None:
    level = [content]
    for _ in range(_MAX_DEPTH):
        level = [
            value
            for node in level
            for value in (node.values() if isinstance(node, dict) else node if isinstance(node, list) else ())
        ]
        if not level:
            return
    raise RecursionError
