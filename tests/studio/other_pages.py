"""A studio with other pages: one on which an image is uploaded, and one that fails; run by the tests."""

import sys

from hardmax.data.image_files import fit_photo
from hardmax.studio import registry

registry.PAGES = (
    registry.PageRecord("Upload", "/upload", "A field for images.", "other_pages:build_page"),
    registry.PageRecord("Broken", "/broken", "A page with defects.", "other_pages:build_broken_page"),
)


def build_page(studio, query):
    from hardmax.studio.frame import add_text, add_upload

    text = add_text("p", "nothing yet")

    def use_file(path):
        photo = fit_photo(path, (1, 28, 28))
        text.text = f"{path.name} {tuple(photo.pixels.shape)} {path}"

    add_upload("Image", use_file)


def build_broken_page(studio, query):
    from nicegui import ui

    from hardmax.errors import DataError

    if "now" in query:
        raise ValueError("a defect")

    def refuse():
        raise DataError("the run was deleted")

    async def fail():
        raise ValueError("a defect")

    ui.button("Refuse", on_click=refuse)
    ui.button("Fail", on_click=fail)


if __name__ == "__main__":
    sys.modules["other_pages"] = sys.modules["__main__"]
    from hardmax.cli.main import main

    sys.exit(main(["studio", "--port", "0", "--no-open"]))
