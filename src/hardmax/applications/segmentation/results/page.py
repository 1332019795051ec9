"""The HTML page of a run: a table of the scans, and the quality image of each scan. No torch here."""

import base64
import io
import math
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from hardmax.applications.segmentation.results.tables import Result, summarise_agreement
from hardmax.applications.segmentation.volumes.labels import LabelTable
from hardmax.data.image_reading import decode_within_bounds, open_image
from hardmax.files import write_output
from hardmax.report.templates import load_template, read_style

_WIDTH = 1400  # pixels of an image on the page; the original is in the folder qc


def write_page(path: Path, results: Sequence[Result], table: LabelTable) -> None:
    """Write the page; it needs no other file and no network.

    Args:
        path: path of the file.
        results: results of the scans, in order.
        table: the labels.

    Raises:
        DataError: the file cannot be written.
    """
    page = render_page(results, table)
    with write_output(path, "folder") as temporary:
        temporary.write_text(page, encoding="utf-8")


def render_page(results: Sequence[Result], table: LabelTable) -> str:
    """Return the page as HTML; see `write_page`."""
    return load_template(Path(__file__).with_name("page.html.j2")).render(
        style=read_style(),
        title=results[0].scan.name if len(results) == 1 else f"{len(results)} scans",
        models=list(dict.fromkeys(result.model for result in results)),
        results=results,
        doubtful=sum(bool(result.flags or result.error) for result in results),
        summaries=summarise_agreement(results),
        rows=lambda result: _list_structures(result, table),
        brain=lambda result: float(result.volumes[table.judged_indices].sum()) / 1000,
        image=_encode_image,
        number=_format_number,
        words=lambda name: name.replace("_", " "),
    )


def _list_structures(result: Result, table: LabelTable) -> list[tuple[str, list[str]]]:
    """Return each structure's name, its volume in ml, and, if there is a true map, the agreement with it."""
    assert result.volumes is not None
    out = []
    for name, size in zip(table.names[1:], result.volumes[1:], strict=True):
        cells = [_format_number(float(size) / 1000, 2)]
        if (agreement := result.agreement) is not None:
            if name in agreement.names:
                i = agreement.names.index(name)
                cells += [
                    _format_number(agreement.true_volume[i] / 1000, 2),
                    _format_number(agreement.dice[i], 3),
                    _format_number(agreement.distance[i], 2),
                ]
            else:
                cells += ["", "", ""]
        out.append((name, cells))
    return out


def _format_number(value: float, digits: int) -> str:
    return "–" if math.isnan(value) else f"{value:,.{digits}f}"


def _encode_image(path: Path) -> str | None:
    """Return an image file as JPEG in a data URI, or None if it is broken.

    For images of scans, JPEG has a fifth of the size of PNG.
    """
    buffer = io.BytesIO()
    try:
        with open_image(path) as image, decode_within_bounds(image, image.width * image.height):
            small = image.convert("RGB")
        if small.width > _WIDTH:
            height = max(1, round(small.height * _WIDTH / small.width))
            small = small.resize((_WIDTH, height), Image.Resampling.LANCZOS)
        small.save(buffer, "JPEG", quality=88, subsampling=0)
    except Exception:  # Pillow raises errors of almost any class for broken files
        return None
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
