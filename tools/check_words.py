"""Check that words which the project decided against do not come back: ``check_words.py [FILE ...]``.

Run by ``make lint``. A word that is quoted on purpose goes into `ALLOWED`, with the file.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# pattern: what to write instead. Patterns are whole words, in any case. A word in quotation marks, such as a key in a
# saved file, is not checked.
WORDS = {
    r"told": "given, set, passed, or reported",
    r"tells": "states, shows, or returns",
    r"pictures?": "image; for a plot, figure",
    r"whoever": "who, or the name of the role",
    r"befell|befalls": "occurred",
    r"heeds?|heeded|heedless": "uses, or depends on",
    r"whereof|thereof|wherein|whence": "of which, in which",
    r"is dear|are dear|dearest": "expensive, most expensive",
    r"stands? still": "frozen, or fixed",
    r"that (?:is|are) none": "invalid, or unknown",
    r"gone through|going through": "enumerate, or iterate over",
    r"anew": "again",
    r"alike": "similar, or in the same way",
    r"next to no(?:ne|thing)?": "almost no",
    r"so many(?! that)": "this number of",
    r"in turns": "alternately",
    r"by and by|as it were|beforehand": "(leave it out), or before",
    r"made scans?": "synthetic scans",
    r"drawn again": "reconstructed",
    r"dealt": "split, or assigned",
    r"is no longer so": "no longer applies",
    r"thus|hence|whilst|amongst|lest|naught": "so, while, among, or not",
    r"contestants?": "candidate",
    r"def (?:taken|found|brought|pointed|drawn|seen|told|lazily|exactly|bounded|enumerated)": "a verb phrase",
    r"def (?:after|back|judged|shown|made|known|named|refused|rendered|finished|never|until|here)": "a verb phrase",
    r"(?:found|told|taken|brought)(?:, \w+)* =(?!=)": "a variable named after what it holds",
}
# file: words that it quotes.
ALLOWED = {
    "tools/check_words.py": tuple(WORDS),
    "tests/docs/test_words.py": tuple(WORDS),
    "src/hardmax/experiments/tables/table2.py": (r"pictures?",),  # the name of a cell in rows of results
}
FOLDERS = ("src", "tests", "docs", "tools", "examples", "benchmarks", "README.md", "CONTRIBUTING.md")
SUFFIXES = (".py", ".md", ".j2")


def list_files() -> list[Path]:
    """Return the files that are checked."""
    files = []
    for name in FOLDERS:
        path = ROOT / name
        files += [path] if path.is_file() else [file for file in sorted(path.rglob("*")) if file.suffix in SUFFIXES]
    return files


def find_words(text: str, allowed: tuple[str, ...] = ()) -> list[tuple[int, str, str]]:
    """Return the line, the word and what to write instead, for each word of a text that is not wanted."""
    problems = []
    for pattern, instead in WORDS.items():
        if pattern in allowed:
            continue
        for match in re.finditer(rf"(?<![\w\"'])(?:{pattern})(?![\w\"'])", text, flags=re.IGNORECASE):
            problems.append((text.count("\n", 0, match.start()) + 1, match.group(), instead))
    return sorted(problems)


def main(names: list[str]) -> int:
    """Print the words that are not wanted; return 1 if there are any."""
    count = 0
    for path in [Path(name).resolve() for name in names] or list_files():
        relative = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)
        for line, word, instead in find_words(path.read_text(encoding="utf-8"), ALLOWED.get(relative, ())):
            count += 1
            print(f"{relative}:{line}: {word!r}: {instead}")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
