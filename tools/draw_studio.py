"""Take the screenshots of docs/how-to/studio.md: ``draw_studio.py RUNS [SCANS] [docs/how-to]``.

RUNS is a folder with the runs ``first`` and ``gumbel`` (two discrete VAEs), ``bits``, ``mixed`` and ``holes`` (a
completion); SCANS one with a result of ``hardmax segment run``, whose images may be shown. Pages are 1280 pixels wide,
in light and in dark, and 400 pixels wide, two beside each other. Needs Debian's chromium.
"""

import subprocess
import sys
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

WIDE = {  # file: address, and what is on the page when it is complete
    "gradient": ("gradient", "ladder-chart svg"),
    "runs": ("runs?runs=first,gumbel", ".run-figures svg"),
    "latents": ("latents?run=mixed", "image-tiles img"),
    "solver": ("solver", "grid-view"),
    "image": ("solver?problem=image&image=portrait", "grid-view"),
    "scans": ("scans", "grid-view"),
}
NARROW = {  # file: the pages in light and in dark, and the height of the part that is shown
    "gradient": ("gradient", "gradient", 1500),
    "runs": ("runs?runs=first", "runs?runs=first", 1500),
    "latents": ("latents?run=holes", "latents?run=bits", 1500),
    "solver": ("solver", "solver?problem=image&image=portrait", 1300),
    "scans": ("scans", "scans", 1300),
}
GAP = 16  # pixels between two narrow pages


@contextmanager
def serve(runs: Path, folders: list[str]):
    """Yield the address of a studio with the runs and other folders; names of runs are relative to `runs`."""
    command = [sys.executable, "-m", "hardmax.cli.main", "studio", ".", *folders, "--port", "0", "--no-open"]
    with subprocess.Popen(command, cwd=runs, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = next(text for text in process.stdout if "http://" in text)
            yield next(word for word in line.split() if word.startswith("http://"))
        finally:
            process.terminate()


def take_screenshot(browser: Browser, address: str, ready: str, width: int, *, dark: bool) -> Image.Image:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light")
    page = context.new_page()
    page.goto(address)
    page.locator(ready).first.wait_for()
    page.wait_for_timeout(2500)  # images and figures after the first
    image = Image.open(BytesIO(page.screenshot(full_page=True))).convert("RGB")
    context.close()
    return image


def save(image: Image.Image, path: Path) -> None:
    """Save an image with 256 colours; scans keep all, since a palette changes those of structures."""
    few = image if "scans" in path.name else image.quantize(256, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def main(runs: str, scans: str | None = None, out: str = "docs/how-to") -> None:
    folder = Path(out)
    shown = [name for name in WIDE if scans or name != "scans"]
    with serve(Path(runs), [scans] if scans else []) as address, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for name in shown:
            path, ready = WIDE[name]
            for theme in ("light", "dark"):
                image = take_screenshot(browser, address + path, ready, 1280, dark=theme == "dark")
                save(image, folder / f"studio-{name}-1280-{theme}.png")
        for name in [name for name in NARROW if name in shown]:
            *paths, height = NARROW[name]
            pair = Image.new("RGB", (800 + GAP, height), (128, 128, 128))
            for number, path in enumerate(paths):
                ready = WIDE["image" if "image" in path else name][1]
                image = take_screenshot(browser, address + path, ready, 400, dark=number == 1)
                pair.paste(image.crop((0, 0, 400, height)), (number * (400 + GAP), 0))
            save(pair, folder / f"studio-{name}-400.png")
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
