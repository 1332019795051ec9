"""What is given in place of a scan: label maps, masks and DICOM files."""

import gzip

import numpy as np
import pytest
from applications.segmentation.heads import grid_of, make_head, run_failing, save_volume
from scipy import ndimage

from hardmax.applications.segmentation.volumes.dicom import has_dicom_files, is_dicom
from hardmax.applications.segmentation.volumes.reading import Volume, check_is_scan
from hardmax.errors import DataError

pytestmark = pytest.mark.usefixtures("stand_ins")


@pytest.fixture
def regions():
    """Regions of four numbers, and the distance in voxels to the centre."""
    points = np.moveaxis(np.indices((40, 44, 42)), 0, -1) - [20, 21, 22]
    distance = np.linalg.norm(points, axis=-1)
    sides = (points[..., 0] > 0) * 1000 + (points[..., 1] > 2) * 17
    return np.where(distance < 17, 3 + sides, 0), distance


def make_volume(values):
    values = np.asarray(values, np.float32)
    return Volume(values, grid_of(values, np.eye(4)))


@pytest.mark.parametrize("kind", ["map", "mask", "parcellation"])
def test_label_maps(regions, kind):
    labels, distance = regions
    values = {"map": labels, "mask": labels > 0, "parcellation": labels + 20 * (distance < 12) + (distance < 6)}[kind]
    with pytest.raises(DataError, match=r"is a label map or a mask, not a scan: it has \d+ different values"):
        check_is_scan(make_volume(values))


def test_scans(regions):
    labels, distance = regions
    brightness = np.where(labels, 100 - 3 * distance + 0.05 * labels, 0)
    noise = np.random.default_rng(0).normal(size=labels.shape)
    smooth = ndimage.gaussian_filter(brightness, 1.0)
    for values in (
        brightness,  # without noise, of many values
        np.where(labels, (brightness + 3 * noise).round(), 0),
        smooth.round(),  # a template, as whole numbers
        np.where(labels, (brightness + 3 * noise) // 8, 0),  # few values
        np.where(labels, 50 + noise, 0),  # of one tissue
    ):
        check_is_scan(make_volume(values))


def test_a_label_map_through_the_command_line(regions, tmp_path, run_command):
    save_volume(tmp_path / "scan.nii.gz", regions[0], np.eye(4), dtype=np.int16)
    code, output, errors = run_command("scan.nii.gz", "--out", "out")
    assert (code, output) == (2, "")
    assert errors.strip().startswith(
        "hardmax: error: scan.nii.gz is a label map or a mask, not a scan: it has 5 different values"
    )
    assert "--compare" in errors
    assert len(errors.strip().splitlines()) == 1


def write_dicom(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(128) + b"DICM" + bytes(200))
    return path


def test_which_files_are_dicom(tmp_path):
    assert is_dicom(write_dicom(tmp_path / "IM0001"))
    for name in ("a.dcm", "a.IMA", "DICOMDIR"):
        (tmp_path / name).write_bytes(b"old files do not have the mark")
        assert is_dicom(tmp_path / name)
    for name in ("notes.txt", "short"):
        (tmp_path / name).write_bytes(b"DICM")
        assert not is_dicom(tmp_path / name)
    assert not is_dicom(tmp_path)
    assert not is_dicom(tmp_path / "none")


def test_folders_of_dicom_files(tmp_path, capsys, run_command):
    write_dicom(tmp_path / "disk one" / "study" / "series" / "IM0001")
    assert has_dicom_files(tmp_path / "disk one")
    code, _, error = run_command("disk one", "--out", "out")
    assert code == 2
    assert "disk one has DICOM files" in error
    assert "dcm2niix -z y -o nifti 'disk one'" in error
    assert len(error.splitlines()) == 1
    file = tmp_path / "disk one" / "study" / "series" / "IM0001"
    assert "IM0001 is a DICOM file" in run_failing(capsys, "run", file)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("text")
    assert not has_dicom_files(tmp_path / "texts")
    assert "holds no scans" in run_failing(capsys, "run", tmp_path / "texts")


def test_a_folder_with_scans_and_dicom_files(tmp_path):
    from hardmax.applications.segmentation.volumes.scans import find_scans

    write_dicom(tmp_path / "mixed" / "IM0001")
    scan = save_volume(tmp_path / "mixed" / "scan.nii.gz", *make_head())
    assert [one.path for one in find_scans([tmp_path / "mixed"])] == [scan]
    assert gzip.decompress(scan.read_bytes())[:4]
