"""The panel of the solver lab for an image: strokes on foreground and background, and the object that they cut out."""

import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float, UInt8
from nicegui import events, ui
from PIL import Image

from hardmax.drawing.grids import colour_signs, draw_outline
from hardmax.drawing.images import encode_data_uri
from hardmax.drawing.svg import COLOURS
from hardmax.studio.controls import add_slider
from hardmax.studio.frame import (
    add_code_button,
    add_link_button,
    add_note,
    add_text,
    add_upload,
    save_state_in_address,
)
from hardmax.studio.grid_view import CellStroke, GridView
from hardmax.studio.solver.encoding import decode_strokes, encode_strokes
from hardmax.studio.solver.examples import STROKES
from hardmax.studio.solver.image_cut import (
    Stroke,
    cut_image,
    draw_strokes,
    read_photo,
    read_sample,
    sample_cuts,
    score_pixels,
    thin_points,
)
from hardmax.studio.solver.program import write_cut_code
from hardmax.studio.solver.state import SolverState
from hardmax.studio.work import CheckCancelled, LatestWork

_SAMPLES = 8  # cuts with noise
_BRUSHES = {1: "object", -1: "background", 0: "eraser"}


@dataclass(frozen=True)
class CutImages:
    """What the panel shows, images as data URIs.

    Attributes:
        image: the image.
        mask: `[H, W]`, the foreground.
        marks: the strokes.
        outline: the outline of the foreground as SVG, in units of pixels.
        result: the object, with transparent background, or how often each pixel is in the foreground.
    """

    image: str
    mask: Bool[np.ndarray, "H W"]
    marks: str
    outline: str
    result: str


def compute_cut(
    check: CheckCancelled, pixels: UInt8[np.ndarray, "H W 3"] | None, strokes: tuple[Stroke, ...], state: SolverState
) -> CutImages:
    """Cut an image, that of the state if there is no other, and draw what the panel shows."""
    pixels = read_sample(state.image) if pixels is None else pixels
    height, width, _ = pixels.shape
    marks = draw_strokes(strokes, height, width)
    scores = score_pixels(pixels, marks, coupling=state.edges, trust=state.trust)
    check()
    mask = cut_image(scores, height, width)
    check()
    shares = sample_cuts(scores, height, width, samples=_SAMPLES, seed=state.seed) if state.perturbed else mask
    check()
    images = (Image.fromarray(pixels), colour_signs(0.75 * marks, 1.0), _cut_out(pixels, shares))
    image, painted, result = (encode_data_uri(each, optimize=False) for each in images)
    return CutImages(image, mask, painted, str(draw_outline(mask, "#ffffff", width=0.7)), result)


def _cut_out(pixels: UInt8[np.ndarray, "H W 3"], shares: Float[np.ndarray, "H W"]) -> Image.Image:
    """Return an image whose pixels are as opaque as they are probably of the object."""
    return Image.fromarray(np.concatenate([pixels, np.round(255 * shares)[..., None].astype(np.uint8)], -1))


@final
class ImagePanel:
    """The panel, added to the page where it is created.

    Attributes:
        state: what it shows; the strokes are in it once they are painted.
    """

    def __init__(self, state: SolverState) -> None:
        self.state = state
        self._pixels: UInt8[np.ndarray, "H W 3"] | None = None  # those of an uploaded image
        self._strokes = decode_strokes(state.strokes) if state.strokes else STROKES[state.image]
        self._points: list[tuple[int, int]] = []  # of the stroke that is being painted
        self._file = ""  # name of an uploaded image
        self._cut: CutImages | None = None
        self._work = LatestWork()
        ui.context.client.on_delete(self._work.cancel)
        with ui.element("div").classes("studio-columns solver-panel"):
            with ui.element("div"):
                self._build_painting()
            with ui.element("div"):
                self._build_result()

    def close(self) -> None:
        """Cancel the work of the panel."""
        self._work.cancel()

    # ------------------------------------------------------------------------------- elements
    def _build_painting(self) -> None:
        add_text("h2", "Strokes")
        with ui.element("div").classes("studio-row"):
            self._brush = ui.toggle(_BRUSHES, value=1, on_change=self._show_brush).props("no-caps unelevated dense")
            ui.label("radius")
            self._radius = ui.slider(min=1, max=16, step=0.5, value=4, on_change=self._show_brush)
            self._radius.props('aria-label="Radius of the brush"').classes("studio-radius")
        self._view = GridView("Image to paint strokes on", self._paint)
        with ui.element("div").classes("studio-row"):
            ui.button("Undo", on_click=self._undo).props("outline no-caps")
            ui.button("Clear", on_click=lambda: self._set_strokes(())).props("outline no-caps")
            images = {"terrain": "terrain", "portrait": "portrait"}
            ui.select(images, value=self.state.image, label="image", on_change=self._choose_image).props(
                "dense outlined"
            )
        add_upload("or an image of yours", self._use_upload)

    def _build_result(self) -> None:
        add_text("h2", "Object")
        self._result = GridView("The object that the strokes cut out", lambda stroke: None, mode="point")
        self._result.element.classes("solver-cutout")
        self._numbers = add_text("p", "").props("role=status")
        add_note(
            "The strokes give the colours of object and background; a minimum cut finds the best mask of all, whose "
            "outline follows edges. With noise, a pixel is as opaque as it is often in the object, over eight cuts of "
            "scores with noise."
        )
        ui.switch("with noise", value=self.state.perturbed, on_change=self._choose_perturbed)
        self._add_slider("edges", "Smooth outline", 0.0, 40.0, 0.5)
        self._add_slider("trust", "Trust in colours", 0.0, 4.0, 0.1)
        with ui.element("div").classes("studio-row"):
            ui.button("Download mask", on_click=self._download).props("outline no-caps")
            add_code_button("Copy as Python", self._write_code)
            add_link_button()

    def _add_slider(self, field: str, label: str, least: float, most: float, step: float) -> None:
        async def change(value: float) -> None:
            await self._change(**{field: float(value)})

        add_slider(label, getattr(self.state, field), change, least=least, most=most, step=step)

    # ------------------------------------------------------------------------------- changes
    async def _change(self, **fields: Any) -> None:
        self.state = replace(self.state, **fields)
        if not self._file:  # a link cannot hold an image of the user
            save_state_in_address(self.state)
        await self.update()

    async def _set_strokes(self, strokes: tuple[Stroke, ...]) -> None:
        self._strokes, self._points = strokes, []
        await self._change(strokes=encode_strokes(strokes))

    async def _paint(self, stroke: CellStroke) -> None:
        self._points += stroke.cells
        if not self._points:
            return
        # Points that are close to each other would make the link long, and each update slow.
        points = thin_points(self._points, self._brush_radius / 2)
        painted = Stroke(self._kind, self._brush_radius, points)
        if stroke.done:
            await self._set_strokes((*self._strokes, painted))
        else:
            await self.update(painted)

    async def _undo(self) -> None:
        await self._set_strokes(self._strokes[:-1])

    async def _choose_image(self, event: events.ValueChangeEventArguments) -> None:
        self._pixels, self._file = None, ""
        self._strokes, self._points = STROKES[event.value], []
        await self._change(image=event.value, strokes="")

    async def _choose_perturbed(self, event: events.ValueChangeEventArguments) -> None:
        await self._change(perturbed=event.value)

    async def _use_upload(self, path: Path) -> None:
        pixels = await self._work.run(lambda check: read_photo(path))
        if pixels is None:
            return
        self._pixels, self._file = pixels, f"photo{path.suffix}"
        await self._set_strokes(())

    def _show_brush(self) -> None:
        colour = {1: COLOURS[1], -1: COLOURS[0], 0: "#888888"}[self._kind]
        self._view.show(brush=colour, radius=self._brush_radius)

    @property
    def _kind(self) -> int:
        return self._brush.value or 0

    @property
    def _brush_radius(self) -> float:
        return float(self._radius.value or 1)

    # ------------------------------------------------------------------------------- results
    async def update(self, painted: Stroke | None = None) -> None:
        """Compute and show the cut for the strokes, and the one that is being painted."""
        strokes, state = self._strokes, self.state
        if painted is not None:  # cuts with noise wait for the end of the stroke
            strokes, state = (*strokes, painted), replace(state, perturbed=False)
        result = await self._work.run(compute_cut, self._pixels, strokes, state)
        if result is None:
            return
        self._cut = result
        height, width = result.mask.shape
        shape = {"rows": height, "columns": width, "aspect": width / height, "sharp": False}
        self._view.show(**shape, image=result.image, layer=result.marks, drawing=result.outline)
        self._result.show(**shape, image=result.result)
        self._numbers.text = _describe_cut(result.mask, strokes)
        self._show_brush()

    def _download(self) -> None:
        if self._cut is not None:
            buffer = io.BytesIO()
            Image.fromarray(self._cut.mask).save(buffer, "PNG")
            ui.download(buffer.getvalue(), "mask.png")

    def _write_code(self) -> str:
        source = f'read_photo("{self._file}")' if self._file else f'read_sample("{self.state.image}")'
        return write_cut_code(source, self._strokes, coupling=self.state.edges, trust=self.state.trust)


def _describe_cut(mask: Bool[np.ndarray, "H W"], strokes: tuple[Stroke, ...]) -> str:
    kinds = {stroke.kind for stroke in strokes}
    missing = [name for kind, name in ((1, "the object"), (-1, "the background")) if kind not in kinds]
    if missing:
        return f"Paint a stroke on {' and one on '.join(missing)}."
    return f"{mask.sum():,} of {mask.size:,} pixels are of the object ({mask.mean():.0%})."
