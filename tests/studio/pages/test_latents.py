"""The latent explorer, in a browser, on runs of every application."""

import contextlib
import shutil
import zlib
from base64 import urlsafe_b64encode
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from hardmax.applications.runs import load_run, read_run
from hardmax.report.sections import make_tile
from hardmax.studio.explorer.state import decode_state


def open_run(open_page, address, name, **options):
    """Open the explorer of a run, or the link to a state."""
    page = open_page(name if "://" in name else f"{address}latents?run={name}", **options)
    page.locator(".explorer-views h3").first.wait_for()
    return page


def read_image(page, view, number):
    """Return the address of an image: its number in a list of images, and the number of that list on the page."""
    return page.locator("image-tiles").nth(view).locator("img").nth(number).get_attribute("src")


def wait_for_image(page, source, view=0, number=2):
    page.wait_for_function(
        "([view, number, source]) => document.querySelectorAll('image-tiles')[view]?.querySelectorAll('img')[number]?"
        ".getAttribute('src') === source",
        arg=[view, number, source],
    )


def wait_for_change(page, before, view=0, number=2):
    page.wait_for_function(
        "([view, number, source]) => { const image = document.querySelectorAll('image-tiles')[view]?.querySelectorAll("
        "'img')[number]; return image && image.getAttribute('src') !== source; }",
        arg=[view, number, before],
    )


def test_a_flipped_bit_draws_the_image_that_the_decoder_gives(open_page, address, runs):
    page = open_run(open_page, address, "structured")
    model = load_run(runs / "structured").model
    buttons = page.locator(".explorer-toggle")
    bits = [float(button.get_attribute("aria-pressed") == "true") for button in buttons.all()]
    buttons.nth(1).click()
    bits[1] = 1 - bits[1]
    wait_for_image(page, make_tile(model.decode(torch.tensor([bits])), "").source)
    assert buttons.nth(1).get_attribute("aria-pressed") == str(bool(bits[1])).lower()
    # The image of a changed bit is the button that changes it; the keyboard does the same.
    page.locator("image-tiles").nth(1).locator("button").nth(0).focus()
    page.keyboard.press("Enter")
    bits[0] = 1 - bits[0]
    wait_for_image(page, make_tile(model.decode(torch.tensor([bits])), "").source)
    page.wait_for_function("location.search.includes('state=')")
    again = open_run(open_page, address, page.url)
    assert read_image(again, 0, 2) == read_image(page, 0, 2)
    assert [button.get_attribute("aria-pressed") == "true" for button in again.locator(".explorer-toggle").all()] == [
        bool(bit) for bit in bits
    ]


@pytest.mark.slow
def test_a_category_is_chosen_and_the_code_gives_the_same_image(open_page, address, runs):
    page = open_run(open_page, address, "discrete", width=400)
    model = load_run(runs / "discrete").model
    wanted = [make_tile(image[None], "").source for image in model.decode(torch.eye(5))]
    for category in (4, 0, 3):
        page.locator("probability-bars button").nth(category).click()
        wait_for_image(page, wanted[category])
    page.get_by_role("button", name="Copy as Python").click()
    code, names = page.locator(".studio-code").inner_text(), {}
    with contextlib.chdir(runs):
        exec(code, names)
    assert make_tile(names["image"], "").source == wanted[3]
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_a_hole_is_painted_with_mouse_and_keyboard(open_page, address):
    page = open_run(open_page, address, "completion")
    page.get_by_role("button", name="Clear").click()
    page.get_by_text("paint a hole").wait_for()
    canvas = page.locator("paint-grid canvas")
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 0.5 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 0.5 * box["height"], steps=3)
    page.mouse.up()
    page.wait_for_function("document.querySelectorAll('image-tiles img').length === 8")
    page.wait_for_function("location.search.includes('state=')")
    painted = sum(decode_state(page.url.split("state=")[1])["hole"])
    assert painted >= 4
    before = read_image(page, 0, 0)
    page.get_by_text("erase").click()
    page.wait_for_function("document.querySelector('paint-grid').value === 0")  # the server has set the brush
    canvas.focus()
    page.keyboard.press(" ")
    wait_for_change(page, before, number=0)
    assert "component" in page.locator("image-tiles").inner_text()


def test_tokens_are_painted_with_a_code_of_the_codebook(open_page, address, runs):
    page = open_run(open_page, address, "dvae")
    model = load_run(runs / "dvae").model
    codebook = page.locator("image-tiles").nth(1).locator("button")
    code = int(codebook.nth(2).locator("span").first.inner_text())
    codebook.nth(2).click()
    page.wait_for_function("document.querySelectorAll('image-tiles')[1].children[2].classList.contains('chosen')")
    canvas = page.locator("paint-grid canvas")
    height, width = model.grid
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    for column in range(width):
        page.mouse.click(box["x"] + (column + 0.5) / width * box["width"], box["y"] + 0.5 / height * box["height"])
    page.wait_for_function("location.search.includes('state=')")
    with contextlib.chdir(runs):
        tokens = model.tokenize(read_run(runs / "dvae").test_examples[:1])
    tokens[0, 0] = code
    wait_for_image(page, make_tile(model.detokenize(tokens), "").source)


def test_a_dropped_photo_is_searched_and_a_bomb_is_refused(open_page, address, tmp_path):
    page = open_run(open_page, address, "hashing")
    photo, bomb = tmp_path / "photo.png", tmp_path / "bomb.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (60, 80, 3), dtype=np.uint8)).save(photo)
    Image.new("1", (20_000, 20_000)).save(bomb)
    before = read_image(page, 0, 0)
    page.locator("input[type=file]").set_input_files(bomb)
    message = page.get_by_text("the file cannot be read as an image")
    message.wait_for()
    assert "pixels" in message.inner_text()
    assert read_image(page, 0, 0) == before
    page.locator("input[type=file]").set_input_files(photo)
    wait_for_change(page, before, number=0)
    page.get_by_role("button", name="next image to search for").click()


def test_another_token_samples_the_rest_again(open_page, address):
    page = open_run(open_page, address, "sequence-gan")
    tokens = page.locator("token-row button")
    before = tokens.all_inner_texts()
    tokens.nth(2).click()
    page.get_by_text("q(token 3 | the tokens before it)").wait_for()
    other = page.locator("probability-bars button:not(.chosen)").first
    name = other.locator(".name").inner_text()
    other.click()
    page.wait_for_function(
        "name => document.querySelector('token-row').children[2].innerText.startsWith(name)", arg=name
    )
    after = tokens.all_inner_texts()
    assert after[:2] == before[:2]


def test_a_run_that_is_deleted_or_broken_is_a_sentence(open_page, address, runs):
    shutil.copytree(runs / "discrete", runs / "deleted")
    page = open_run(open_page, address, "deleted")
    shutil.rmtree(runs / "deleted")
    before = read_image(page, 0, 2)
    page.locator("probability-bars button:not(.chosen)").first.click()
    wait_for_change(page, before)  # the model is in memory
    page.reload()
    page.get_by_role("alert").filter(has_text="it may have been deleted").wait_for()
    shutil.copytree(runs / "discrete", runs / "broken")
    for file in (runs / "broken").glob("checkpoint-*/model.safetensors"):
        file.write_bytes(file.read_bytes()[:100])
    page = open_page(address + "latents?run=broken")
    page.get_by_role("alert").filter(has_text="cannot be read").wait_for()
    shutil.rmtree(runs / "broken")


def pack(text):
    return "discrete&state=" + urlsafe_b64encode(zlib.compress(text)).decode()


@pytest.mark.parametrize(
    "query",
    ["../..", "/etc", "gaussian-vae", "discrete&state=x", pack(b"[" * 2_000_000)],
    ids=["above", "outside", "no run", "damaged", "bomb"],
)
def test_a_link_from_anyone_is_refused_with_a_sentence(open_page, address, query):
    open_page(f"{address}latents?run={query}").get_by_role("alert").wait_for()


def test_values_of_a_link_that_are_not_valid_become_the_default(open_page, address):
    page = open_page(address + "latents?run=" + pack(b'{"code": [7], "image": -1}'))
    page.locator("image-tiles img").first.wait_for()
    assert page.get_by_role("alert").count() == 0


@pytest.mark.slow
def test_two_browsers_and_a_hundred_quick_moves_end_in_the_last_state(open_page, start_studio, runs):
    """No traceback (see `open_page`), the last move wins in each, and memory is bounded."""
    running = start_studio(runs, folder=runs)
    first, second = (open_run(open_page, running.address, "mixed") for _ in range(2))

    def get_megabytes():
        text = Path(f"/proc/{running.process.pid}/status").read_text()
        return int(next(line for line in text.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024

    def move(page, count):
        slider = page.locator(".explorer-sliders .q-slider").first
        box = slider.bounding_box()
        y = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + 5, y)
        page.mouse.down()
        for i in range(count):
            page.mouse.move(box["x"] + 5 + (box["width"] - 10) * ((7 * i) % 50) / 50, y)
        page.mouse.move(box["x"] + box["width"] + 30, y)
        page.mouse.up()
        page.wait_for_function("document.querySelector('.explorer-sliders .value').innerText === '3.00'")
        page.wait_for_function("!document.querySelector('.explorer-busy')")

    move(first, 100)
    move(second, 100)
    before = get_megabytes()
    for _ in range(3):
        move(first, 100)
        move(second, 100)
    assert get_megabytes() < before + 30
    assert read_image(first, 0, 2) == read_image(second, 0, 2)
    second.locator("probability-bars button:not(.chosen)").first.click()
    wait_for_change(second, read_image(first, 0, 2))
    assert running.process.poll() is None
