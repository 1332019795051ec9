"""The frame of all pages: navigation, theme, and readable at any width."""

import pytest

from hardmax.studio.registry import PAGES


def test_the_first_page_leads_to_all_others(studio, open_page):
    page = open_page(studio)
    assert page.locator(".studio-card h2").all_inner_texts() == [record.title for record in PAGES]
    page.locator(".studio-card").first.click()
    page.locator("h1", has_text=PAGES[0].title).wait_for()
    assert page.locator("nav a[aria-current]").inner_text() == PAGES[0].title


def test_theme_follows_the_system_until_it_is_switched(studio, open_page):
    def get_colour(page):
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    page = open_page(studio, dark=True)
    assert get_colour(page) == "rgb(20, 23, 27)"
    page.get_by_role("button", name="Switch between light and dark").click()
    page.wait_for_function("getComputedStyle(document.body).backgroundColor === 'rgb(255, 255, 255)'")
    page.reload()
    page.locator("main h1").wait_for()
    page.wait_for_function("getComputedStyle(document.body).backgroundColor === 'rgb(255, 255, 255)'")


@pytest.mark.parametrize("path", ["/", *(record.path for record in PAGES)])
def test_pages_fit_into_a_phone(studio, open_page, path):
    page = open_page(studio.rstrip("/") + path, width=400)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
