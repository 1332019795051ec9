"""Run the Python examples of Markdown files: ``run_markdown.py FILE...``.

All ```python blocks of a file run in order in one namespace; those marked ```python no-run are skipped. The
traceback of a failure names the Markdown file and its line.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

FENCE = re.compile(r"^\s*(?P<marks>`{3,}|~{3,})\s*(?P<info>[^`]*)$")


def find_blocks(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yield the number of the first line and the text of every block to run."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    start, marks, words = 0, "", []
    for number, line in enumerate(lines, 1):
        fence = FENCE.match(line)
        if fence and not marks:
            start, marks, words = number, fence["marks"], fence["info"].split()
        elif fence and fence["marks"].startswith(marks) and not fence["info"]:
            if words[:1] == ["python"] and "no-run" not in words:
                yield start + 1, dedent("\n".join(lines[start : number - 1]))
            marks = ""
    if marks:
        raise ValueError(f"{path}, line {start}: this block is opened with {marks} and never closed")


def run_blocks(path: str | Path) -> dict[str, Any]:
    """Run all blocks of one file in order and return their namespace."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for first_line, text in list(find_blocks(path)):
        # The empty lines before the block give tracebacks the line numbers of the Markdown file.
        exec(compile("\n" * (first_line - 1) + text, str(path), "exec", dont_inherit=True), namespace)
    return namespace


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit("usage: run_markdown.py FILE...")
    for name in sys.argv[1:]:
        run_blocks(name)
        print(f"{name}: {len(list(find_blocks(name)))} blocks ran")
