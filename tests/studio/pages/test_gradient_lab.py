"""The gradient lab in a browser."""

import time
import urllib.parse

import pytest
import torch

import hardmax as hm
from hardmax.studio.gradients.state import SPACES, LabState
from hardmax.studio.page_state import read_state

MEASURED = "document.querySelector('component-chart')?.dataset.exact"


def compute_gradient(state):
    """Return the exact gradient for one categorical variable, by `Exact()`, with f written again."""
    worth, scores = torch.tensor(state.worth), torch.tensor(state.scores, requires_grad=True)
    roots = (worth.max() - worth).sqrt()
    hm.expectation(lambda z: -(z @ roots).square(), scores, hm.Categorical(state.size), hm.Exact()).value.backward()
    return scores.grad


def read_gradient(page):
    return torch.tensor([float(value) for value in page.evaluate(MEASURED).split(",")])


def read_address(page):
    return read_state(
        LabState, dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(page.url).query, keep_blank_values=True))
    )


def wait_for_change(page, before):
    page.wait_for_function(f"before => {MEASURED} !== before", arg=before)


@pytest.fixture
def lab(studio, open_page):
    """The page, once it shows measurements."""

    def open_lab(query="", **options):
        page = open_page(f"{studio}gradient{query}", **options)
        page.wait_for_function(MEASURED)
        return page

    return open_lab


def test_dragging_a_score_changes_the_exact_gradient_to_that_of_exact(lab):
    page = lab()
    torch.testing.assert_close(read_gradient(page), compute_gradient(LabState()), atol=2e-6, rtol=0)
    before = page.evaluate(MEASURED)
    box = page.get_by_role("slider", name="Score 2").bounding_box()
    x = box["x"] + box["width"] / 2
    page.mouse.move(x, box["y"] + box["height"] / 2)
    page.mouse.down()
    for step in range(10):
        page.mouse.move(x, box["y"] + box["height"] / 2 - 3 * step)
    page.mouse.up()
    wait_for_change(page, before)
    value = page.get_by_role("slider", name="Score 2").get_attribute("aria-valuenow")
    assert float(value) > 0.5
    page.wait_for_function("value => location.search.includes(`scores=0.5,${value},`)", arg=value)
    state = read_address(page)
    expected = compute_gradient(state)
    wanted = ",".join(f"{value:.3f}" for value in expected)
    page.wait_for_function(
        f"wanted => {MEASURED}.split(',').map(x => Number(x).toFixed(3)).join(',') === wanted", arg=wanted
    )
    torch.testing.assert_close(read_gradient(page), expected, atol=2e-6, rtol=0)


def test_bars_move_with_the_keyboard_and_the_link_restores_them(lab):
    page = lab()
    slider = page.get_by_role("slider", name="Worth 3")
    slider.focus()
    before = page.evaluate(MEASURED)
    for key in ("ArrowUp", "ArrowUp", "PageUp", "ArrowDown"):
        page.keyboard.press(key)
    assert slider.get_attribute("aria-valuenow") == "0.1"
    wait_for_change(page, before)
    page.wait_for_function("location.search.includes('0.1')")
    shown = read_gradient(page)
    other = lab(urllib.parse.urlsplit(page.url)._replace(scheme="", netloc="", path="").geturl())
    assert other.get_by_role("slider", name="Worth 3").get_attribute("aria-valuenow") == "0.1"
    page.wait_for_function(f"values => {MEASURED} === values", arg=other.evaluate(MEASURED))
    torch.testing.assert_close(read_gradient(other), compute_gradient(read_address(page)), atol=2e-6, rtol=0)
    assert len(shown) == 5


def test_the_page_shows_the_numbers_of_diagnose(lab):
    page = lab("?estimators=exact,reinforce,gumbel-softmax:0.5&samples=3&draws=300")
    page.locator("table.plain tbody tr").nth(2).wait_for()
    cells = page.locator("table.plain tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.innerText))"
    )
    worth = torch.tensor(LabState().worth)
    roots = (worth.max() - worth).sqrt()
    diagnosis = hm.diagnose(
        lambda z: worth.max() - (z @ roots).square(), torch.tensor(LabState().scores), hm.Categorical(5),
        [hm.Exact(), hm.Reinforce("leave-one-out"), hm.GumbelSoftmax(0.5)],
        draws=300, samples=3, generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    for row in diagnosis.rows:
        shown = next(values for values in cells if values[0].startswith(type(row.estimator).__name__))
        assert shown[1:4] == ["3", f"{row.evaluations:.3g}", f"{row.solves:.3g}"]
        assert shown[4].strip("()") == ("0" if row.bias < 1e-5 else f"{row.bias:.2g}")
        assert shown[6] == ("0" if row.deviation < 1e-5 else f"{row.deviation:.2g}")


def test_estimators_are_added_and_removed_and_refusals_are_explained(lab):
    page = lab("?space=pairwise&estimators=straight-through,reinforce")
    page.get_by_text("needs a space whose z has the shape of its scores").wait_for()
    page.get_by_role("button", name="Remove straight-through").click()
    page.get_by_label("Add an estimator").click()
    page.get_by_role("option", name="gibbs-covariance").click()
    page.locator("section[aria-label=gibbs-covariance] estimate-cloud svg").wait_for()
    assert page.locator("section.lab-card").count() == 2
    page.wait_for_function("location.search.includes('gibbs-covariance')")
    assert read_address(page).estimators == ("reinforce", "gibbs-covariance")


@pytest.mark.parametrize("space", SPACES)
def test_every_space_is_shown(lab, space):
    page = lab("?estimators=reinforce,direct:2")
    before = page.evaluate(MEASURED)
    if space != "categorical":
        page.get_by_label("Space", exact=True).click()
        page.get_by_role("option", name=SPACES[space]).click()
        wait_for_change(page, before)
    page.wait_for_function(f"count => {MEASURED}.split(',').length === count", arg=LabState(space=space).score_count)
    page.locator("section[aria-label=direct] estimate-cloud svg").wait_for()
    page.locator("ladder-chart svg").first.wait_for()
    page.get_by_role("button", name="Next step").click()
    assert page.locator("direct-steps").get_attribute("data-step") == "1"


def test_an_invalid_address_is_a_sentence_in_the_page(studio, open_page):
    page = open_page(f"{studio}gradient?size=1000")
    assert "size must be between 2 and 12, got 1000" in page.get_by_role("alert").inner_text()


def test_a_constant_f_is_a_sentence_in_the_page(lab):
    page = lab("?worth=1,1,1,1,1")
    page.get_by_text("is zero; errors cannot be relative to it").wait_for()


def test_copied_code_is_that_of_the_page(lab):
    page = lab("?space=bits&estimators=exact")
    page.get_by_role("button", name="Copy as Python").click()
    page.wait_for_function("document.querySelector('.studio-code')?.textContent.includes('hm.')")
    code = page.locator(".studio-code").text_content()
    names = {}
    exec(code.replace("print(", "str("), names)
    shown = [float(value) for value in page.evaluate(MEASURED).split(",")]
    assert names["scores"].grad.tolist() == pytest.approx(shown, abs=2e-6)
    page.get_by_text("Selected: press Ctrl+C").or_(page.get_by_text("Copied")).first.wait_for()


def test_two_browsers_do_not_disturb_each_other(lab):
    first, second = lab(), lab("?space=bits")
    before = second.evaluate(MEASURED)
    first.get_by_role("slider", name="Score 1").focus()
    shown = first.evaluate(MEASURED)
    first.keyboard.press("End")
    wait_for_change(first, shown)
    assert second.evaluate(MEASURED) == before
    assert len(first.evaluate(MEASURED).split(",")) == 5


def test_a_hundred_quick_moves_end_with_the_last_one(lab):
    page = lab()
    slider = page.get_by_role("slider", name="Score 1")
    slider.focus()
    for _ in range(50):
        page.keyboard.press("ArrowUp")
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Home")
    page.wait_for_function("location.search.includes('scores=-4')")
    expected = compute_gradient(LabState(scores=(-4.0, *LabState().scores[1:])))
    wanted = ",".join(f"{value:.4f}" for value in expected)
    page.wait_for_function(
        f"wanted => {MEASURED}.split(',').map(x => Number(x).toFixed(4)).join(',') === wanted", arg=wanted
    )


@pytest.mark.slow
def test_memory_does_not_grow_with_the_moves(start_studio, open_page):
    running = start_studio()
    page = open_page(f"{running.address}gradient")
    page.wait_for_function(MEASURED)
    page.get_by_role("slider", name="Score 1").focus()

    def move(count):
        for i in range(count):
            page.keyboard.press("ArrowUp" if i // 40 % 2 else "ArrowDown")
            time.sleep(0.05)

    def read_memory():
        with open(f"/proc/{running.process.pid}/status") as file:
            return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))

    move(200)
    before = read_memory()
    move(600)
    after = read_memory()
    for _ in range(5):  # pages that are closed are forgotten
        page.reload()
        page.wait_for_function(MEASURED)
    assert after - before < 30, f"{before:.0f} MB, then {after:.0f} MB"
    assert read_memory() - before < 60
    assert running.process.poll() is None
