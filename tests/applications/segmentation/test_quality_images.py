"""The quality image of a segmentation, and the HTML page."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from applications.segmentation.heads import ORIENTATIONS, make_anatomy, make_head, reorder_voxels, world_points
from PIL import Image

from hardmax.applications.segmentation.results.page import render_page, write_page
from hardmax.applications.segmentation.results.quality_images import choose_slices, write_quality_image
from hardmax.applications.segmentation.results.tables import Result
from hardmax.applications.segmentation.volumes.agreement import compare_maps
from hardmax.applications.segmentation.volumes.geometry import Grid
from hardmax.applications.segmentation.volumes.labels import STRUCTURES
from hardmax.applications.segmentation.volumes.reading import Volume
from hardmax.applications.segmentation.volumes.scans import Scan


def draw(path, values, affine, labels, **options):
    scan = Volume(values.astype(np.float32), Grid(values.shape, affine))
    write_quality_image(path, scan, labels, STRUCTURES, title="a scan", **options)
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB")).astype(int)


def count_near(image, colour):
    """Return the number of pixels of about that colour."""
    return int((np.abs(image - np.array(colour)).max(-1) < 40).sum())


@pytest.fixture(scope="module")
def upright(tmp_path_factory):
    values, affine = make_head()
    labels = make_anatomy(world_points(values.shape, affine), values)
    return values, affine, labels, draw(tmp_path_factory.mktemp("qc") / "a.png", values, affine, labels)


def test_outlines_and_legend(upright):
    image = upright[-1]
    assert image.shape[1] > 800
    assert count_near(image, (205, 95, 105)) > 100  # the cortex, made lighter
    legend = image[:, -345:]
    assert count_near(legend, (205, 95, 105)) > 40
    assert count_near(legend, (232, 234, 237)) > 500  # names and numbers


@pytest.mark.parametrize(("order", "flips"), ORIENTATIONS[5::11])
def test_the_image_does_not_depend_on_the_header(order, flips, upright, tmp_path):
    values, affine, labels, image = upright
    stored, header = reorder_voxels(values, affine, order, flips)
    again = draw(tmp_path / "b.png", stored, header, reorder_voxels(labels, affine, order, flips)[0])
    assert np.array_equal(again, image)


def test_a_flipped_scan_gives_another_image(upright, tmp_path):
    values, affine, labels, image = upright
    again = draw(tmp_path / "b.png", values[::-1], affine, labels[::-1])
    assert again.shape != image.shape or not np.array_equal(again, image)


def test_thick_slices_have_true_proportions(tmp_path):
    values, affine = make_head((30, 30, 8), spacing=(1.5, 1.5, 6.0))
    labels = make_anatomy(world_points(values.shape, affine), values)
    image = draw(tmp_path / "a.png", values, affine, labels)
    coronal = image[image.shape[0] // 2 :]
    assert coronal.shape[0] > 250
    cubes, straight = make_head((30, 30, 32), spacing=(1.5, 1.5, 1.5))
    same = draw(tmp_path / "b.png", cubes, straight, make_anatomy(world_points(cubes.shape, straight), cubes))
    assert abs(same.shape[0] / same.shape[1] - image.shape[0] / image.shape[1]) < 0.15


def test_flags_are_shown_and_long_ones_broken(upright, tmp_path):
    values, affine, labels, image = upright
    short = draw(tmp_path / "a.png", values, affine, labels, flag="doubtful")
    long = draw(tmp_path / "b.png", values, affine, labels, flag="This scan is very doubtful. " * 12)
    assert count_near(image, (255, 157, 107)) < count_near(short, (255, 157, 107)) < count_near(long, (255, 157, 107))
    assert image.shape[0] < short.shape[0] < long.shape[0]
    assert short.shape[1] == long.shape[1]


def test_nothing_was_found(tmp_path):
    values, affine = make_head()
    image = draw(tmp_path / "a.png", values, affine, np.zeros(values.shape, int))
    assert count_near(image[:, -290:], (255, 157, 107)) > 50


def test_slices_show_what_is_small():
    labels = np.zeros((40, 10, 10), int)
    labels[5:35] = 1
    labels[12, 4:6, 4:6] = 2
    labels[30, 3, 3] = 3
    assert choose_slices(labels, 0, apart=3, count=4) == [12, 30]
    first, second = choose_slices(labels, 0, apart=25, count=4)
    assert second - first >= 25 or {first, second} & {12, 30}
    assert choose_slices(np.zeros((9, 3, 3), int), 0, 2, 4) == [3, 6]
    assert len(choose_slices(labels[12:13], 0, apart=5, count=4)) == 2


class _Page(HTMLParser):
    """Collects tags and text, and checks that tags are closed."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.text = [], [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_page(upright, tmp_path):
    values, affine, labels, _ = upright
    grid = Grid(values.shape, affine)
    draw(tmp_path / "a.png", values, affine, labels)
    sizes = np.linspace(0, 360_000, 19)
    true = np.where(labels == 3, 0, labels)
    results = [
        Result(
            Scan(tmp_path / "a<b>.nii.gz", "a<b>"), model="the model M", volumes=sizes, log_likelihood=-2.0,
            seconds=12.3, notes=("a note & more",), agreement=compare_maps(labels, true, grid, STRUCTURES),
            image=tmp_path / "a.png",
        ),
        Result(Scan(tmp_path / "c", "c"), volumes=sizes, log_likelihood=-9.0, seconds=1.0, flags=("Low likelihood.",)),
        Result(Scan(tmp_path / "d", "d"), error="it is broken"),
    ]  # fmt: skip
    write_page(tmp_path / "index.html", results, STRUCTURES)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    parsed = _Page(page)
    text = " ".join(" ".join(parsed.text).split())
    assert "a<b>" in text
    assert "a note & more" in text
    assert "2 are doubtful" in text
    for words in ("Low likelihood.", "it is broken", "Not a medical device", "cerebral white matter", "the model M"):
        assert words in text
    images = [attributes for tag, attributes in parsed.tags if tag == "img"]
    assert len(images) == 1
    assert images[0]["src"].startswith("data:image/jpeg;base64,")
    # One file: nothing is fetched from anywhere.
    assert not re.search(r"(src|href)=\"(?!data:|#)", page)
    assert "url(" not in page
    assert "@import" not in page


def test_page_without_a_truth(tmp_path):
    results = [Result(Scan(tmp_path / "c", "c"), volumes=np.ones(19), log_likelihood=-1.0, seconds=1.0)]
    text = " ".join(_Page(render_page(results, STRUCTURES)).text)
    assert "Dice" not in text
    assert "1 scan segmented" in " ".join(text.split())
    assert "doubtful" not in text
