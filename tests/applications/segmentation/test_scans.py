"""Which files are scans, which are label maps, and which belong together."""

from pathlib import Path

import pytest

from hardmax.applications.segmentation.volumes.scans import Scan, find_maps, find_scans, find_truths
from hardmax.errors import DataError


@pytest.fixture
def folder(tmp_path):
    names = ["17_t1.nii.gz", "17_labels.nii.gz", "18_t1.mgz", "18_seg.nii", "18_mask.nii.gz", "notes.txt", ".a.nii.gz"]
    for name in [*names, "17_t1_posteriors.nii.gz"]:
        (tmp_path / name).touch()
    return tmp_path


def test_scans_of_a_folder(folder):
    assert find_scans([folder]) == [Scan(folder / "17_t1.nii.gz", "17_t1"), Scan(folder / "18_t1.mgz", "18_t1")]


def test_a_given_file_is_included_once_whatever_its_name(folder):
    scans = find_scans([folder / "18_seg.nii", folder, folder / "18_t1.mgz"])
    assert [scan.name for scan in scans] == ["18_seg", "17_t1", "18_t1"]


def test_label_maps_of_a_folder(folder, tmp_path):
    assert [path.name for path in find_maps([folder])] == ["17_labels.nii.gz", "18_seg.nii"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.nii.gz").touch()
    assert find_maps([other]) == [other / "a.nii.gz"]


def test_two_scans_of_one_name(folder):
    (folder / "17_t1.nii").touch()
    with pytest.raises(
        DataError, match=r"17_t1\.nii and .*17_t1\.nii\.gz would both be written as 17_t1_labels\.nii\.gz; rename one"
    ):
        find_scans([folder])


def test_nothing_to_find(tmp_path):
    with pytest.raises(DataError, match="holds no scans: expected files that end in"):
        find_scans([tmp_path])
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a.nii.gz").touch()
    (tmp_path / "a_labels.nii.gz").touch()
    with pytest.raises(DataError, match=r"\(1 are left out, as label maps or masks.*its folders do: give them"):
        find_scans([tmp_path])
    with pytest.raises(DataError, match="does not exist"):
        find_scans([tmp_path / "none"])
    (tmp_path / "a.txt").touch()
    with pytest.raises(DataError, match="does not have the name of a scan"):
        find_scans([tmp_path / "a.txt"])
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match="holds no label maps"):
        find_maps([tmp_path / "none"])


class TestTruths:
    def test_by_their_names(self, folder):
        scans = find_scans([folder])
        assert find_truths(scans, folder) == {"17_t1": folder / "17_labels.nii.gz", "18_t1": folder / "18_seg.nii"}

    def test_of_the_same_name_in_another_folder(self, folder, tmp_path):
        other = tmp_path / "manual"
        other.mkdir()
        (other / "17_t1.nii.gz").touch()
        scans = [Scan(folder / "17_t1.nii.gz", "17_t1"), Scan(folder / "18_t1.mgz", "18_t1")]
        with pytest.raises(DataError, match="no label map for any"):
            find_truths(scans[1:], other)
        assert find_truths(scans, other) == {"17_t1": other / "17_t1.nii.gz"}

    def test_numbers_are_compared_as_a_whole(self, tmp_path):
        (tmp_path / "171_labels.nii.gz").touch()
        with pytest.raises(DataError, match=r"for 17_t1\.nii\.gz, expected 17_labels\.nii\.gz"):
            find_truths([Scan(Path("17_t1.nii.gz"), "17_t1")], tmp_path)

    def test_one_file(self, folder):
        scans = find_scans([folder])
        assert find_truths(scans[:1], folder / "18_seg.nii") == {"17_t1": folder / "18_seg.nii"}
        with pytest.raises(DataError, match="one label map, but there are 2 scans"):
            find_truths(scans, folder / "18_seg.nii")
        with pytest.raises(DataError, match="does not exist"):
            find_truths(scans[:1], folder / "none.nii")

    def test_two_for_one(self, folder):
        (folder / "17_seg.nii.gz").touch()
        with pytest.raises(
            DataError, match=r"has 2 label maps for 17_t1\.nii\.gz: 17_labels\.nii\.gz, 17_seg\.nii\.gz"
        ):
            find_truths(find_scans([folder]), folder)
