"""The page of scans, in a browser and without: planes, structures, comparison, and what is missing or broken."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from applications.segmentation.heads import make_anatomy, make_head, save_volume, world_points

from hardmax.applications.segmentation.results.derivatives import write_description
from hardmax.applications.segmentation.results.records import write_record
from hardmax.applications.segmentation.results.tables import Result
from hardmax.applications.segmentation.volumes.agreement import dice, measure_volumes
from hardmax.applications.segmentation.volumes.geometry import Grid
from hardmax.applications.segmentation.volumes.labels import STRUCTURES
from hardmax.applications.segmentation.volumes.scans import Scan
from hardmax.errors import DataError
from hardmax.studio.folders import open_folders
from hardmax.studio.scan_views import ScanFiles, choose_voxel, describe_voxel, draw_planes, load_scan, write_code

SHAPE = (24, 30, 26)
DOUBT = "The brain has 31 ml, expected 500 to 2,200."


def make_results(root, name="ball", scans=None):
    """Write a scan into `scans`, and results of `hardmax segment run` into `result`; return labels and grid."""
    scans = scans or root / "scans"
    scans.mkdir(exist_ok=True, parents=True)
    values, affine = make_head(SHAPE)
    labels = make_anatomy(world_points(SHAPE, affine), values).astype(np.uint8)
    grid = Grid(SHAPE, affine)
    scan = save_volume(scans / f"{name}.nii.gz", values, affine)
    (root / "result").mkdir(exist_ok=True, parents=True)
    save_volume(root / "result" / f"{name}_labels.nii.gz", labels, affine, dtype=np.uint8)
    result = Result(
        Scan(scan, name),
        model="the default prior",
        volumes=measure_volumes(labels, grid, len(STRUCTURES)),
        flags=(DOUBT,),
        notes=("the header does not say where left and right are",),
    )
    write_record(root / "result", result, STRUCTURES)
    return labels, grid


def make_other_map(root, labels, grid):
    other = np.roll(labels, 1, 1)
    save_volume(root / "scans" / "expert_labels.nii.gz", other, grid.affine, dtype=np.uint8)
    return other


def check():
    """Never cancelled."""


# ------------------------------------------------------------------------------- without a browser
def test_what_is_shown_of_a_scan(tmp_path):
    labels, grid = make_results(tmp_path)
    other = make_other_map(tmp_path, labels, grid)
    files = ScanFiles(
        tmp_path / "scans/ball.nii.gz", tmp_path / "result/ball_labels.nii.gz", tmp_path / "scans/expert_labels.nii.gz"
    )
    scan = load_scan(check, files)
    assert load_scan(check, files) is scan  # it is read once
    assert np.allclose(scan.volumes, measure_volumes(labels, grid, 19) / 1000)
    assert np.allclose(scan.overlap, dice(labels, other, 19), equal_nan=True)
    assert scan.mean_overlap == pytest.approx(np.nanmean(dice(labels, other, 19)[STRUCTURES.judged_indices]))
    voxel = choose_voxel(scan, None, 5)
    assert scan.display.labels[voxel] == 5
    assert STRUCTURES.names[5].replace("_", " ") in describe_voxel(scan, voxel)
    assert choose_voxel(scan, (99, 3, 4), None) == (23, 3, 4)
    for show in ("labels", "other", "differences"):
        views = draw_planes(check, scan, voxel, show, None)
        assert [(view.rows, view.columns) for view in views] == [(26, 30), (26, 24), (30, 24)]
        assert all(view.image.startswith("data:image/png") for view in views)
    save_volume(files.labels, np.where(labels == 5, 6, labels), grid.affine, dtype=np.uint8)
    assert load_scan(check, files).volumes[5] == 0  # a file that changes is read again


def test_the_program_prints_the_volumes(tmp_path):
    labels, grid = make_results(tmp_path)
    make_other_map(tmp_path, labels, grid)
    other = tmp_path / "scans/expert_labels.nii.gz"
    code = write_code(ScanFiles(tmp_path / "scans/ball.nii.gz", tmp_path / "result/ball_labels.nii.gz", other))
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    millilitres = measure_volumes(labels, grid, 19) / 1000
    assert [float(line.split()[1]) for line in output.splitlines()[:18]] == pytest.approx(millilitres[1:], abs=0.006)
    assert f"{dice(labels, np.roll(labels, 1, 1), 19)[5]:.3f}".rstrip("0") in output


def test_files_outside_of_the_folders_are_not_read(tmp_path):
    from hardmax.studio.pages.scans import find_files, list_results

    make_results(tmp_path)
    folders = open_folders((str(tmp_path / "result"),))
    results = list_results(check, folders)
    folder = tmp_path / "result"
    assert [result.scan.name for result in results[folder]] == ["ball"]
    files, missing = find_files(folders, folder, results[folder][0], "")
    assert files.scan is None
    assert "not in the folders of this studio" in missing
    with pytest.raises(DataError, match="not in the folders"):
        find_files(folders, folder, results[folder][0], str(tmp_path / "scans/ball.nii.gz"))
    # A label map, or a record, that is a link out of the folders.
    (folder / "ball_labels.nii.gz").rename(tmp_path / "scans/moved.nii.gz")
    (folder / "ball_labels.nii.gz").symlink_to(tmp_path / "scans/moved.nii.gz")
    with pytest.raises(DataError, match="not in the folders"):
        find_files(folders, folder, results[folder][0], "")
    write_description(folder, tmp_path / "scans", STRUCTURES)  # then the names of label maps are those of BIDS
    with pytest.raises(DataError, match="ball is not a name of BIDS"):
        find_files(folders, folder, results[folder][0], "")
    (folder / "sub-1/anat").mkdir(parents=True)
    (folder / "sub-1/anat/sub-1_space-orig_dseg.nii.gz").touch()
    files, _ = find_files(folders, folder, Result(Scan(tmp_path / "sub-1_T1w.nii.gz", "sub-1_T1w")), "")
    assert files.labels == folder / "sub-1/anat/sub-1_space-orig_dseg.nii.gz"
    (folder / "qc/ball.json").rename(tmp_path / "ball.json")
    (folder / "qc/ball.json").symlink_to(tmp_path / "ball.json")
    assert list_results(check, folders) == {folder: []}


# ------------------------------------------------------------------------------- in a browser
@pytest.fixture(scope="module")
def scans(start_studio, tmp_path_factory):
    """A studio with a segmented folder: its address, the folder, and the labels of the scan."""
    root = tmp_path_factory.mktemp("scans")
    labels, grid = make_results(root)
    make_other_map(root, labels, grid)
    return start_studio(root).address.rstrip("/"), root, labels


def read_text(page):
    return page.locator(".studio-main").inner_text()


def test_click_and_scroll_move_the_other_planes(scans, open_page):
    address, _, labels = scans
    page = open_page(f"{address}/scans")
    frames = page.locator("grid-view .frame")
    frames.nth(2).locator("img.base[src^='data:']").wait_for(state="attached")
    assert DOUBT in read_text(page)
    assert "the header does not say where left and right are" in read_text(page)
    coronal = frames.nth(1).locator("img.base").get_attribute("src")
    box = frames.nth(2).bounding_box()
    # Column 8 of 24, row 9 of 30 of the axial plane: voxel (8, 20, 13).
    frames.nth(2).click(position={"x": box["width"] * 8.5 / 24, "y": box["height"] * 9.5 / 30})
    page.wait_for_url("**x=8&y=20&z=13*")
    page.wait_for_function("old => document.querySelectorAll('grid-view')[1].view.image !== old", arg=coronal)
    name = STRUCTURES.names[labels[8, 20, 13]].replace("_", " ")
    page.locator("[role=status]", has_text=name).wait_for()
    frames.nth(2).hover()
    page.mouse.wheel(0, -120)
    page.wait_for_url("**z=16*")
    frames.nth(2).focus()
    page.keyboard.press("PageDown")
    page.wait_for_url("**z=15*")
    page.keyboard.press("ArrowLeft")
    page.wait_for_url("**x=7&y=20&z=15*")
    assert page.locator("grid-view").nth(0).evaluate("element => element.view.cursor") == [10, 20]  # 26 - 1 - 15


def test_structures_and_opacity(scans, open_page):
    address, _, labels = scans
    page = open_page(f"{address}/scans")
    button = page.get_by_role("button", name="thalamus")
    button.click()
    page.wait_for_url("**structure=thalamus*")
    page.locator("button[aria-pressed=true]", has_text="thalamus").wait_for()
    page.locator("[role=status]", has_text="thalamus").wait_for()
    millilitres = (labels == STRUCTURES.index("thalamus")).sum() * 2.0 * 1.5 * 1.8 / 1000
    assert page.locator("tr", has_text="thalamus").locator("td.number").inner_text() == f"{millilitres:.2f}"
    page.locator('[aria-label="Opacity of the labels"] [tabindex]').focus()
    page.keyboard.press("ArrowRight")
    layer = "getComputedStyle(document.querySelector('grid-view').shadowRoot.querySelector('.layer')).opacity"
    page.wait_for_function(f"{layer} === '0.5'")
    page.wait_for_url("**opacity=0.5*")


def test_compare_with_a_second_map(scans, open_page):
    address, root, labels = scans
    page = open_page(f"{address}/scans")
    page.get_by_label("second label map").fill(str(root / "scans/expert_labels.nii.gz"))
    page.get_by_role("button", name="Compare").click()
    page.get_by_text("Mean Dice of the two maps").wait_for()
    overlap = dice(labels, np.roll(labels, 1, 1), 19)[STRUCTURES.index("thalamus")]
    assert page.locator("tr", has_text="thalamus").locator("td.number").nth(2).inner_text() == f"{overlap:.3f}"
    layer = "document.querySelector('grid-view').view.layer"
    before = page.evaluate(layer)
    page.get_by_role("button", name="differences").click()
    page.wait_for_function(f"old => {layer} !== old", arg=before)
    page.wait_for_url("**show=differences*")
    page.get_by_label("second label map").fill("/etc/passwd")
    page.get_by_role("button", name="Compare").click()
    page.get_by_text("/etc/passwd is not in the folders of this studio").wait_for()


def test_a_link_restores_the_page(scans, open_page):
    address, root, _ = scans
    other = root / "scans/expert_labels.nii.gz"
    page = open_page(f"{address}/scans?x=8&y=9&z=10&structure=putamen&compare={other}&show=other&opacity=0.9")
    page.get_by_text("Mean Dice of the two maps").wait_for()
    assert page.locator("grid-view").nth(2).evaluate("element => element.view.cursor") == [20, 8]
    assert page.locator("button[aria-pressed=true]", has_text="putamen").count() == 1
    page.get_by_role("button", name="Copy command").click()
    assert f"--compare {other}" in page.locator(".studio-code:visible").inner_text()


def test_a_folder_that_is_deleted_and_a_map_that_breaks(scans, open_page):
    address, root, _ = scans
    folder = root / "more" / "result"
    make_results(root / "more", "first")
    make_results(root / "more", "second")
    page = open_page(f"{address}/scans?folder={folder}&scan=second")
    frame = page.locator("grid-view .frame").nth(2)
    frame.locator("img.base[src^='data:']").wait_for(state="attached")
    (folder / "second_labels.nii.gz").write_bytes(b"broken")
    frame.click(position={"x": 30, "y": 30})
    page.get_by_role("alert").filter(has_text="second_labels.nii.gz cannot be read as a scan").wait_for()
    page.get_by_role("combobox", name="scan").click()
    page.get_by_role("option", name="first").click()
    frame.locator("img.base[src^='data:']").wait_for(state="attached")
    shutil.rmtree(folder)
    frame.click(position={"x": 40, "y": 40})
    page.get_by_role("alert").filter(has_text="was it deleted").wait_for()
    page.reload()
    page.get_by_text(f"{folder} does not exist").wait_for()
    make_results(root / "more", "third")
    (folder / "qc" / "third.json").write_text(json.dumps({"scan": 3}))
    page.reload()
    page.get_by_text("has no record that can be read").wait_for()


def test_the_scan_itself_may_be_outside(scans, open_page, tmp_path):
    address, root, _ = scans
    make_results(root / "partial", scans=tmp_path)
    page = open_page(f"{address}/scans?folder={root}/partial/result")
    page.get_by_text("Only the labels are shown").wait_for()
    page.locator("grid-view img.layer[src^='data:']").first.wait_for(state="attached")
    assert page.locator("grid-view img.base[src^='data:']").count() == 0


def test_without_folders(studio, open_page):
    page = open_page(studio.rstrip("/") + "/scans")
    page.get_by_text("hardmax segment run scan.nii.gz --out result").wait_for()


@pytest.mark.slow
def test_without_nibabel(start_studio, open_page, tmp_path, monkeypatch):
    (tmp_path / "nibabel.py").write_text("raise ImportError('no nibabel')")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{':'.join(sys.path)}")
    page = open_page(start_studio(tmp_path).address.rstrip("/") + "/scans")
    page.get_by_text("pip install 'hardmax[imaging]'").wait_for()


_MEASURE_MEMORY = """
import sys
from pathlib import Path
from hardmax.studio.scan_views import ScanFiles, draw_planes, load_scan

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024

root = Path(sys.argv[1])
files = ScanFiles(root / "scan.nii", root / "labels.nii", root / "other_labels.nii")
before = peak()
for _ in range(8):
    (root / "scan.nii").touch()  # a changed file is read again
    scan = load_scan(lambda: None, files)
    draw_planes(lambda: None, scan, (100, 120, 140), "differences", None)
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_of_a_large_scan(tmp_path):
    """Of a scan of 256^3 voxels with two maps, 48 MB stay; reading it again does not add up."""
    generator = np.random.default_rng(0)
    affine = np.diag([1.0, 1.0, 1.0, 1.0])
    labels = generator.integers(0, 19, (32, 32, 32)).repeat(8, 0).repeat(8, 1).repeat(8, 2).astype(np.uint8)
    save_volume(tmp_path / "scan.nii", generator.integers(0, 900, labels.shape), affine, dtype=np.int16)
    save_volume(tmp_path / "labels.nii", labels, affine, dtype=np.uint8)
    save_volume(tmp_path / "other_labels.nii", np.roll(labels, 3, 0), affine, dtype=np.uint8)
    command = [sys.executable, "-c", _MEASURE_MEMORY, str(tmp_path)]
    growth = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert 48 < growth < 450
