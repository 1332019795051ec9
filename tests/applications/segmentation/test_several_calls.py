"""`hardmax segment run` into a folder that holds results: scans are added, and the same scan is replaced."""

import csv
import json
import math
from dataclasses import replace

import pytest
from applications.segmentation.heads import make_head, run_failing, save_volume

from hardmax.applications.segmentation.results.page import render_page
from hardmax.applications.segmentation.results.records import check_records, read_records
from hardmax.applications.segmentation.results.tables import write_dice, write_volumes
from hardmax.applications.segmentation.volumes.labels import STRUCTURES
from hardmax.applications.segmentation.volumes.scans import Scan
from hardmax.cli.main import main
from hardmax.errors import DataError

pytestmark = pytest.mark.usefixtures("stand_ins")


def read_table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


ODD = (None, True, 7, "text", [], [None], {}, {"a": "b"}, math.inf, -1, 10**400)


class TestSeveralCalls:
    """Calls with one folder of results add to it."""

    @pytest.fixture(autouse=True)
    def scans(self, folder, tmp_path):
        self.out, self.first, self.second = tmp_path / "out", folder / "1_t1.nii.gz", folder / "2_t1.mgz"
        self.folder = folder

    def run(self, *arguments):
        return main(["segment", "run", *map(str, arguments), "--out", str(self.out), "--model", "model"])

    def test_scans_are_added(self, capsys):
        assert self.run(self.second) == 0
        one = (self.out / "index.html").read_text()
        assert self.run(self.first, "--compare", self.folder) == 0
        assert "also list 1 scan of earlier calls" in capsys.readouterr().out
        rows = read_table(self.out / "volumes.csv")
        assert [row["scan"] for row in rows] == ["1_t1", "2_t1"]
        assert {row["scan"] for row in read_table(self.out / "dice.csv")} == {"1_t1"}
        page = (self.out / "index.html").read_text()
        assert "2 scans" in page
        assert page.count("data:image/jpeg") == 2
        assert one[one.index("<figure>") : one.index("</details>")] in page  # image, flags and volumes are unchanged
        # One call with both gives the same table.
        before = (self.out / "volumes.csv").read_bytes()
        assert self.run(self.folder) == 0
        assert (self.out / "volumes.csv").read_bytes() == before

    def test_the_same_scan_is_replaced(self, stand_ins):
        assert self.run(self.folder) == 0
        before = read_table(self.out / "volumes.csv")
        stand_ins.segmenter.log_likelihood = -8.0
        assert self.run(self.second) == 0
        rows = read_table(self.out / "volumes.csv")
        assert rows[0] == before[0]
        assert (rows[1]["scan"], rows[1]["log_likelihood"]) == ("2_t1", "-8.0000")
        assert len(rows) == 2
        page = (self.out / "index.html").read_text()
        assert page.count("Low likelihood") == 2  # in the table, and above the image

    def test_dice_of_an_earlier_call_is_kept(self):
        assert self.run(self.first, "--compare", self.folder) == 0
        before = (self.out / "dice.csv").read_bytes()
        assert self.run(self.second) == 0
        assert (self.out / "dice.csv").read_bytes() == before
        assert "Agreement with the true maps" in (self.out / "index.html").read_text()

    def test_no_file_of_an_earlier_result_remains(self):
        assert self.run(self.folder, "--posteriors", "--compare", self.folder) == 0
        mine = self.out / "notes_posteriors.nii.gz"
        mine.write_text("not ours")
        self.second.write_bytes(b"text")
        assert self.run(self.folder) == 1
        assert sorted(str(path.relative_to(self.out)) for path in self.out.rglob("*.*")) == [
            "1_t1_labels.nii.gz", "colours.txt", "index.html", mine.name, "qc/1_t1.json", "qc/1_t1.png", "qc/2_t1.json",
            "volumes.csv",
        ]  # fmt: skip
        assert "Agreement with the true maps" not in (self.out / "index.html").read_text()

    def test_a_failed_scan_is_kept_until_it_succeeds(self):
        good = self.second.read_bytes()
        self.second.write_bytes(b"text")
        assert self.run(self.folder) == 1
        self.second.write_bytes(good)
        assert read_table(self.out / "volumes.csv")[1]["flag"].startswith("failed: ")
        assert self.run(self.second) == 0
        assert "failed" not in (self.out / "volumes.csv").read_text()

    def test_another_scan_of_the_same_name_is_refused(self, tmp_path, capsys):
        assert self.run(self.first) == 0
        before = (self.out / "1_t1_labels.nii.gz").read_bytes()
        other = save_volume(tmp_path / "1_t1.nii.gz", *make_head(tilt=(20, 0, 0)))
        error = run_failing(capsys, "run", other, "--out", self.out, "--model", "model")
        assert "is the result of another scan" in error
        assert str(self.first) in error
        assert (self.out / "1_t1_labels.nii.gz").read_bytes() == before
        self.first.rename(self.first.with_name("elsewhere.nii.gz"))  # then it may be the same, moved
        assert self.run(other) == 0

    def test_models_are_named(self, tmp_path):
        (tmp_path / "second model").mkdir()
        assert self.run(self.first) == 0
        assert main(["segment", "run", str(self.second), "--out", str(self.out), "--model", "second model"]) == 0
        page = (self.out / "index.html").read_text()
        assert "the model model and the model second model" in page
        assert "Segmented with the model second model." in page

    def test_results_without_records_are_not_dropped(self, capsys):
        assert self.run(self.folder) == 0
        before = (self.out / "volumes.csv").read_bytes()
        (self.out / "qc" / "2_t1.json").unlink()
        error = run_failing(capsys, "run", self.first, "--out", self.out, "--model", "model")
        assert "lists 2_t1" in error
        assert (self.out / "volumes.csv").read_bytes() == before
        assert self.run(self.second) == 0

    def test_a_broken_record(self, capsys):
        assert self.run(self.first) == 0
        for text in ("", "{", "[]", "{}", "[" * 100_000, "\x00", '{"scan": 3}'):
            (self.out / "qc" / "1_t1.json").write_text(text)
            error = run_failing(capsys, "run", self.second, "--out", self.out, "--model", "model")
            assert "1_t1.json" in error

    def test_a_record_of_a_scan_whose_name_is_too_long(self):
        assert self.run(self.first) == 0
        record = self.out / "qc" / "1_t1.json"
        record.write_text(json.dumps(json.loads(record.read_text()) | {"scan": "/" + "a" * 300}))
        check_records(self.out, [Scan(self.first, "1_t1")], STRUCTURES)

    @pytest.mark.parametrize("content", [b"", b"\x89PNG\r\n\x1a\n", b"text"])
    def test_a_broken_image_does_not_stop_the_page(self, content):
        assert self.run(self.first) == 0
        (self.out / "qc" / "1_t1.png").write_bytes(content)
        assert self.run(self.second) == 0
        page = (self.out / "index.html").read_text()
        assert page.count("Its image in the folder qc is broken") == 1
        assert page.count("data:image/jpeg") == 1

    def test_every_value_of_a_record_is_checked(self):
        assert self.run(self.first, "--compare", self.folder) == 0
        record = self.out / "qc" / "1_t1.json"
        content = json.loads(record.read_text())
        agreement = [
            {"agreement": content["agreement"] | {key: value}} for key in content["agreement"] for value in ODD
        ]
        for change in [*({key: value} for key in content for value in ODD), *agreement]:
            record.write_text(json.dumps(content | change))
            try:
                results = read_records(self.out, STRUCTURES)
            except DataError as error:
                assert "1_t1.json" in str(error)  # noqa: PT017
            else:
                write_volumes(self.out / "volumes.csv", results, STRUCTURES)
                write_dice(self.out / "dice.csv", results)
                render_page([replace(result, image=None) for result in results], STRUCTURES)

    def test_other_structures(self, capsys):
        assert self.run(self.first) == 0
        record = self.out / "qc" / "1_t1.json"
        content = json.loads(record.read_text())
        content["volumes"]["tumour"] = content["volumes"].pop("hippocampus")
        record.write_text(json.dumps(content))
        error = run_failing(capsys, "run", self.second, "--out", self.out, "--model", "model")
        assert "has other structures" in error
        assert "choose another folder with --out" in error
