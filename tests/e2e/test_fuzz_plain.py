"""The campaigns of `make fuzz` in their short form: no defects; and each of them finds defects that were planted."""

import ctypes
import shutil
import time
from random import Random

import pytest

from hardmax.errors import DataError
from hardmax.files import write_text
from tools.fuzz import name_campaign
from tools.fuzz.campaign import run_campaign
from tools.fuzz.corpus.target import Target
from tools.fuzz.disk_campaign import DiskCampaign
from tools.fuzz.kill_campaign import KillCampaign
from tools.fuzz.mutation_campaign import prepare_cases, run_mutations
from tools.fuzz.name_campaign import NameCampaign
from tools.fuzz.record import Tally, format_table, save_defects
from tools.fuzz.trainings import Training, make_trainings
from tools.fuzz.worker_pool import Plan, WorkerPool

pytestmark = pytest.mark.plain


def assert_clean(tally, cases):
    assert tally.cases >= cases
    assert not tally.defects, format_table([tally])


def test_mutations(tmp_path):
    assert_clean(run_mutations(0, 60, 1, tmp_path, most=400), 400)


@pytest.mark.parametrize(
    ("kind", "only", "cases"), [(KillCampaign, ("discrete",), 4), (DiskCampaign, ("discrete",), 2)]
)
def test_trainings(kind, only, cases, tmp_path):
    assert_clean(run_campaign(kind(make_trainings(tmp_path / "data", only), tmp_path), 0, 60, most=cases), cases)


def test_names(tmp_path):
    assert_clean(run_campaign(NameCampaign(tmp_path / "names"), 0, 60, most=5), 5)


def read_planted(letter):
    """A reader with one defect for each letter."""
    if letter == "a":
        raise KeyError("planted")
    if letter == "b":
        bytearray(3 * 2**30)
    if letter == "c":
        raise DataError("small") from MemoryError()
    if letter == "d":
        ctypes.string_at(0)
    if letter == "e":
        time.sleep(100)


def test_planted_defects_of_readers(tmp_path, monkeypatch):
    monkeypatch.setattr("tools.fuzz.limits.SECONDS", 0.2)

    def make_targets(folder):
        folder.mkdir()
        path = folder / "file"
        path.write_bytes(b"x")
        return [Target("planted", path, lambda: read_planted(path.read_text()))]

    tally = Tally("mutations")
    for letter in "abcde":
        monkeypatch.setattr("tools.fuzz.mutation_campaign._mutate", lambda *_, letter=letter: letter.encode())
        plan = Plan(
            lambda folder: prepare_cases(folder, 0, make_targets), 1, tmp_path / letter, time.monotonic() + 60, 2
        )
        WorkerPool(plan).run(tally)
    assert tally.cases == 10
    reasons = [defect.reason.splitlines()[0] for defect, count in tally.defects.values() if count == 2]
    expected = (
        "KeyError",
        "MemoryError",
        "it needed more than 1 GB",
        "the process ended with -11",
        "it took more than",
    )
    for reason, words in zip(reasons, expected, strict=True):
        assert reason.startswith(words)
    paths = save_defects(tmp_path / "defects", 0, [tally])
    assert len(paths) == 5
    assert "--case 'mutations/0 planted'" in paths[0].read_text()


def make_planted_training(write):
    """Return a training of ten steps, which are counted in a file."""

    def run(folder):
        folder.mkdir(exist_ok=True)
        path = folder / "count"
        for number in range(int(path.read_text()) if path.exists() else 0, 10):
            write(path, str(number + 1))

    return Training("planted", run, lambda folder: {"count": (folder / "count").read_text()}, lambda folder: None)


def write_atomically(path, text):
    try:
        write_text(path, text)
    except OSError as error:
        raise DataError("the disk is full") from error


@pytest.mark.parametrize("kind", [KillCampaign, DiskCampaign])
def test_planted_defects_of_trainings(kind, tmp_path):
    """A file that is written in its place is empty after a kill, and a full disk is an error of Python."""
    for name, write, is_clean in (
        ("in place", lambda path, text: path.write_text(text), False),
        ("", write_atomically, True),
    ):
        tally = run_campaign(kind([make_planted_training(write)], tmp_path / f"a{name}"), 0, 60, most=12)
        assert (not tally.defects) == is_clean, format_table([tally])


def test_planted_defects_of_names(monkeypatch, tmp_path):
    """A page that contains a name as it is gets new elements, and a file in the wrong folder is seen."""

    def write_page(path, results, table):
        path.write_text("".join(f"<p>{result.scan.name}</p>" for result in results), errors="replace")
        (path.parents[1] / "outside").touch()

    campaign = NameCampaign(tmp_path / "names", ("scans",))
    monkeypatch.setattr(name_campaign, "write_page", write_page)
    tally = run_campaign(campaign, 0, 60, most=30)
    text = format_table([tally])
    assert "the new element" in text or "outside" in text
    shutil.rmtree(tmp_path / "names")


def test_the_same_seed_makes_the_same_names():
    names = [[name_campaign.make_name(Random(f"{seed}/3")) for _ in range(2)] for seed in (1, 1, 2)]
    assert names[0] == names[1] != names[2]
