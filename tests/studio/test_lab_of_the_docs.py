"""The gradient lab of the documentation: its script computes what the library does, from disk, without a server."""

import re
from pathlib import Path

import pytest
import torch

import hardmax as hm
from hardmax.studio.frame import STATIC

DOCS = Path(__file__).parents[2] / "docs"
SCORES, WORTHS = [0.5, 0, 1, -1, 0.2], torch.tensor([1.0, 0.5, -1, 2, 0])
SAMPLES = 4
DRAWS = 1000  # of the script


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    """The lab of the page, with its scripts, in a file."""
    text = (DOCS / "tutorials" / "gradient-lab.md").read_text(encoding="utf-8")
    lab = re.search(r'<div class="hm-lab".*</div>\n', text, re.DOTALL)[0]
    names = re.findall(r'<script src="../javascripts/([^"]*)"', text)
    folders = {"gradient_widgets.js": STATIC, "gradient-lab.js": DOCS / "javascripts"}
    scripts = "".join(f'<script src="{(folders[name] / name).as_uri()}"></script>' for name in names)
    file = tmp_path_factory.mktemp("docs") / "lab.html"
    file.write_text(f"<!doctype html><meta charset=utf-8><body>{lab}{scripts}", encoding="utf-8")
    page = browser.new_page()
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith("file:") else problems.append(request.url))
    page.goto(file.as_uri())
    page.locator("estimate-cloud svg").first.wait_for()
    yield page
    assert problems == []
    page.close()


def read_numbers(page):
    script = (
        "nodes => nodes.map(node => [node.dataset.name, Number(node.dataset.bias), Number(node.dataset.deviation)])"
    )
    return {name: numbers for name, *numbers in page.locator("[data-name]").evaluate_all(script)}


@pytest.mark.parametrize("space", ["categorical", "bits"])
def test_bias_and_deviation_are_those_of_diagnose(page, space):
    page.locator("[data-lab=space]").select_option(space)
    if space == "bits":
        scores, worth, kind = torch.tensor(SCORES[:4]), WORTHS[:4], hm.Binary(4)

        def f(z):
            return -((z * worth).sum(-1) - 1).square()

    else:
        scores, kind = torch.tensor(SCORES), hm.Categorical(5)
        roots = (WORTHS.max() - WORTHS).sqrt()

        def f(z):
            return WORTHS.max() - (z @ roots).square()

    estimators = {
        "direct": hm.Direct(1.0), "gumbel-softmax": hm.GumbelSoftmax(0.5), "straight-through": hm.StraightThrough(),
        "reinforce": hm.Reinforce("leave-one-out"),
    }  # fmt: skip
    diagnosis = hm.diagnose(
        f, scores, kind, estimators, draws=20_000, samples=SAMPLES, generator=torch.Generator().manual_seed(0)
    )
    shown = read_numbers(page)
    for row in diagnosis.rows:
        bias, deviation = shown[row.name]
        assert deviation == pytest.approx(row.deviation, rel=0.15)
        # The squared bias is estimated with an error of about its noise, and twice the product of bias and noise.
        noise = row.deviation / DRAWS**0.5
        assert abs(bias**2 - row.bias**2) < 6 * noise**2 + 6 * row.bias * noise
    exact = [float(value) for value in page.locator("component-chart").get_attribute("data-exact").split(",")]
    wide = scores.double().requires_grad_()
    hm.expectation(lambda z: f(z.float()).double(), wide, kind, hm.Exact()).value.backward()
    assert exact == pytest.approx(wide.grad.tolist(), abs=2e-6)


def test_bars_move_with_the_keyboard(page):
    before = page.locator("component-chart").get_attribute("data-exact")
    page.get_by_role("slider", name="Score 1").focus()
    page.keyboard.press("PageUp")
    assert page.locator("component-chart").get_attribute("data-exact") != before
    page.get_by_role("button", name="New noise").click()


def test_a_constant_f_is_a_sentence(page):
    page.locator("[data-lab=space]").select_option("bits")
    for i in range(4):
        page.get_by_role("slider", name=f"Worth {i + 1}").focus()
        page.keyboard.press("Home")  # all -3
        page.keyboard.press("PageUp")
        page.keyboard.press("PageUp")
        page.keyboard.press("PageUp")
    assert page.get_by_text("The exact gradient is zero.").count() == 4
