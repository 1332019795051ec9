"""The page of scans: a segmented folder in three planes, with its structures, its doubts, and a second label map."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isnan, nan
from pathlib import Path
from shlex import quote
from typing import Any, Literal, final

from nicegui import events, ui

from hardmax.applications.segmentation.results.layouts import find_layout
from hardmax.applications.segmentation.results.records import QUALITY, find_result_folders, read_records
from hardmax.applications.segmentation.results.slices import PLANES, Plane, Voxel, find_voxel, measure_aspect
from hardmax.applications.segmentation.results.tables import Result
from hardmax.applications.segmentation.volumes.labels import STRUCTURES
from hardmax.applications.segmentation.volumes.reading import import_nibabel
from hardmax.errors import ArgumentError, DataError, HardmaxError
from hardmax.names import escape_control_characters
from hardmax.studio.controls import add_slider
from hardmax.studio.folders import Folders
from hardmax.studio.frame import (
    Studio,
    add_code_button,
    add_link_button,
    add_note,
    add_text,
    load_script,
    save_state_in_address,
    show_message,
    show_problem,
)
from hardmax.studio.grid_view import CellStroke, GridView
from hardmax.studio.page_state import read_state
from hardmax.studio.scan_views import (
    LoadedScan,
    PlaneView,
    ScanFiles,
    choose_voxel,
    describe_voxel,
    draw_planes,
    load_scan,
    write_code,
)
from hardmax.studio.work import CheckCancelled, LatestWork


@dataclass(frozen=True)
class ScansState:
    """What one sees on the page of scans."""

    folder: str = ""
    """Folder of `hardmax segment run`; nothing is the first one."""
    scan: str = ""
    """Name of the scan; nothing is the first one."""
    x: int = -1
    """Voxel, counted from the left; -1 is the centre."""
    y: int = -1
    """Voxel, counted from the back; -1 is the centre."""
    z: int = -1
    """Voxel, counted from the bottom; -1 is the centre."""
    opacity: float = 0.45
    """Opacity of the labels."""
    structure: str = ""
    """Structure that is marked."""
    compare: str = ""
    """File of a second label map."""
    show: Literal["labels", "other", "differences"] = "labels"
    """Map that is shown."""

    def __post_init__(self) -> None:
        if self.structure and self.structure not in STRUCTURES.names:
            raise ArgumentError(f"there is no structure {self.structure!r:.80}")
        if not 0 <= self.opacity <= 1:
            raise ArgumentError(f"opacity must be 0 to 1, got {self.opacity}")

    @property
    def voxel(self) -> Voxel | None:
        """The voxel, if one was chosen."""
        return None if min(self.x, self.y, self.z) < 0 else (self.x, self.y, self.z)


def list_results(check: CheckCancelled, folders: Folders) -> dict[Path, list[Result]]:
    """Return the records of all folders of segmented scans; a broken one has an empty list."""
    out: dict[Path, list[Result]] = {}
    for root in folders.roots:
        for folder in find_result_folders(root):
            check()
            out[folder] = []
            try:
                for path in (folder / QUALITY).glob("*.json"):
                    folders.resolve_path(path)  # a symbolic link may lead elsewhere
                out[folder] = read_records(folder, STRUCTURES)
            except DataError:  # the page says so when the folder is chosen
                continue
    return out


def find_files(folders: Folders, folder: Path, result: Result, compare: str) -> tuple[ScanFiles, str]:
    """Return the files of a scan, and why the scan itself is missing, if it is.

    Raises:
        DataError: the label map, or the one to compare with, is missing or outside of the folders.
    """
    labels = folders.resolve_path(find_layout(folder).label_map_path(result.scan))
    other = folders.resolve_path(compare) if compare else None
    try:
        return ScanFiles(folders.resolve_path(result.scan.path), labels, other), ""
    except DataError as error:
        return ScanFiles(None, labels, other), f"Only the labels are shown: {error}"


async def build_page(studio: Studio, query: Mapping[str, str]) -> None:
    """Build the page."""
    import_nibabel()
    state = read_state(ScansState, query)
    load_script("grid_view.js")
    if not studio.folders.roots:
        add_text("p", "This page shows the results of hardmax segment run. Start the studio with their folder:")
        add_text("pre", "hardmax segment run scan.nii.gz --out result\nhardmax studio result .").classes("studio-code")
        return
    work = LatestWork()
    results = await work.run(list_results, studio.folders)
    if not results:
        show_problem("No segmented scan is in the folders of this studio; hardmax segment run makes one.")
        return
    add_note("For research. Not a medical device: nothing here is a diagnosis.")
    viewer = ScanViewer(studio.folders, results, state)
    await viewer.open_scan()


def compute_planes(
    check: CheckCancelled, files: ScanFiles, state: ScansState
) -> tuple[LoadedScan, Voxel, list[PlaneView]]:
    """Return a scan, the voxel that is shown, and the three slices through it."""
    scan = load_scan(check, files)
    structure = STRUCTURES.names.index(state.structure) if state.structure else None
    voxel = choose_voxel(scan, state.voxel, structure)
    return scan, voxel, draw_planes(check, scan, voxel, state.show, structure)


@final
class ScanViewer:
    """The elements of the page, and the scan that they show."""

    def __init__(self, folders: Folders, results: dict[Path, list[Result]], state: ScansState) -> None:
        self._folders, self._results = folders, results
        self._folder = next(iter(results)) if not state.folder else folders.resolve_path(state.folder)
        if self._folder not in results:
            raise DataError(f"{self._folder} holds no segmented scans; hardmax segment run makes them")
        self.state = state
        self._files: ScanFiles | None = None
        self._scan: LoadedScan | None = None
        self._voxel: Voxel = (0, 0, 0)
        self._listed: str | None = None  # name of the scan that is chosen
        self._work = LatestWork()
        ui.context.client.on_delete(self._work.cancel)
        with ui.element("div").classes("studio-row"):
            names = {str(folder): escape_control_characters(str(folder)) for folder in results}
            ui.select(names, value=str(self._folder), label="folder", on_change=self._choose_folder).props(
                "dense outlined"
            ).classes("scan-folder")
            self._choice = ui.select({}, label="scan", on_change=self._choose_scan).props("dense outlined")
        self._messages = ui.element("div")
        with ui.element("div").classes("scan-planes") as self._planes:
            self._views = [self._add_plane(plane) for plane in PLANES]
        self._place = add_text("p", "").props("role=status")
        with ui.element("div").classes("studio-columns solver-panel"):
            with ui.element("div"):
                self._build_controls()
            self._table = ui.element("div").classes("studio-scroll")
        self._set_opacity(state.opacity)
        self._list_scans()

    # ------------------------------------------------------------------------------- elements
    def _add_plane(self, plane: Plane) -> GridView:
        async def point(stroke: CellStroke) -> None:
            if stroke.cells and self._scan is not None:
                row, column = stroke.cells[-1]
                await self._go_to(find_voxel(plane, row, column, self._voxel, self._scan.shape))

        async def scroll(steps: int) -> None:
            if self._scan is not None:
                voxel = list(self._voxel)
                voxel[plane.axis] = min(max(voxel[plane.axis] + steps, 0), self._scan.shape[plane.axis] - 1)
                await self._go_to((voxel[0], voxel[1], voxel[2]))

        with ui.element("div"):
            add_text("h3", plane.name.capitalize())
            view = GridView(f"{plane.name} plane", point, on_scroll=scroll, mode="point")
            view.show(letters=plane.letters, sharp=False)
        return view

    def _build_controls(self) -> None:
        add_slider("Opacity of the labels", self.state.opacity, self._change_opacity, least=0, most=1, step=0.05)
        with ui.element("div").classes("studio-row"):
            self._compare = ui.input("second label map", value=self.state.compare, placeholder="file.nii.gz").props(
                "dense outlined"
            ).classes("scan-folder")  # fmt: skip
            ui.button("Compare", on_click=self._choose_other).props("outline no-caps")
            shows = {"labels": "this map", "other": "the second", "differences": "differences"}
            self._show = ui.toggle(shows, value=self.state.show, on_change=self._choose_show).props(
                "no-caps unelevated dense"
            )
        add_note(
            "Click a plane to move the others; scroll, or press Page Up and Page Down, to move through it; arrows move "
            "the cross. Choose a structure to go to its centre and mark it."
        )
        with ui.element("div").classes("studio-row"):
            add_code_button("Copy as Python", lambda: "" if self._files is None else write_code(self._files))
            add_code_button("Copy command", self._write_command)
            add_link_button()

    def _list_scans(self) -> None:
        results = self._results[self._folder]
        names = {result.scan.name: escape_control_characters(result.scan.name) for result in results}
        name = self.state.scan if self.state.scan in names else next(iter(names), None)
        self._listed = name
        self._choice.set_options(names, value=name)

    # ------------------------------------------------------------------------------- changes
    async def _change(self, **fields: Any) -> None:
        self.state = replace(self.state, **fields)
        save_state_in_address(self.state)
        await self.update()

    async def _go_to(self, voxel: Voxel) -> None:
        self._voxel = voxel
        await self._change(x=voxel[0], y=voxel[1], z=voxel[2])

    async def _choose_folder(self, event: events.ValueChangeEventArguments) -> None:
        self._folder = Path(event.value)
        self.state = replace(ScansState(), folder=event.value, opacity=self.state.opacity)
        self._list_scans()
        await self.open_scan()

    async def _choose_scan(self, event: events.ValueChangeEventArguments) -> None:
        if event.value is None or event.value == self._listed:  # the list itself has changed
            return
        self._listed = event.value
        self.state = replace(ScansState(), folder=self.state.folder, scan=event.value, opacity=self.state.opacity)
        self._compare.value = ""
        await self.open_scan()

    async def _choose_other(self) -> None:
        self.state = replace(self.state, compare=(self._compare.value or "").strip(), show="labels")
        self._show.value = "labels"
        await self.open_scan()

    async def _choose_show(self, event: events.ValueChangeEventArguments) -> None:
        if event.value != "labels" and (self._files is None or self._files.other is None):
            show_message("Give a second label map first")
            self._show.value = "labels"
            return
        await self._change(show=event.value)

    async def _choose_structure(self, name: str) -> None:
        if name == self.state.structure:
            await self._change(structure="")
        else:
            await self._change(structure=name, x=-1, y=-1, z=-1)
        self._list_structures()

    def _change_opacity(self, value: float) -> None:
        self.state = replace(self.state, opacity=value)
        save_state_in_address(self.state)
        self._set_opacity(value)

    def _set_opacity(self, value: float) -> None:
        self._planes.style(f"--layer-opacity: {value:g}")

    # ------------------------------------------------------------------------------- results
    @property
    def _result(self) -> Result:
        name = self._choice.value
        for result in self._results[self._folder]:
            if result.scan.name == name:
                return result
        raise DataError(f"{self._folder} has no record that can be read; look at its folder {QUALITY}")

    async def open_scan(self) -> None:
        """Read the scan that is chosen, and show it with what is known of it."""
        save_state_in_address(self.state)
        self._messages.clear()
        self._files = self._scan = None
        with self._messages:
            try:
                result = self._result
                for sentence in (result.error, *result.flags):
                    if sentence:
                        show_problem(sentence)
                if not (result.error or result.flags):
                    add_note("No doubts.")
                self._files, missing = find_files(self._folders, self._folder, result, self.state.compare)
            except HardmaxError as error:
                show_problem(str(error))
                self._clear()
                return
            notes = ui.element("div")
            if missing:
                show_problem(missing)
        scan = await self.update()
        if scan is not None:
            with notes:
                for note in dict.fromkeys((*result.notes, *scan.display.notes)):
                    add_note(note)
        self._list_structures()

    async def update(self) -> LoadedScan | None:
        """Show the planes through the voxel of the state; return the scan, or None if it cannot be shown."""
        if self._files is None:
            return None
        try:
            computed = await self._work.run(compute_planes, self._files, self.state)
        except HardmaxError as error:
            self._messages.clear()
            with self._messages:
                show_problem(str(error))
            self._scan = None
            self._clear()
            return None
        if computed is None:
            return None
        self._scan, self._voxel, views = computed
        for plane, view, shown in zip(PLANES, self._views, views, strict=True):
            view.show(**vars(shown), aspect=measure_aspect(plane, self._scan.display.grid))
        self._place.text = describe_voxel(self._scan, self._voxel)
        return self._scan

    def _clear(self) -> None:
        for view in self._views:
            view.show(image=None, layer=None, drawing="")
        self._place.text = ""
        self._list_structures()

    def _list_structures(self) -> None:
        """Fill the table of structures."""
        self._table.clear()
        if self._scan is None:
            return
        scan = self._scan
        with self._table:
            if scan.other is not None:
                add_text("p", f"Mean Dice of the two maps: {scan.mean_overlap:.3f}.")
            with ui.element("table").classes("plain"):
                with ui.element("thead"), ui.element("tr"):
                    add_text("th", "structure")
                    for head in ("ml", *(("second map, ml", "Dice") if scan.other is not None else ())):
                        add_text("th", head).classes("number")
                with ui.element("tbody"):
                    for index in range(1, len(STRUCTURES)):
                        self._add_structure(scan, index)

    def _add_structure(self, scan: LoadedScan, index: int) -> None:
        label = STRUCTURES.labels[index]

        async def choose() -> None:
            await self._choose_structure(label.name)

        with ui.element("tr"):
            with ui.element("td"), ui.element("button").classes("scan-structure").on("click", choose) as button:
                button.props(f"type=button aria-pressed={'true' if label.name == self.state.structure else 'false'}")
                ui.element("span").classes("swatch").style(f"background: rgb{label.colour}")
                add_text("span", label.name.replace("_", " "))
            cells = [f"{scan.volumes[index]:.2f}"]
            if scan.other is not None:
                overlap = scan.overlap[index] if label.judged else nan
                cells += [f"{scan.other_volumes[index]:.2f}", "–" if isnan(overlap) else f"{overlap:.3f}"]
            for cell in cells:
                add_text("td", cell).classes("number")

    def _write_command(self) -> str:
        if self._files is None:
            return ""
        words = ["hardmax", "segment", "run", quote(str(self._result.scan.path)), "--out", quote(str(self._folder))]
        if self._files.other is not None:
            words += ["--compare", quote(str(self._files.other))]
        return " ".join(words)
