"""Errors become sentences in the page; the server stays."""

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def running(start_studio):
    return start_studio(script=Path(__file__).with_name("other_pages.py"))


def test_errors_of_buttons_are_messages(running, open_page):
    page = open_page(f"{running.address}broken")
    page.get_by_role("button", name="Refuse").click()
    page.get_by_text("the run was deleted").wait_for()
    page.get_by_role("button", name="Fail").click()
    page.get_by_text("This failed; the terminal of hardmax studio shows the error.").wait_for()
    assert "a defect" not in page.content()


def test_a_page_that_cannot_be_built_is_a_sentence(running, browser, open_page):
    page = browser.new_page()
    answer = page.goto(f"{running.address}broken?now=1")
    assert answer.status == 500
    page.get_by_text("This failed; the terminal of hardmax studio shows the error.").wait_for()
    assert "Traceback" not in page.content()
    assert "a defect" not in page.content()
    page.close()
    open_page(f"{running.address}upload")  # the others still work
    assert running.process.poll() is None
