"""Names of scans are text on the terminal, in tables, in images and on the page, whatever they contain."""

import csv
import json

import numpy as np
import pytest
from applications.segmentation.heads import make_anatomy, make_head, save_volume, world_points
from browser import HOSTILE_NAME, assert_inert, dump_dom, needs_browser

from hardmax.applications.segmentation.results.quality_images import write_quality_image
from hardmax.applications.segmentation.volumes.geometry import Grid
from hardmax.applications.segmentation.volumes.labels import STRUCTURES
from hardmax.applications.segmentation.volumes.reading import Volume
from hardmax.cli.main import main

pytestmark = pytest.mark.usefixtures("stand_ins", "folder")

NAMES = (
    HOSTILE_NAME,
    "=HYPERLINK(A1)",
    "-2+3",
    "@SUM(A1)",
    "a\x1b[31mred\u202egnp",
    "two\nlines\tand a tab",
    "[bold]x[red] :heart:",
)


@pytest.fixture
def results(tmp_path, monkeypatch, capsys):
    """Segment scans with all these names; return the folder of the results and the output."""
    monkeypatch.setenv("COLUMNS", "1000")
    scans = tmp_path / "hostile"
    scans.mkdir()
    values, affine = make_head()
    for name in NAMES:
        save_volume(scans / f"{name}.nii.gz", values, affine)
    out = tmp_path / f"out {HOSTILE_NAME}"
    assert main(["segment", "run", str(scans), "--out", str(out), "--model", "model"]) == 0
    return out, capsys.readouterr()


def test_terminal_and_tables(results):
    out, output = results
    for stream in output:
        assert "\x1b[31m" not in stream
        assert "\u202e" not in stream
    assert "[bold]x[red] :heart:" in output.out
    assert "a\\x1b[31mred\\u202egnp" in output.out
    assert "two\\nlines\\tand a tab" in output.out
    assert f"the results are in {out}: 7 label maps" in output.out
    with (out / "volumes.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    scans = [row["scan"] for row in rows]
    assert {"'=HYPERLINK(A1)", "'-2+3", "'@SUM(A1)", "two\\nlines\\tand a tab"} <= set(scans)
    assert not any(scan[0] in "=+-@\t\r" for scan in scans)
    assert all(float(row["log_likelihood"]) < 0 for row in rows)  # a negative number stays one
    # Another call recognises all of them, and none is listed twice.
    assert main(["segment", "run", str(out.parent / "hostile"), "--out", str(out), "--model", "model"]) == 0
    assert len((out / "volumes.csv").read_text().splitlines()) == len(NAMES) + 1


def test_page(results):
    assert_inert((results[0] / "index.html").read_text(encoding="utf-8"), *NAMES[:4], "a\\x1b[31mred\\u202egnp")


@needs_browser
def test_page_in_a_browser(results, tmp_path):
    assert_inert(dump_dom(results[0] / "index.html", tmp_path / "browser"), *NAMES[:4])


def test_a_record_that_someone_else_wrote(results, tmp_path):
    """Texts of a record are shown as text, and its image is that of its own name, never another file."""
    out, _ = results
    record = out / "qc" / "-2+3.json"
    content = json.loads(record.read_text())
    text = '"><script>alert(1)</script>{{ 7*7 }}'
    content |= {"error": text, "flags": [text], "notes": [text], "model": text, "image": str(tmp_path / "secret.png")}
    record.write_text(json.dumps(content))
    scan = out.parent / "hostile" / f"{NAMES[0]}.nii.gz"
    assert main(["segment", "run", str(scan), "--out", str(out), "--model", "model"]) == 0
    assert_inert((out / "index.html").read_text(encoding="utf-8"), text)


def test_a_dollar_is_not_mathematics(tmp_path):
    """The image of a scan with dollars in its name has them in its title, and an unfinished formula is no error."""
    values, affine = make_head()
    labels = make_anatomy(world_points(values.shape, affine), values)
    scan = Volume(values.astype(np.float32), Grid(values.shape, affine))
    images = []
    for title in ("$x$", "x", "$\\frac$ 1"):
        write_quality_image(tmp_path / "a.png", scan, labels, STRUCTURES, title=title, flag=title)
        images.append((tmp_path / "a.png").read_bytes())
    assert images[0] != images[1]
