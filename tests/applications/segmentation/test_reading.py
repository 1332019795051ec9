"""Files of scans and label maps: every format, dtype and header; broken files; written files."""

import gzip
import struct

import nibabel
import numpy as np
import pytest
from applications.segmentation.heads import (
    ORIENTATIONS,
    make_anatomy,
    make_head,
    reorder_voxels,
    save_volume,
    world_points,
)

from hardmax.applications.segmentation.volumes.reading import read_labels, read_volume, strip_suffix
from hardmax.applications.segmentation.volumes.writing import is_made_by_hardmax, write_labels, write_posterior
from hardmax.errors import DataError

SUFFIXES = {".nii": nibabel.Nifti1Image, ".nii.gz": nibabel.Nifti2Image, ".mgh": nibabel.MGHImage}
SUFFIXES[".mgz"] = nibabel.MGHImage


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.float32])
def test_every_format_and_dtype(suffix, dtype, tmp_path):
    values, affine = make_head(tilt=(10, -20, 5))
    path = save_volume(tmp_path / f"a{suffix}", values, affine, kind=SUFFIXES[suffix], dtype=dtype)
    volume = read_volume(path)
    assert volume.values.dtype == np.float32
    assert np.array_equal(volume.values, values.astype(dtype).astype(np.float32))
    assert np.allclose(volume.grid.affine, affine, atol=1e-4)
    assert volume.notes == ()
    assert volume.path == path


@pytest.mark.parametrize("dtype", [np.float64, np.uint16, np.int8])
def test_other_dtypes_of_nifti(dtype, tmp_path):
    values, affine = make_head()
    path = save_volume(tmp_path / "a.nii.gz", values / 2, affine, dtype=dtype)
    assert np.array_equal(read_volume(path).values, (values / 2).astype(dtype).astype(np.float32))


def test_scaled_values(tmp_path):
    values, affine = make_head()
    image = nibabel.Nifti1Image(np.round((values + 3) / 0.02).astype(np.int16), affine)
    image.header.set_slope_inter(0.02, -3)
    nibabel.save(image, tmp_path / "a.nii.gz")
    assert np.abs(read_volume(tmp_path / "a.nii.gz").values - values).max() < 0.011


def test_a_single_frame_is_read(tmp_path):
    values, affine = make_head()
    save_volume(tmp_path / "a.nii.gz", values[..., None], affine)
    assert read_volume(tmp_path / "a.nii.gz").values.shape == values.shape
    save_volume(tmp_path / "b.nii.gz", values[..., None, None], affine)
    assert read_volume(tmp_path / "b.nii.gz").values.shape == values.shape
    save_volume(tmp_path / "c.nii.gz", np.stack([values, values], -1), affine)
    with pytest.raises(DataError, match=r"c\.nii\.gz has 2 volumes .*expected one; take one out"):
        read_volume(tmp_path / "c.nii.gz")


def test_voxels_that_are_not_finite(tmp_path):
    values, affine = make_head()
    values[0, 0, :3] = np.nan, np.inf, -np.inf
    volume = read_volume(save_volume(tmp_path / "a.nii.gz", values, affine))
    assert volume.values[0, 0, :3].tolist() == [0, 0, 0]
    assert np.array_equal(volume.values[1:], values[1:].astype(np.float32))
    assert volume.notes == ("3 voxels (0.0%) are NaN or infinite: read as 0",)
    values[1, 1, 1] = -900
    assert read_volume(save_volume(tmp_path / "b.nii.gz", values, affine)).values[0, 0, 0] == -900
    with pytest.raises(DataError, match="has no finite value"):
        read_volume(save_volume(tmp_path / "c.nii.gz", np.full((3, 3, 3), np.nan), affine))


@pytest.mark.parametrize("value", [0, 7])
def test_empty_volumes(value, tmp_path):
    with pytest.raises(DataError, match=rf"a\.nii\.gz is empty: all of its voxels are {value}"):
        read_volume(save_volume(tmp_path / "a.nii.gz", np.full((4, 4, 4), value), np.eye(4)))


class TestTwoTransforms:
    def write(self, path, sform, qform, codes):
        values, affine = make_head()
        image = nibabel.Nifti1Image(values.astype(np.float32), affine)
        image.set_sform(sform, codes[0])
        image.set_qform(qform, codes[1])
        nibabel.save(image, path)
        return read_volume(path)

    @pytest.mark.parametrize("codes", [(1, 1), (2, 0), (0, 1), (4, 3)])
    def test_chosen_as_nibabel_does(self, codes, tmp_path):
        moved = make_head()[1]
        moved[0, 3] += 0.3
        volume = self.write(tmp_path / "a.nii", make_head()[1], moved, codes)
        assert np.allclose(volume.grid.affine, nibabel.load(tmp_path / "a.nii").affine)
        assert volume.notes == ()

    def test_they_disagree(self, tmp_path):
        other = make_head()[1] @ np.diag([-1.0, 1, 1, 1])
        volume = self.write(tmp_path / "a.nii", make_head()[1], other, (1, 1))
        assert np.allclose(volume.grid.affine, make_head()[1])
        assert len(volume.notes) == 1
        assert "the sform and the qform of the header disagree by" in volume.notes[0]
        assert "the sform is used" in volume.notes[0]

    def test_neither(self, tmp_path):
        volume = self.write(tmp_path / "a.nii", None, None, (0, 0))
        assert "sides may be swapped" in volume.notes[0]
        assert np.allclose(volume.grid.affine, nibabel.load(tmp_path / "a.nii").affine)

    def test_a_broken_sform(self, tmp_path):
        volume = self.write(tmp_path / "a.nii", np.diag([1.0, 1, 0, 1]), make_head()[1], (1, 1))
        assert np.allclose(volume.grid.affine, make_head()[1], atol=1e-4)
        assert "the sform of the header cannot be used" in volume.notes[0]

    def test_none_that_can_be_used(self, tmp_path):
        with pytest.raises(DataError, match="does not say where its voxels are"):
            self.write(tmp_path / "a.nii", np.zeros((4, 4)) + np.diag([0, 0, 0, 1]), None, (1, 0))


def test_strange_voxel_sizes_are_noted(tmp_path):
    volume = read_volume(save_volume(tmp_path / "a.nii.gz", make_head()[0], np.diag([0.001, 0.001, 0.001, 1])))
    assert "is the header in mm?" in volume.notes[0]


def broken_files():
    complete = nibabel.Nifti1Image(
        np.random.default_rng(0).random((20, 20, 20)).astype(np.float32), np.eye(4)
    ).to_bytes()
    packed = gzip.compress(complete)
    colours = np.zeros((3, 3, 3), dtype=[("R", "u1"), ("G", "u1"), ("B", "u1")])
    mgh = nibabel.MGHImage(np.ones((9, 9, 9), np.float32), np.eye(4)).to_bytes()
    smooth = gzip.compress(nibabel.Nifti1Image(np.arange(8000.0).reshape(20, 20, 20), np.eye(4)).to_bytes())
    return {
        "text.nii.gz": (b"this is not a scan\n" * 40, "not compressed by gzip"),
        "text.nii": (b"this is not a scan\n" * 40, "cannot be read as a scan"),
        "text.mgz": (b"this is not a scan\n" * 40, "cannot be read as a scan"),
        "text.mgh": (b"this is not a scan\n" * 40, "cannot be read as a scan"),
        "nothing.nii.gz": (b"", "cannot be read as a scan"),
        "nothing.nii": (b"", "cannot be read as a scan"),
        "cut.nii.gz": (packed[: len(packed) // 2], "breaks off before its end"),
        "cut_header.nii.gz": (packed[:60], "cannot be read as a scan"),
        "cut.nii": (complete[:5000], "breaks off before its end"),
        "cut.mgh": (mgh[:1000], "cannot be read as a scan"),
        "negative.mgz": (
            gzip.compress(mgh[:16] + struct.pack(">i", -2146435071) + mgh[20:]),
            "is empty: its shape is .*-2146435071",
        ),
        "damaged.nii.gz": (smooth[:3000] + bytes(500) + smooth[3500:], "cannot be read as a scan"),
        "packed.nii": (packed, "cannot be read as a scan"),
        "plain.nii.gz": (complete, "not compressed by gzip"),
        "huge.nii": (
            complete[:40] + struct.pack("<8h", 3, 30000, 30000, 30000, 1, 1, 1, 1) + complete[56:],
            "would take .* of memory",
        ),
        "flat.nii.gz": (nibabel.Nifti1Image(np.ones((4, 4), np.float32), np.eye(4)), "an image of shape"),
        "colours.nii.gz": (nibabel.Nifti1Image(colours, np.eye(4)), "holds colours"),
        "complex.nii.gz": (nibabel.Nifti1Image(np.ones((3, 3, 3), np.complex64), np.eye(4)), "holds complex64"),
    }


@pytest.mark.parametrize("name", broken_files())
def test_broken_files(name, tmp_path):
    content, words = broken_files()[name]
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    else:
        nibabel.save(content, tmp_path / name)
    for read in (read_volume, read_labels):
        with pytest.raises(DataError, match=words) as caught:
            read(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)


def test_missing_files(tmp_path):
    with pytest.raises(DataError, match=r"none\.nii\.gz does not exist"):
        read_volume(tmp_path / "none.nii.gz")
    (tmp_path / "folder.nii").mkdir()
    with pytest.raises(DataError, match=r"folder\.nii is a folder"):
        read_volume(tmp_path / "folder.nii")
    with pytest.raises(DataError, match=r"does not have the name of a scan: expected a file that ends in \.nii\.gz"):
        read_volume(tmp_path / "scan.dcm")
    assert strip_suffix(tmp_path / "a.b.NII.GZ") == "a.b"
    with pytest.raises(DataError):
        strip_suffix(tmp_path / ".nii.gz")


class TestLabels:
    def test_own_numbers(self, tmp_path):
        labels = np.arange(19).reshape(1, 1, 19)
        label_map = read_labels(save_volume(tmp_path / "a.nii.gz", labels, np.eye(4), dtype=np.float64))
        assert np.array_equal(label_map.labels, labels)
        assert label_map.notes == ()

    def test_freesurfer_s_numbers(self, tmp_path):
        labels = np.array([0, 2, 41, 3, 42, 1012, 2035, 4, 43, 17, 53, 251, 28, 60, 24])[None, None]
        save_volume(tmp_path / "a.mgz", labels, np.eye(4), kind=nibabel.MGHImage, dtype=np.int32)
        label_map = read_labels(tmp_path / "a.mgz")
        assert label_map.labels.ravel().tolist() == [0, 1, 1, 2, 2, 2, 2, 3, 3, 13, 13, 1, 16, 16, 17]
        assert "FreeSurfer" in label_map.notes[0]

    def test_files_that_are_not_label_maps(self, tmp_path):
        with pytest.raises(DataError, match=r"not a label map: its values, from 0 to 0\.5, are not all whole numbers"):
            read_labels(save_volume(tmp_path / "a.nii.gz", np.array([[[0, 0.5]]]), np.eye(4)))
        with pytest.raises(DataError, match="all of its voxels are 0"):
            read_labels(save_volume(tmp_path / "b.nii.gz", np.zeros((2, 2, 2)), np.eye(4)))
        with pytest.raises(DataError, match=r"c\.nii\.gz cannot be read as a label map: no label is known.*9999"):
            read_labels(save_volume(tmp_path / "c.nii.gz", np.array([[[0, 9999]]]), np.eye(4), dtype=np.int32))


class TestWriting:
    @pytest.fixture
    def scan(self, tmp_path):
        values, affine = make_head(tilt=(10, -20, 5))
        image = nibabel.Nifti1Image(values.astype(np.int16), affine)
        image.set_sform(affine, 2)
        image.set_qform(affine, 1)
        image.header.set_xyzt_units("mm", "sec")
        image.header["descrip"] = b"somebody's name"
        image.header.set_slope_inter(2, 0)
        image.header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", b"born in 1950"))
        nibabel.save(image, tmp_path / "scan.nii.gz")
        return read_volume(tmp_path / "scan.nii.gz")

    def test_labels_in_the_geometry_of_the_scan(self, scan, tmp_path):
        labels = np.random.default_rng(0).integers(0, 19, scan.grid.shape)
        write_labels(tmp_path / "labels.nii.gz", labels, scan)
        written, before = nibabel.load(tmp_path / "labels.nii.gz"), nibabel.load(scan.path)
        assert np.array_equal(np.asarray(written.dataobj), labels)
        assert written.get_data_dtype() == np.uint8
        for name in ("sform_code", "qform_code", "pixdim", "srow_x", "quatern_b", "qoffset_x", "xyzt_units"):
            assert np.array_equal(written.header[name], before.header[name])
        assert written.header.get_intent()[0] == "label"
        assert not written.header.extensions
        assert b"name" not in bytes(written.header["descrip"])
        assert np.array_equal(read_labels(tmp_path / "labels.nii.gz").labels, labels)
        assert is_made_by_hardmax(tmp_path / "labels.nii.gz")
        assert not is_made_by_hardmax(scan.path)
        assert [path.name for path in tmp_path.glob("*.tmp")] == []

    def test_the_same_labels_give_the_same_bytes(self, scan, tmp_path):
        labels = np.ones(scan.grid.shape, int)
        write_labels(tmp_path / "a.nii.gz", labels, scan)
        write_labels(tmp_path / "b.nii.gz", labels, scan)
        assert (tmp_path / "a.nii.gz").read_bytes() == (tmp_path / "b.nii.gz").read_bytes()

    @pytest.mark.parametrize("suffix", [".mgz", ".nii.gz"])
    def test_scans_of_other_formats(self, suffix, tmp_path):
        values, affine = make_head(tilt=(0, 25, 0))
        scan = read_volume(save_volume(tmp_path / f"scan{suffix}", values, affine, kind=SUFFIXES[suffix]))
        write_labels(tmp_path / "labels.nii.gz", (values > 100).astype(np.uint8), scan)
        written = nibabel.load(tmp_path / "labels.nii.gz")
        assert isinstance(written, nibabel.Nifti2Image if suffix == ".nii.gz" else nibabel.Nifti1Image)
        assert np.allclose(written.affine, affine, atol=1e-4)
        assert np.allclose(written.get_qform(), affine, atol=1e-3)
        assert is_made_by_hardmax(tmp_path / "labels.nii.gz")

    def test_posteriors(self, scan, tmp_path):
        posterior = np.random.default_rng(0).dirichlet(np.ones(4), scan.grid.shape)
        posterior = np.moveaxis(posterior, -1, 0).astype(np.float32)
        write_posterior(tmp_path / "p.nii.gz", posterior, scan)
        written = nibabel.load(tmp_path / "p.nii.gz")
        assert written.shape == (*scan.grid.shape, 4)
        assert written.get_data_dtype() == np.uint8
        assert written.dataobj.slope == pytest.approx(1 / 255)
        assert np.abs(np.moveaxis(written.get_fdata(), -1, 0) - posterior).max() <= 0.5 / 255 + 1e-6
        assert np.allclose(written.affine, scan.grid.affine)

    def test_a_path_that_cannot_be_written(self, scan, tmp_path):
        (tmp_path / "file").write_text("in the way")
        with pytest.raises(DataError, match=r"cannot write .*labels\.nii\.gz.*choose another folder with --out"):
            write_labels(tmp_path / "file" / "labels.nii.gz", np.ones(scan.grid.shape, int), scan)

    @pytest.mark.parametrize(("order", "flips"), ORIENTATIONS[::7])
    def test_positions_are_kept_whatever_the_header(self, order, flips, tmp_path):
        values, affine = make_head(tilt=(8, 12, -15))
        stored, header = reorder_voxels(values, affine, order, flips)
        scan = read_volume(save_volume(tmp_path / "scan.nii.gz", stored, header))
        write_labels(tmp_path / "labels.nii.gz", make_anatomy(world_points(stored.shape, header), stored), scan)
        written = nibabel.load(tmp_path / "labels.nii.gz")
        assert np.array_equal(
            np.asarray(written.dataobj), make_anatomy(world_points(stored.shape, written.affine), stored)
        )


@pytest.mark.parametrize("suffix", [".nii.gz", ".mgz"])
def test_compressed_bombs(tmp_path, suffix):
    """A small file may neither hold a volume of many GB, nor anything long after its volume."""
    path = tmp_path / f"scan{suffix}"
    kind = nibabel.MGHImage if suffix == ".mgz" else nibabel.Nifti1Image
    header = kind(np.zeros((1, 1, 1), np.uint8), np.eye(4)).header.copy()
    header.set_data_shape((3000, 3000, 3000))
    content = header.binaryblock + bytes(10)
    path.write_bytes(gzip.compress(content))
    with pytest.raises(DataError, match=r"would take .* GB of memory") as caught:
        read_volume(path)
    assert "\n" not in str(caught.value)
    nibabel.save(kind(np.arange(60, dtype=np.uint8).reshape(3, 4, 5), np.eye(4)), path)
    content = gzip.decompress(path.read_bytes())
    read_volume(path)
    path.write_bytes(gzip.compress(content + bytes(40_000_000)))
    with pytest.raises(DataError, match="it goes on after its volume"):
        read_volume(path)
