"""Scans and label maps (NIfTI, MGH), a segmentation prior with its encoder, and the records of segmented scans."""

from pathlib import Path
from typing import Any, cast

import nibabel
import numpy as np
import torch
from PIL import Image

from hardmax.applications.segmentation.atlas.atlas import VELOCITY_GRID, Atlas
from hardmax.applications.segmentation.atlas.head import HEAD_PARTS, HeadAtlas
from hardmax.applications.segmentation.atlas.transforms import make_centred_grid
from hardmax.applications.segmentation.model_folder import load_part
from hardmax.applications.segmentation.results.derivatives import check_description, write_description
from hardmax.applications.segmentation.results.page import render_page
from hardmax.applications.segmentation.results.records import (
    check_records,
    quality_image_path,
    read_records,
    write_record,
)
from hardmax.applications.segmentation.results.tables import Result
from hardmax.applications.segmentation.vae.image_encoder import ImageEncoder
from hardmax.applications.segmentation.vae.label_vae import LabelVAE
from hardmax.applications.segmentation.volumes.labels import STRUCTURES
from hardmax.applications.segmentation.volumes.reading import read_labels, read_volume
from hardmax.applications.segmentation.volumes.scans import Scan
from tools.fuzz.corpus.target import Target


def make_targets(folder: Path) -> list[Target]:
    """Write the files; return the targets."""
    folder.mkdir(parents=True)
    return [
        *_make_volumes(folder),
        *_make_model(folder / "model"),
        *_make_records(folder / "results"),
        *_make_data_sets(folder / "study"),
    ]


def _make_volumes(folder: Path) -> list[Target]:
    random = np.random.default_rng(0)
    affine = np.diag([2.0, 2.0, 2.0, 1.0])
    values = np.zeros((8, 9, 7))
    values[2:6, 2:7, 2:5] = random.random((4, 5, 3)) * 100
    labels = (values > 0) * random.integers(1, 10, values.shape)
    targets = []
    nifti, mgh = cast("tuple[Any, Any]", (nibabel.Nifti1Image, nibabel.MGHImage))  # its annotations refuse arrays
    for name, kind in (("scan.nii", nifti), ("scan.nii.gz", nifti), ("scan.mgz", mgh)):
        path = folder / name
        kind(values.astype(np.float32), affine).to_filename(path)
        targets.append(Target(f"volume {name}", path, lambda path=path: read_volume(path)))
        path = folder / f"labels-{name}"
        kind(labels.astype(np.int32), affine).to_filename(path)
        targets.append(Target(f"volume labels-{name}", path, lambda path=path: read_labels(path)))
    path = folder / "scaled.nii"
    image = nifti(values.astype(np.int16), affine)
    image.header.set_slope_inter(0.5, 3)
    image.to_filename(path)
    targets.append(Target("volume scaled.nii", path, lambda: read_volume(path)))
    return targets


def _make_model(folder: Path) -> list[Target]:
    side = 4
    grid = make_centred_grid((side, side, side), 2.0)
    atlas = Atlas(
        torch.full((2, side, side, side), 0.5),
        grid,
        STRUCTURES,
        (0, 1),
        torch.zeros(2, side, side, side, dtype=torch.uint8),
        torch.zeros(2, 3, *VELOCITY_GRID.shape),
    )
    atlas.save_pretrained(folder / "atlas")
    HeadAtlas(torch.full((len(HEAD_PARTS), side, side, side), 1 / len(HEAD_PARTS)), grid).save_pretrained(
        folder / "head"
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        LabelVAE(torch.ones(2, side, side, side), latents=2, network="convolutional", width=2).save_pretrained(
            folder / "vae"
        )
        ImageEncoder((side,) * 3, 2, width=2).save_pretrained(folder / "encoder")
    kinds = {"atlas": Atlas, "head": HeadAtlas, "vae": LabelVAE, "encoder": ImageEncoder}
    return [
        Target(f"prior {part} {file}", folder / part / file, lambda part=part: load_part(kinds[part], folder, part))
        for part in kinds
        for file in ("config.json", "model.safetensors")
    ]


def _make_records(folder: Path) -> list[Target]:
    scan = Scan(folder / "a.nii.gz", "a")
    volumes = np.arange(len(STRUCTURES), dtype=np.float64)
    result = Result(scan, model="prior", volumes=volumes, log_likelihood=-1.0, seconds=2.0, flags=("x",), notes=("y",))
    write_record(folder, result, STRUCTURES)
    scan.path.touch()  # a scan that is added exists
    (record,) = (folder / "qc").glob("*.json")
    table = folder / "volumes.csv"
    table.write_text("scan,background\na,1.0\n")
    image = quality_image_path(folder, "a")
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (6, 9, 3)).astype(np.uint8)).save(image)

    def read_record() -> None:
        check_records(folder, [scan], STRUCTURES)
        render_page(read_records(folder, STRUCTURES), STRUCTURES)

    return [
        Target("record", record, read_record),
        Target("record image", image, read_record),
        Target("record table", table, lambda: check_records(folder, [scan], STRUCTURES)),
    ]


def _make_data_sets(folder: Path) -> list[Target]:
    """The description of a BIDS data set, and that of its derivative."""
    out = folder / "derivatives" / "hardmax"
    source = folder / "dataset_description.json"
    folder.mkdir()
    source.write_text('{"Name": "study", "BIDSVersion": "1.8.0", "DatasetDOI": "doi:10.0/1"}')
    write_description(out, folder, STRUCTURES)
    return [
        Target("data set", source, lambda: write_description(folder / "other", folder, STRUCTURES)),
        Target("derivative", out / source.name, lambda: check_description(out, folder)),
    ]
