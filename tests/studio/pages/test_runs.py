"""The page of runs, in a browser: live, side by side, and with runs that are killed, deleted or corrupt."""

import os
import shutil
import signal
import subprocess
import sys
from urllib.parse import quote

import pytest


def find_row(page, name):
    return page.locator("tbody tr", has_text=name).first


def start_training(folder):
    command = [*("train", "--epochs", "300", "--hidden", "8", "--batch-size", "500"), "--out", folder]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "hardmax.cli.main", *map(str, command)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )


def test_a_run_in_training_grows_until_it_is_killed_and_deleted(open_page, runs, address):
    process = start_training(runs / "live")
    try:
        page = open_page(address + "runs")
        find_row(page, "training").get_by_role("checkbox").click()
        page.wait_for_function("document.querySelectorAll('.run-figures svg').length == 2")
        label = "document.querySelector('.run-figures svg').getAttribute('aria-label')"
        before = page.evaluate(label)
        page.wait_for_function(f"{label} !== {before!r}")
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    page.wait_for_function("document.querySelectorAll('tr[data-state=training]').length == 0")
    assert "stopped" in find_row(page, "live").inner_text()
    page.get_by_text("go on with hardmax train --resume").wait_for()
    page.get_by_text("Copy command").click()
    assert "hardmax train --resume --out live" in page.locator(".studio-code").inner_text()
    page.keyboard.press("Escape")
    shutil.rmtree(runs / "live")
    page.locator(".studio-problem", has_text="does not exist any more").wait_for()
    assert find_row(page, "live").get_attribute("data-state") == "broken"


@pytest.mark.slow
def test_a_corrupt_run_is_a_sentence_and_recovers(open_page, runs, address):
    page = open_page(address + "runs?runs=first")
    page.locator(".run-figures svg").first.wait_for()
    path = runs / "first" / "metrics.jsonl"
    good = path.read_bytes()
    try:
        path.write_bytes(b"\xff\xff\n" + good)
        page.locator(".studio-problem", has_text="line 1 of").wait_for()
        assert find_row(page, "first").get_attribute("data-state") == "broken"
    finally:
        path.write_bytes(good)
    page.wait_for_function("document.querySelectorAll('tr[data-state=broken]').length == 0")
    page.wait_for_function("document.querySelectorAll('.studio-problem').length == 0")


def test_runs_are_compared_and_the_link_restores_the_choice(open_page, runs, address):
    page = open_page(address + "runs")
    assert page.locator("tbody b").count() == 0  # names are texts, whatever they contain
    for name in ("first", "<b>second</b>"):
        find_row(page, name).get_by_role("checkbox").click()
    page.locator("h2", has_text="Options in which they differ").wait_for()
    table = page.locator("table.plain").nth(1).inner_text()
    assert "epsilon" in table
    assert "direct" in table
    page.get_by_label("Quantity").click()
    page.get_by_role("option", name="Reconstruction").click()
    page.locator("figcaption", has_text="Reconstruction by epoch").wait_for()
    page.wait_for_function("location.search.includes('quantity=Reconstruction')")
    assert quote("b%2C", safe="") in page.url
    again = open_page(page.url)
    again.locator("figcaption", has_text="Reconstruction by epoch").wait_for()
    assert again.locator(".run-legend span").count() == 2
    assert again.locator("tbody [aria-checked=true]").count() == 2


def test_the_report_is_shown_and_runs_no_script(open_page, runs, address):
    page = open_page(address + "runs?runs=first")
    page.get_by_role("button", name="Show report").click()
    report = page.frame_locator("iframe")
    report.locator("h1", has_text="first").wait_for()
    response = page.request.get(f"{address}runs/document?run=first")
    assert response.headers["content-security-policy"].startswith("sandbox;")
    for path in ("../first", "/etc", "missing", ".", "%00"):
        answer = page.request.get(f"{address}runs/document?run={path}")
        assert answer.status == 404
        assert "Traceback" not in answer.text()


def test_links_out_of_the_folders_are_refused_with_a_sentence(open_page, address):
    page = open_page(address + "runs?runs=/etc,../elsewhere&quantity=x&filter=first")
    page.get_by_role("alert").filter(has_text="is not in the folders of this studio").first.wait_for()
    assert page.get_by_role("alert").count() == 2
    assert page.locator("tbody tr").count() == 1


@pytest.mark.slow
def test_a_diagnosis_gives_advice_with_its_price(open_page, runs, address):
    page = open_page(address + "runs?runs=first")
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("*")}
    page.get_by_text("which gradient estimator would be best here?").click()
    page.get_by_label("Images").fill("2")
    page.get_by_label("Estimates").fill("8")
    page.get_by_role("button", name="Start").click()
    page.get_by_text("recommended:").wait_for()
    assert "ms" in page.get_by_text("recommended:").inner_text()
    assert page.locator(".run-diagnosis tbody tr").count() > 5
    page.get_by_text("Copy the command that trains with it").click()
    assert page.locator(".studio-code:visible").inner_text().startswith("hardmax train")
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("*")} == before


@pytest.mark.slow
def test_a_diagnosis_ends_with_its_page(open_page, runs, address):
    def count():
        listed = subprocess.run(["ps", "-wweo", "args"], capture_output=True, text=True, check=True).stdout
        return sum("diagnose --json" in line and str(runs / "first") in line for line in listed.splitlines())

    def wait_for_count(page, expected):
        for _ in range(60):
            if count() == expected:
                return
            page.wait_for_timeout(500)
        raise AssertionError(f"{count()} processes, expected {expected}")

    page, other = open_page(address + "runs?runs=first"), open_page(address + "runs")
    page.get_by_text("which gradient estimator would be best here?").click()
    page.get_by_label("Estimates").fill("4096")
    page.get_by_role("button", name="Start").click()
    wait_for_count(other, 1)
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("stopped", exact=True).wait_for()
    wait_for_count(other, 0)
    page.get_by_role("button", name="Start").click()
    wait_for_count(other, 1)
    page.close()
    wait_for_count(other, 0)
