"""The solver lab in a browser: paint, and see the decision and the gradient change as the library says."""

import os
import sys
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest
import torch
from PIL import Image

from hardmax.studio.page_state import read_state, write_state
from hardmax.studio.solver.encoding import decode_strokes, round_values
from hardmax.studio.solver.image_cut import cut_image, draw_strokes, read_sample, score_pixels
from hardmax.studio.solver.problems import PROBLEMS, estimate_gradient, solve_problem, take_step
from hardmax.studio.solver.state import SolverState, make_setting, store_grids


def read_address(page):
    return read_state(SolverState, dict(parse_qsl(urlsplit(page.url).query)))


def find_place(frame, row, column, size):
    box = frame.bounding_box()
    return box["x"] + box["width"] * (column + 0.5) / size, box["y"] + box["height"] * (row + 0.5) / size


def wait_for_numbers(page, state):
    """Wait until the page shows the decisions of a state: their value, worth and mean worth."""
    setting = make_setting(state)
    solution = solve_problem(setting)
    worth = float((solution.z * setting.worth).sum())
    page.wait_for_function(
        "parts => parts.every((part) => document.querySelector('[role=status]').innerText.includes(part))",
        arg=[f" {solution.value:.4g}, worth {worth:g}.", f" is {solution.worth:.2f}."],
    )


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_page_shows_the_numbers_of_the_library(studio, open_page, problem):
    page = open_page(f"{studio}solver?problem={problem}&seed=2")
    state = SolverState(problem, seed=2)
    wait_for_numbers(page, state)
    gradient = estimate_gradient(make_setting(state))
    page.locator("[role=status]").nth(1).filter(has_text=f"Length {float(gradient.gradient.norm()):.3g}").wait_for()
    row, column = divmod(int(gradient.gradient.abs().argmax()), state.rows)
    frame = page.locator("grid-view .frame").nth(1)
    page.mouse.click(*find_place(frame, row, column, state.rows))
    page.get_by_text(f"gradient {float(gradient.gradient[row, column]):.4g}").wait_for()


def wait_for_address(page, state):
    """Wait until the link of the page holds a state."""
    page.wait_for_function("query => location.search === '?' + query", arg=write_state(state))
    assert read_address(page) == state


def test_painting_moves_the_path(studio, open_page):
    """A wall of water with the mouse, and a gap in it with the keyboard."""
    page = open_page(f"{studio}solver?size=8")
    state = SolverState(size=8)
    wait_for_numbers(page, state)
    frame = page.locator("grid-view .frame").first
    page.mouse.move(*find_place(frame, 4, 0, 8))
    page.mouse.down()
    page.mouse.move(*find_place(frame, 4, 7, 8), steps=2)  # too few events for the cells between
    page.mouse.up()
    setting = make_setting(state)
    values = setting.values.clone()
    values[4] = 9.0
    state = store_grids(state, values, setting.worth)
    wait_for_numbers(page, state)
    wait_for_address(page, state)
    page.get_by_role("combobox", name="brush").click()
    page.get_by_role("option", name="grass (1)").click()
    frame.focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press(" ")
    values[4, 4] = 1.0
    state = store_grids(state, values, setting.worth)
    wait_for_numbers(page, state)
    wait_for_address(page, state)
    assert solve_problem(make_setting(state)).z[4, 4] == 1


def test_worth_steps_and_the_link(studio, open_page):
    page = open_page(f"{studio}solver?problem=matching&size=5&noise=1&step=4")
    state = SolverState("matching", size=5, noise=1.0, step=4.0)
    wait_for_numbers(page, state)
    page.get_by_role("button", name="Worth", exact=True).click()
    page.get_by_role("button", name="Clear").click()
    values = make_setting(state).values
    worth = torch.zeros(5, 5)
    wait_for_numbers(page, store_grids(state, values, worth))
    page.get_by_role("combobox", name="brush").click()
    page.get_by_role("option", name="wanted (1)").click()
    page.mouse.click(*find_place(page.locator("grid-view .frame").first, 0, 3, 5))
    worth[0, 3] = 1
    state = store_grids(state, values, worth)
    wait_for_numbers(page, state)
    first = solve_problem(make_setting(state)).worth
    for _ in range(3):
        setting = make_setting(state)
        stepped = round_values(take_step(setting, estimate_gradient(setting).gradient).numpy())
        state = store_grids(state, torch.from_numpy(stepped), worth)
        page.get_by_role("button", name="Take a step").click()
        wait_for_numbers(page, state)
        wait_for_address(page, state)
    assert solve_problem(make_setting(state)).worth > first + 0.1
    other = open_page(page.url)
    wait_for_numbers(other, state)
    other.get_by_role("button", name="Copy as Python").click()
    assert "hm.Permutation(5)" in other.locator(".studio-code:visible").inner_text()


def test_estimators_follow_the_problem(studio, open_page):
    page = open_page(f"{studio}solver?estimator=GibbsCovariance&monotone=true")
    wait_for_numbers(page, SolverState(monotone=True))
    page.get_by_role("switch", name="only right and down").click()
    wait_for_numbers(page, SolverState())
    page.wait_for_function("!location.search.includes('GibbsCovariance')")
    page.get_by_role("button", name="Minimum cut").click()
    wait_for_numbers(page, SolverState("cut"))
    page.get_by_role("combobox", name="estimator").click()
    page.get_by_role("option", name="IdentityBackward").wait_for()
    names = page.get_by_role("option").all_inner_texts()
    assert names == ["ImplicitMLE", "Direct", "Blackbox", "IdentityBackward"]


def test_strokes_cut_out_an_object(studio, open_page, tmp_path):
    """An image of the user: two strokes give the mask that the library computes."""
    pixels = np.full((90, 120, 3), 60, np.uint8)
    pixels[20:70, 30:90] = (200, 90, 40)
    pixels += np.random.default_rng(0).integers(0, 30, pixels.shape).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    page = open_page(f"{studio}solver?problem=image&perturbed=false")
    page.get_by_text("pixels are of the object").wait_for()
    page.locator("input[type=file]").set_input_files(tmp_path / "photo.png")
    page.get_by_text("Paint a stroke on the object and one on the background.").wait_for()
    frame = page.locator("grid-view .frame").first
    assert frame.evaluate("element => element.style.aspectRatio").startswith("1.333")

    def paint(*places):
        box = frame.bounding_box()
        points = [(box["x"] + box["width"] * x / 120, box["y"] + box["height"] * y / 90) for x, y in places]
        page.mouse.move(*points[0])
        page.mouse.down()
        for point in points[1:]:
            page.mouse.move(*point, steps=4)
        page.mouse.up()

    paint((45, 45), (75, 45))
    page.get_by_text("Paint a stroke on the background.").wait_for()
    page.get_by_role("button", name="background").click()
    paint((10, 10), (10, 80))
    page.get_by_text("3,000 of 10,800 pixels are of the object (28%).").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download mask").click()
    mask = np.asarray(Image.open(download.value.path()))
    inside = np.zeros((90, 120), bool)
    inside[20:70, 30:90] = True
    assert (mask == inside).all()
    page.get_by_role("button", name="Copy as Python").click()
    assert 'read_photo("photo.png")' in page.locator(".studio-code:visible").inner_text()


def test_strokes_on_the_terrain_are_in_the_link(studio, open_page):
    page = open_page(f"{studio}solver?problem=image&perturbed=false&edges=2")
    page.get_by_text("pixels are of the object").wait_for()
    page.get_by_role("button", name="Clear").click()
    page.get_by_text("Paint a stroke on the object and one on the background.").wait_for()
    frame = page.locator("grid-view .frame").first
    frame.focus()
    for _ in range(5):
        page.keyboard.press("Shift+ArrowDown")  # paints while it moves
    page.wait_for_url("**strokes=*")
    page.get_by_role("button", name="background").click()
    box = frame.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.get_by_text("pixels are of the object").wait_for()
    state = read_address(page)
    strokes = decode_strokes(state.strokes)
    assert [stroke.kind for stroke in strokes] == [1, 1, 1, 1, 1, -1]
    assert [stroke.points for stroke in strokes[:2]] == [((1, 0),), ((2, 0),)]
    pixels = read_sample("terrain")
    mask = cut_image(score_pixels(pixels, draw_strokes(strokes, 192, 192), coupling=2.0), 192, 192)
    page.get_by_text(f"{mask.sum():,} of 36,864 pixels").wait_for()
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("Paint a stroke on the background.").wait_for()


def test_uploads_that_are_refused(studio, open_page, tmp_path):
    page = open_page(f"{studio}solver?problem=image&perturbed=false")
    page.get_by_text("pixels are of the object").wait_for()
    (tmp_path / "broken.png").write_bytes(b"no image")
    page.locator("input[type=file]").set_input_files(tmp_path / "broken.png")
    page.get_by_text("cannot be read as an image").wait_for()
    Image.new("1", (20_000, 20_000)).save(tmp_path / "bomb.png")
    page.locator("input[type=file]").set_input_files(tmp_path / "bomb.png")
    page.get_by_text("decompression bomb").wait_for()


def test_a_broken_link_is_a_sentence(studio, open_page):
    for query, message in (
        ("values=AAAA", "the link is broken"),
        ("problem=image&strokes=AAAA", "the link is broken"),
        ("size=99", "size must be 2 to 32, got 99"),
    ):
        page = open_page(f"{studio}solver?{query}")
        page.get_by_role("alert").filter(has_text=message).wait_for()


def read_memory(process):
    """Resident memory of a process, in MB."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_two_browsers_with_a_hundred_strokes_each(start_studio, open_page):
    """Both end with the numbers of what was painted, and the memory of the server stays within a bound."""
    running = start_studio()
    pages = [open_page(f"{running.address}solver?problem=cut&size=24") for _ in range(2)]
    for page in pages:
        wait_for_numbers(page, SolverState("cut", size=24))
    frames = [page.locator("grid-view .frame").first for page in pages]
    values = make_setting(SolverState("cut", size=24)).values.clone()
    before = None
    for stroke in range(100):
        for page, frame in zip(pages, frames, strict=True):
            page.mouse.move(*find_place(frame, stroke % 24, 2, 24))
            page.mouse.down()
            page.mouse.move(*find_place(frame, stroke % 24, 6, 24))
            page.mouse.up()
        if stroke == 20:
            before = read_memory(running.process)
    values[:, 2:7] = 4.0  # the brush that is chosen first
    state = SolverState("cut", size=24)
    state = store_grids(state, values, make_setting(state).worth)
    for page in pages:
        wait_for_numbers(page, state)
    assert read_memory(running.process) - before < 100
