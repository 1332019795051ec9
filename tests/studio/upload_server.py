"""A studio with one more page, on which an image is uploaded; run by test_upload.py."""

import sys

from hardmax.data.image_files import fit_photo
from hardmax.studio import registry

registry.PAGES = (registry.PageRecord("Upload", "/upload", "A field for images.", "upload_server:build_page"),)


def build_page(studio, query):
    from hardmax.studio.frame import add_text, add_upload

    text = add_text("p", "nothing yet")

    def use_file(path):
        photo = fit_photo(path, (1, 28, 28))
        text.text = f"{path.name} {tuple(photo.pixels.shape)} {path}"

    add_upload("Image", use_file)


if __name__ == "__main__":
    sys.modules["upload_server"] = sys.modules["__main__"]
    from hardmax.cli.main import main

    sys.exit(main(["studio", "--port", "0", "--no-open"]))
