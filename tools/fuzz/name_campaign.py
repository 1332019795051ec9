"""Names of folders, files and scans that are code to a browser, a terminal or a spreadsheet: all take them as text."""

import csv
import shutil
from collections.abc import Collection
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from random import Random

import numpy as np
import torch
from PIL import Image

from hardmax.applications.discrete_vae.config import DiscreteConfig
from hardmax.applications.hashing.config import HashingConfig
from hardmax.applications.runs import load_run, train
from hardmax.applications.segmentation.results.page import write_page
from hardmax.applications.segmentation.results.tables import Result, write_volumes
from hardmax.applications.segmentation.volumes.labels import STRUCTURES
from hardmax.applications.segmentation.volumes.scans import Scan
from hardmax.applications.tokens.commands import Tokens, write_tokens
from hardmax.applications.tokens.config import DvaeConfig
from hardmax.applications.tokens.model import TokenVAE
from hardmax.cli.main import main
from tools.fuzz.children import FINISHED, REFUSED, Outcome, run_in_child
from tools.fuzz.record import Defect, Tally

_FRAGMENTS = (
    '"><script>alert(1)<!--', "'", '"', "<img src=x onerror=alert(1)>", "<svg onload=alert(1)>", r"\1", r"\g<0>",
    "{{ 7*7 }}", "{% x %}", "$x$", "$\\frac", "[red]", "[", ":heart:", "=1+1", "-x", "+1", "@SUM(A1)", "\x1b[31m", "\n",
    "\r", "\t", "\x07", "\u202e", "\U0001f600", "e\u0301", "%s", "%00", "&lt;", "&#60;", "..", " ", "a" * 60, "\udcff",
    "`x`", "|", "--help", "#", "?", ":", "\\", ";", "*", "~", "\u2028", "javascript:", "-->", "]]>", "<", ">",
)  # fmt: skip
_LONGEST = 180  # bytes; a name has at most 255, and results add an ending


def make_name(chance: Random) -> str:
    """Return the name of a file that is made of hostile fragments."""
    name = ""
    for _ in range(chance.randint(1, 5)):
        longer = name + chance.choice(_FRAGMENTS)
        name = longer if len(longer.encode(errors="surrogateescape")) <= _LONGEST else name
    return name if name.strip(". ") else f"x{name}"


class NameCampaign:
    """Hostile names of trained runs, images, tokens and scans; a case uses two of them in one way.

    Args:
        scratch: folder for everything that gets such names.
        only: the ways to use names; None: all.
    """

    name = "names"

    def __init__(self, scratch: Path, only: Collection[str] | None = None) -> None:
        self._scratch = scratch
        scratch.mkdir(parents=True)
        data = scratch / "images.npz"
        self._images = np.random.default_rng(0).integers(0, 256, (30, 8, 8)).astype(np.uint8)
        np.savez_compressed(data, images=self._images)
        common = {"data": str(data), "epochs": 1, "batch_size": 10}
        configs = {
            "discrete": DiscreteConfig(**common, hidden=4, categories=3),
            "hashing": HashingConfig(**common, bits=4, hidden=4),
            "dvae": DvaeConfig(**common, codes=4, dimensions=2, width=2),
        }
        for name, config in configs.items():
            assert train(replace(config, out=str(scratch / name)))
        uses = {
            "report": self._report, "index": self._index, "detokenize": self._detokenize, "scans": self._write_scans,
            "data": self._check_data,
        }  # fmt: skip
        self._uses = {name: use for name, use in uses.items() if only is None or name in only}
        self._elements = {use: self._find_elements(use) for use in self._uses}

    def run_case(self, tally: Tally, seed: int, case: int) -> None:
        """Use two hostile names in one way, and look at what was written."""
        chance = Random(f"{seed}/{case}")
        use = list(self._uses)[case % len(self._uses)]
        names = [make_name(chance), make_name(chance)]
        outcome, problems = self._use(use, names)
        tally.add_case(f"{case} {use}", outcome.seconds)
        problems += [
            f"the new element {element}"
            for element in self._list_elements(self._place) - self._elements[use]
        ]  # fmt: skip
        if problems:
            reason = f"{use} with {names!r}: {problems[0]}\n{outcome.text}"
            tally.add_defect(Defect(f"{case} {use}", reason, f"{use} {problems[0][:60]}"))

    @property
    def _place(self) -> Path:
        return self._scratch / "place"

    def _find_elements(self, use: str) -> set[str]:
        outcome, problems = self._use(use, ["first", "second"])
        assert outcome.code == FINISHED, outcome.text
        assert not problems, problems
        return self._list_elements(self._place)

    def _use(self, use: str, names: list[str]) -> tuple[Outcome, list[str]]:
        """Use names in a new folder; return how it ended, and what is wrong with the output and the tables."""
        shutil.rmtree(self._place, ignore_errors=True)
        self._place.mkdir()
        beside = sorted(path.name for path in self._scratch.iterdir())
        outcome = run_in_child(lambda: self._uses[use](names), self._scratch / "log")
        problems = [] if outcome.code in (FINISHED, REFUSED) else [outcome.text.strip().splitlines()[-1]]
        characters = {
            repr(c) for c in outcome.text if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 or c in "\u202e\u2028"
        }
        problems += [f"the terminal gets {', '.join(sorted(characters))}"] if characters else []
        if "Traceback" in outcome.text:
            problems.append(outcome.text.strip().splitlines()[-1])
        if sorted(path.name for path in self._scratch.iterdir()) != sorted({*beside, "log"}):
            problems.append("a file was written outside of the folder")
        for path in self._place.rglob("*.csv"):
            with path.open(newline="", encoding="utf-8") as file:
                cells = [cell for row in csv.reader(file) for cell in row]
            problems += [
                f"a spreadsheet calculates {c!r}" for c in cells if c[:1] in tuple("=+-@\t\r") and not _is_number(c)
            ]
        return outcome, problems

    @staticmethod
    def _list_elements(folder: Path) -> set[str]:
        """Return the elements of all pages of a folder, each with the names of its attributes."""
        elements: set[str] = set()
        for path in folder.rglob("*.html"):
            elements |= _Elements(path.read_text(encoding="utf-8")).elements
        return elements

    def _report(self, names: list[str]) -> None:
        runs = [
            shutil.copytree(self._scratch / "discrete", self._place / str(i) / name) for i, name in enumerate(names)
        ]
        _run_command("report", *map(str, runs), "--out", str(self._place / "page.html"))

    def _index(self, names: list[str]) -> None:
        images = self._place / names[0]
        images.mkdir()
        for number, pixels in enumerate(self._images[:4]):
            Image.fromarray(pixels).save(images / f"{number}{names[1]}.png")
        index, sheet = self._place / "index.npz", self._place / "found.png"
        _run_command("index", str(self._scratch / "hashing"), str(images), "--out", str(index))
        _run_command("search", str(index), str(next(iter(images.iterdir()))), "--out", str(sheet))

    def _detokenize(self, names: list[str]) -> None:
        run = load_run(self._scratch / "dvae", kind=TokenVAE)
        count, (height, width) = len(names) + 1, run.model.grid
        tokens = Tokens(
            torch.zeros(count, height, width, dtype=torch.int64), ["../../" + names[0], names[1], names[1]], 4,
            run.model.fingerprint,
        )  # fmt: skip
        write_tokens(self._place / "tokens.npz", tokens)
        out = self._place / "out"
        _run_command("detokenize", str(self._scratch / "dvae"), str(self._place / "tokens.npz"), "--out", str(out))
        written = [path for path in out.rglob("*") if path.is_file()]
        assert len(written) == count, f"{len(written)} files for {count} names"

    def _write_scans(self, names: list[str]) -> None:
        volumes = np.ones(len(STRUCTURES))
        scans = [Scan(self._place / name, name) for name in names]
        results = [
            Result(scans[0], model=names[1], volumes=volumes, flags=(names[1],), notes=(names[0],)),
            Result(scans[1], error=names[0]),
        ]
        write_page(self._place / "index.html", results, STRUCTURES)
        write_volumes(self._place / "volumes.csv", results, STRUCTURES)

    def _check_data(self, names: list[str]) -> None:
        for number, pixels in enumerate(self._images):
            path = self._place / "images" / names[number % 2] / f"{number}{names[0]}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)
        _run_command("data", "check", str(self._place / "images"))


def _run_command(*arguments: str) -> None:
    code = main(list(arguments))
    if code not in (0, 2):
        raise RuntimeError(f"hardmax {arguments[0]} ended with {code}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class _Elements(HTMLParser):
    """The elements of a page, with the names of their attributes, and the schemes of their links."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements |= {tag, *(f"{tag} {name}" for name, _ in attrs)}
        for name, value in attrs:
            if name in ("href", "src", "xlink:href") and value and not value.startswith("#"):
                self.elements.add(f"{tag} {name}={value.split(':')[0][:20]}:")
