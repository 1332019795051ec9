"""Files of a segmentation model that are broken, or made to break the program: one DataError, little memory."""

import copy
import json
import zlib

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from hardmax.applications.segmentation.atlas.atlas import VELOCITY_GRID, Atlas
from hardmax.applications.segmentation.atlas.transforms import make_centred_grid
from hardmax.applications.segmentation.model_folder import load_part
from hardmax.applications.segmentation.vae.image_encoder import ImageEncoder
from hardmax.applications.segmentation.volumes.labels import STRUCTURES
from hardmax.errors import DataError

ODD = (None, True, 7, -1, 0, 0.5, 10**400, 2**40, "text", [], [None], {}, {"a": "b"}, [2**20] * 4, [-1, -1, 4, 4])
DEEP = "[" * 100_000


def make_atlas():
    maps, velocities = torch.zeros(3, 4, 4, 4, dtype=torch.uint8), torch.zeros(3, 3, *VELOCITY_GRID.shape)
    return Atlas(torch.full((2, 4, 4, 4), 0.5), make_centred_grid((4, 4, 4), 2.0), STRUCTURES, (0, 1), maps, velocities)


PARTS = {"atlas": make_atlas, "encoder": lambda: ImageEncoder((8, 8, 8), 2, 4)}
KINDS = {"atlas": Atlas, "encoder": ImageEncoder}


@pytest.fixture(params=PARTS)
def part(request, tmp_path):
    """Return the name of a part, its folder, and a function that loads it."""
    PARTS[request.param]().save_pretrained(tmp_path / request.param)
    return request.param, tmp_path / request.param, lambda: load_part(KINDS[request.param], tmp_path, request.param)


def list_places(content, place=()):
    """Return the place of every value of JSON, but of one label only."""
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        yield (*place, key)
        if place[-1:] != ("labels",) or key == 1:
            yield from list_places(value, (*place, key))


def test_every_value_of_the_configuration(part):
    _, folder, load = part
    config = json.loads((folder / "config.json").read_text())
    refused = 0
    for place in list_places(config):
        for value in ODD:
            changed = copy.deepcopy(config)
            parent = changed
            for key in place[:-1]:
                parent = parent[key]
            parent[place[-1]] = value
            (folder / "config.json").write_text(json.dumps(changed))
            try:
                load()
            except DataError as error:
                refused += 1
                assert "\n" not in str(error)  # noqa: PT017
    assert refused > 30


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00", '{"model": ' + DEEP])
def test_a_configuration_that_is_none(part, text):
    _, folder, load = part
    (folder / "config.json").write_text(text)
    with pytest.raises(DataError):
        load()


def test_torn_and_altered_tensors(part):
    _, folder, load = part
    content = (folder / "model.safetensors").read_bytes()
    random = np.random.default_rng(0)
    for _ in range(100):
        altered = bytearray(content)
        for place in random.integers(0, len(content), 3):
            altered[place] = random.integers(256)
        (folder / "model.safetensors").write_bytes(altered[: random.integers(len(altered))])
        with pytest.raises(DataError):
            load()
        (folder / "model.safetensors").write_bytes(altered)
        try:
            load()
        except DataError:
            continue


class TestAtlas:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path):
        make_atlas().save_pretrained(tmp_path / "atlas")
        self.folder = tmp_path / "atlas"
        self.config = json.loads((self.folder / "config.json").read_text())

    def write(self, **arrays):
        small = {
            "probabilities": np.full(128, 127, np.uint8),
            "maps": np.zeros(192, np.uint8),
            "velocities": np.full(9 * 22 * 26 * 22, 128, np.uint8),
        }
        tensors = {
            name: torch.frombuffer(bytearray(zlib.compress(array.tobytes(), 9)), dtype=torch.uint8)
            for name, array in (small | arrays).items()
        }
        save_file(tensors, self.folder / "model.safetensors")

    def load(self):
        return Atlas.from_pretrained(self.folder)

    def test_a_bomb_is_not_decompressed(self):
        import tracemalloc

        self.write(maps=np.zeros(200_000_000, np.uint8))  # 200 kB in the file
        tracemalloc.start()
        with pytest.raises(DataError, match="expected 192 bytes for the shape"):
            self.load()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 100_000_000

    def test_a_shape_beyond_all_brains(self):
        self.config["shape"] = [2, 2**12, 2**12, 2**12]
        (self.folder / "config.json").write_text(json.dumps(self.config))
        with pytest.raises(DataError, match="of memory"):
            self.load()

    def test_labels_that_do_not_exist(self):
        self.write(maps=np.full(192, 5, np.uint8))
        with pytest.raises(DataError, match="a map has the label 5, and there are 2"):
            self.load()
        self.write()
        self.load()
        self.config["kept"] = [0, 19]
        (self.folder / "config.json").write_text(json.dumps(self.config))
        with pytest.raises(DataError, match=r"expected places in a table of 19"):
            self.load()
