"""Cuts of images: strokes, scores against brute force, and the image that the page begins with."""

import contextlib
import io

import numpy as np
import pytest
import torch
from PIL import Image

import hardmax as hm
from hardmax.data.terrain import TERRAINS, generate_maps
from hardmax.errors import ArgumentError, DataError
from hardmax.studio.solver.examples import STROKES
from hardmax.studio.solver.image_cut import (
    SAMPLES,
    Stroke,
    cut_image,
    draw_strokes,
    read_photo,
    read_sample,
    sample_cuts,
    score_pixels,
    thin_points,
)
from hardmax.studio.solver.program import write_cut_code


def test_strokes_cover_what_is_near_their_line():
    marks = draw_strokes([Stroke(1, 2.0, ((5, 3), (5, 12), (9, 12))), Stroke(-1, 1.0, ((0, 0),))], 12, 16)
    rows, columns = np.mgrid[:12, :16]
    horizontal = np.hypot(rows - 5, np.maximum(np.maximum(3 - columns, columns - 12), 0))
    vertical = np.hypot(columns - 12, np.maximum(np.maximum(5 - rows, rows - 9), 0))
    expected = (np.minimum(horizontal, vertical) <= 2).astype(int) - (np.hypot(rows, columns) <= 1)
    assert (marks == expected).all()
    assert not draw_strokes([Stroke(1, 3.0, ((5, 5),)), Stroke(0, 9.0, ((5, 5),))], 12, 16).any()
    assert not draw_strokes([Stroke(1, 1.0, ((40, 40), (50, 60)))], 12, 16).any()  # outside


def test_thin_strokes_cover_the_same():
    angle = np.linspace(0, 6, 400)
    points = np.round(60 + np.stack([40 * np.sin(angle), 45 * np.cos(angle)], 1)).astype(int)
    points = [(int(row), int(column)) for row, column in points]
    thin = thin_points(points, 2.0)
    assert len(thin) < 0.6 * len(set(points))
    assert {thin[0], thin[-1]} == {points[0], points[-1]}
    full, some = (draw_strokes([Stroke(1, 4.0, tuple(each))], 120, 120) for each in (points, thin))
    assert (full != some).sum() < 0.05 * full.sum()  # at the border
    assert thin_points([(3, 4)], 5.0) == ((3, 4),)


def test_the_mask_is_the_best_of_all():
    """Of all 2^12 masks of an image, the energy of the docstring is largest at the cut."""
    pixels = np.random.default_rng(0).integers(0, 256, (3, 4, 3)).astype(np.uint8)
    pixels[:, 2:] //= 2
    marks = np.zeros((3, 4), np.int8)
    marks[0, 0], marks[2, 3] = 1, -1
    scores = score_pixels(pixels, marks, coupling=3.0, trust=0.7)
    masks = ((np.arange(2**12)[:, None] >> np.arange(12)) & 1).reshape(-1, 3, 4)
    x = pixels.astype(float)
    squares = [np.square(np.diff(x, axis=axis)).sum(-1) for axis in (0, 1)]
    scale = 2 * np.concatenate([part.ravel() for part in squares]).mean()
    agreement = sum(
        (3.0 * np.exp(-part / scale) * (np.diff(masks, axis=axis + 1) == 0)).sum((1, 2))
        for axis, part in enumerate(squares)
    )
    fits = (masks[:, 0, 0] == 1) & (masks[:, 2, 3] == 0)
    space = hm.PairwiseBinary.grid(3, 4, supermodular=True)
    # The colour scores, from the unary scores and the couplings of the result.
    z = torch.from_numpy(masks.reshape(-1, 12)).double()
    energy = space.dot(scores, space.statistics(z)).numpy()
    best = masks[energy.argmax()]
    assert (cut_image(scores, 3, 4) == best).all()
    assert fits[energy.argmax()]
    # Between masks that differ in one pixel without a stroke, the difference of agreement is in the energy.
    unary = (energy - agreement) - (energy - agreement)[0]
    single = np.array([unary[2**i] for i in range(12)])
    np.testing.assert_allclose(unary, masks.reshape(-1, 12) @ single, atol=0.1)  # scores are rounded to 1/256
    assert single[0] > 900
    assert single[11] < -900


def test_colours_decide_without_edges():
    """Without couplings, each pixel goes to the side on whose strokes its colour is more frequent."""
    pixels = np.zeros((2, 8, 3), np.uint8)
    pixels[:, ::2, 0] = 240
    marks = np.zeros((2, 8), np.int8)
    marks[0, 0], marks[0, 1] = 1, -1
    mask = cut_image(score_pixels(pixels, marks, coupling=0.0), 2, 8)
    assert (mask == (pixels[..., 0] > 0)).all()
    one_sided = cut_image(score_pixels(pixels, np.maximum(marks, 0)), 2, 8)
    assert one_sided.all()  # no background: all pixels agree with the stroke


def test_the_strokes_on_the_terrain_cut_out_the_water():
    pixels = read_sample("terrain")
    height, width, _ = pixels.shape
    mask = cut_image(score_pixels(pixels, draw_strokes(STROKES["terrain"], height, width)), height, width)
    costs = generate_maps({"train": 1, "validation": 1, "test": 7}, cells=24, seed=0).costs["test"][6].numpy()
    water = (costs == TERRAINS["water"].cost).repeat(8, 0).repeat(8, 1)
    assert (mask != water).mean() < 0.02


def test_cuts_with_noise_are_certain_inside():
    pixels = read_sample("terrain")[:64, :64]
    marks = draw_strokes([Stroke(1, 3.0, ((30, 20),)), Stroke(-1, 3.0, ((10, 52),))], 64, 64)
    shares = sample_cuts(score_pixels(pixels, marks), 64, 64, samples=8)
    assert (shares[marks == 1] == 1).all()
    assert (shares[marks == -1] == 0).all()
    assert ((shares > 0) & (shares < 1)).any()


def test_sharp_edges_do_not_lead_to_exact_arithmetic():
    """exp(-100) next to scores of 1000: the solver is still the fast one."""
    pixels = np.zeros((64, 64, 3), np.uint8)
    pixels[:, 32:] = 255
    pixels[0] = np.random.default_rng(0).integers(0, 3, (64, 3))
    marks = draw_strokes([Stroke(1, 2.0, ((30, 10),)), Stroke(-1, 2.0, ((30, 50),))], 64, 64)
    scores = score_pixels(pixels, marks)
    solution = hm.PairwiseBinary.grid(64, 64, supermodular=True).solve(scores)
    assert "exact arithmetic" not in solution.solver
    assert solution.is_exact
    assert (cut_image(scores, 64, 64)[1:, :32]).all()


def test_photos_are_scaled_down_and_never_up(tmp_path):
    Image.new("L", (1000, 500), 77).save(tmp_path / "large.png")
    Image.new("RGBA", (20, 30), (1, 2, 3, 255)).save(tmp_path / "small.png")
    assert read_photo(tmp_path / "large.png").shape == (120, 240, 3)
    assert read_photo(tmp_path / "small.png").shape == (30, 20, 3)
    (tmp_path / "broken.png").write_bytes(b"x")
    with pytest.raises(DataError, match="not in an image's format"):
        read_photo(tmp_path / "broken.png")


@pytest.mark.parametrize("name", SAMPLES)
def test_samples(name):
    pixels = read_sample(name)
    marks = draw_strokes(STROKES[name], *pixels.shape[:2])
    assert {*np.unique(marks)} == {-1, 0, 1}
    assert pixels.shape[0] * pixels.shape[1] < 2**16


def test_the_program_cuts_the_same_mask(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Image.fromarray(read_sample("terrain")).save("photo.png")
    strokes = STROKES["terrain"]
    expected = cut_image(
        score_pixels(read_sample("terrain"), draw_strokes(strokes, 192, 192), coupling=5.0, trust=0.5), 192, 192
    )
    for source in ('read_sample("terrain")', 'read_photo("photo.png")'):
        with contextlib.redirect_stdout(io.StringIO()):
            exec(write_cut_code(source, strokes, coupling=5.0, trust=0.5), {})
        assert (np.asarray(Image.open("mask.png")) == expected).all()


def test_errors():
    with pytest.raises(ArgumentError, match="there is no image 'cat'; there are: terrain, portrait"):
        read_sample("cat")
    pixels = np.zeros((4, 4, 3), np.uint8)
    with pytest.raises(ArgumentError, match="at least zero, got -1"):
        score_pixels(pixels, np.zeros((4, 4), np.int8), coupling=-1.0)
    with pytest.raises(ArgumentError, match="at most 65,536 pixels"):
        score_pixels(np.zeros((300, 300, 3), np.uint8), np.zeros((300, 300), np.int8))
