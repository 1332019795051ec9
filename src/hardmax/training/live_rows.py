"""Read the rows of a file that grows while a run is in training: every call reads only what was appended."""

from pathlib import Path
from typing import Any, final

from hardmax.errors import DataError
from hardmax.json_files import parse_json
from hardmax.training.run_folder import make_line_error

_MAX_BYTES = 64 * 2**20  # of one file: a million epochs


@final
class RowReader:
    r"""Reads a file of rows repeatedly, such as `metrics.jsonl`, and keeps the rows of earlier calls.

    A resumed run may remove the rows of unfinished epochs, and a run may be replaced by another one: if the last row
    that was read is no longer at its place, the file is read from its beginning.

    Args:
        path: the file; it may not exist yet.

    Attributes:
        rows: the rows that were read so far.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "metrics.jsonl"
        >>> reader = RowReader(path)
        >>> reader.read()
        False
        >>> _ = path.write_text('{"epoch": 1}\n{"epo')
        >>> reader.read(), reader.rows
        (True, [{'epoch': 1}])
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[dict[str, Any]] = []
        self._offset, self._last_line = 0, b""

    def read(self) -> bool:
        """Read the rows that were appended, and return whether `rows` has changed.

        An incomplete last row is left for a later call: its process may be writing it, or was killed.

        Raises:
            DataError: the file cannot be read, is too large, or one of its rows is broken.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset - len(self._last_line))
                is_same = file.read(len(self._last_line)) == self._last_line
                if not is_same:
                    self._forget()
                    file.seek(0)
                content = file.read(_MAX_BYTES + 1 - self._offset)
        except FileNotFoundError:
            had_rows = bool(self.rows)
            self._forget()
            return had_rows
        except OSError as error:
            raise DataError(f"cannot read {self.path}: {error.strerror or error}") from error
        if self._offset + len(content) > _MAX_BYTES:
            raise DataError(f"{self.path} has more than {_MAX_BYTES >> 20} MB; hardmax writes no such file")
        lines = content[: content.rfind(b"\n") + 1].splitlines(keepends=True)
        new = [self._parse(line, len(self.rows) + number) for number, line in enumerate(lines, 1)]
        self.rows = [*self.rows, *new]  # a new list: a thread may still read the old one
        self._offset += sum(map(len, lines))
        self._last_line = lines[-1] if lines else self._last_line
        return bool(new) or not is_same

    def _forget(self) -> None:
        self.rows, self._offset, self._last_line = [], 0, b""

    def _parse(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            return parse_json(line.decode(), "it")
        except (DataError, UnicodeDecodeError) as error:
            raise make_line_error(self.path, number, line.decode(errors="replace")) from error
