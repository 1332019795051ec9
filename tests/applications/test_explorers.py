"""The latent explorers of all applications: states, views, and code that runs and gives the same image."""

import contextlib
import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from hardmax.applications.explorer_controls import (
    PHOTO,
    BackdropView,
    BarsView,
    ChoiceControl,
    ImageControl,
    ImagesView,
    NumberControl,
    PaintControl,
    SliderControl,
    TokensView,
    check_state,
    press,
)
from hardmax.applications.registry import find_application
from hardmax.applications.runs import read_run
from hardmax.drawing.images import make_grid, read_data_uri
from hardmax.errors import DataError
from hardmax.training.task import prepare_split

SAVED = Path(__file__).parents[1] / "compatibility" / "saved"
# Kinds of runs of `conftest.KINDS`.
CODES = ("categorical", "variables", "bits", "subset", "chain", "permutation", "tree", "many", "gaussian")
TRAINED = (*CODES, "classes", "attributes", "dvae", "codes", "rgb")
STORED = ("completion", "sequence-gan")  # in tests/compatibility


def load_explorer(folder):
    """Return the explorer of the run in a folder."""
    run = read_run(folder)
    return find_application(run.config.model).load_explorer()(run)


@pytest.fixture(scope="session")
def explorer(trained, tmp_path_factory):
    """Return a function from the name of a run to its explorer."""
    saved = tmp_path_factory.mktemp("saved") / "saved"
    shutil.copytree(SAVED, saved)
    explorers = {}

    def load(name):
        if name not in explorers:
            with contextlib.chdir(saved):  # data of saved runs are given by a relative path
                explorers[name] = load_explorer(saved / name if name in STORED else trained(name))
        return explorers[name]

    load.folder = saved
    return load


def find_control(explorer, kind):
    return next((control for control in explorer.controls if isinstance(control, kind)), None)


def read_pixels(tile):
    return np.asarray(read_data_uri(tile.source))


def change_at_random(control, stream):
    """Return a random valid value of a control."""
    if isinstance(control, ImageControl):
        return stream.randrange(control.count)
    if isinstance(control, NumberControl):
        return stream.randint(control.low, control.high)
    if isinstance(control, SliderControl):
        return [stream.uniform(control.low, control.high) for _ in control.sliders]
    if isinstance(control, ChoiceControl):
        return [stream.randrange(len(control.values)) for _ in control.variables]
    return [stream.randrange(len(control.colours)) for _ in range(control.height * control.width)]


@pytest.mark.parametrize("name", [*TRAINED, *STORED])
def test_any_state_is_drawn_and_survives_a_link(explorer, name):
    it, stream = explorer(name), random.Random(0)
    state = it.start()
    for _ in range(12):
        control = stream.choice(it.controls)
        changed = {**state, control.name: change_at_random(control, stream)}
        state = it.update(changed, control.name, None, state)
        assert check_state(it.controls, json.loads(json.dumps(state))) == state
        views = it.draw(state, None)
        assert views
        for view in views:
            if isinstance(view, BarsView):
                assert len(view.names) == len(view.values)
                assert all(0 <= value <= 1 + 1e-6 for value in view.values)
            if isinstance(view, ImagesView | BarsView | TokensView) and view.control:
                assert view.control in {control.name for control in it.controls}
        compile(it.write_python(state), "<code>", "exec")


@pytest.mark.parametrize("name", [*TRAINED, *STORED])
def test_the_code_runs_and_gives_what_the_page_shows(explorer, name, tmp_path):
    it, stream = explorer(name), random.Random(1)
    state = it.start()
    if (choice := find_control(it, ChoiceControl)) is not None and not choice.hidden:
        changed = press(choice, state[choice.name], stream.randrange(2))
        state = it.update({**state, choice.name: changed}, choice.name, None, state)
    code, names = it.write_python(state), {}
    folder = explorer.folder if name in STORED else tmp_path
    with contextlib.chdir(folder):
        exec(code, names)
    if name == "sequence-gan":
        shown = next(view for view in it.draw(state, None) if isinstance(view, BarsView))
        probabilities = names["probabilities"][state["position"][0]].tolist()
        assert shown.values == pytest.approx([probabilities[number] for number in shown.numbers], abs=1e-6)
        return
    views = it.draw(state, None)
    images = next(view for view in views if isinstance(view, ImagesView))
    if name == "completion":
        expected = [make_grid(image, padding=0) for image in names["completed"].images]
        assert [read_pixels(tile).tolist() for tile in images.tiles] == [np.asarray(x).tolist() for x in expected]
    elif name == "codes":
        assert [tile.caption[0].split()[0] for tile in images.tiles[1:]] == [
            str(d) for d in names["distances"].tolist()
        ]
    else:
        assert np.array_equal(read_pixels(images.tiles[2]), np.asarray(make_grid(names["image"], padding=0)))


@pytest.mark.parametrize("name", CODES)
def test_an_image_has_its_own_code_and_a_changed_code_is_in_the_space(explorer, name):
    it = explorer(name)
    state = it.update({**it.start(), "image": 5}, "image", None, it.start())
    decoded = it.draw(state, None)[0].tiles
    assert decoded[1].source == decoded[2].source
    space, stream = it._space, random.Random(2)
    from hardmax.applications.discrete_vae.explorer import make_code

    for _ in range(10):
        variable = stream.randrange(len(state["code"]))
        control = it.controls[1]
        wanted = [*state["code"]]
        wanted[variable] = (wanted[variable] + 1) % len(control.values)
        after = it.update({**state, "code": wanted}, "code", None, state)
        assert after["code"][variable] == wanted[variable]  # what the user has clicked is kept
        z = make_code(space, after["code"])
        if space.size < 5000:
            assert (space.enumerate() == z).flatten(1).all(1).any()
        state = after


def test_a_flipped_bit_changes_the_image_as_the_decoder_does(explorer):
    it = explorer("bits")
    state = it.start()
    flipped = it.update({**state, "code": press(it.controls[1], state["code"], 3)}, "code", None, state)
    z = torch.tensor([flipped["code"]], dtype=torch.float32)
    assert [a != b for a, b in zip(state["code"], flipped["code"], strict=True)] == [i == 3 for i in range(6)]
    expected = np.asarray(make_grid(it._model.decode(z), padding=0))
    before, after = (it.draw(s, None)[0].tiles[2] for s in (state, flipped))
    assert np.array_equal(read_pixels(after), expected)
    assert before.source != after.source
    changes = it.draw(state, None)[2]
    assert np.array_equal(read_pixels(changes.tiles[3]), expected)


def test_the_style_of_an_image_reconstructs_it(explorer):
    for name in ("classes", "attributes"):
        it = explorer(name)
        state = it.update({**it.start(), "image": 3}, "image", None, it.start())
        own, chosen = (read_pixels(tile).astype(int) for tile in it.draw(state, None)[0].tiles[1:])
        assert np.abs(own - chosen).max() <= 1  # sliders are rounded to three decimals
        moved = {**state, "style": [value + 1.5 for value in state["style"]]}
        assert it.draw(moved, None)[0].tiles[2].source != it.draw(state, None)[0].tiles[2].source


def test_painted_tokens_change_the_image_there(explorer):
    it = explorer("dvae")
    state = it.start()
    paint = find_control(it, PaintControl)
    assert it.draw(state, None)[1].note.startswith("0 of")
    painted = [(token + 1) % len(paint.colours) if i == 0 else token for i, token in enumerate(state["tokens"])]
    views = it.draw({**state, "tokens": painted}, None)
    assert isinstance(views[0], BackdropView)
    assert views[1].note.startswith("1 of")
    codebook = views[3]
    assert sorted(codebook.numbers) == list(range(12))
    assert [tile.mark for tile in codebook.tiles] == [
        "" if it._usage.share[number] else "dead" for number in codebook.numbers
    ]


def test_completions_keep_visible_pixels_and_a_hole_is_needed(explorer):
    it = explorer("completion")
    state = it.start()
    empty = it.draw({**state, "hole": [0] * len(state["hole"])}, None)
    full = it.draw({**state, "hole": [1] * len(state["hole"])}, None)
    assert "paint a hole" in empty[1].text
    assert "erase some" in full[1].text
    height, width = it.controls[1].height, it.controls[1].width
    hole = [int(column < width // 2) for _ in range(height) for column in range(width)]
    tiles = it.draw({**state, "hole": hole}, None)[1].tiles
    x = (it._run.test_examples.x[0, 0] * 255).round().numpy()
    assert len(tiles) == 8
    for tile in tiles:
        assert np.array_equal(read_pixels(tile)[:, width // 2 :], x[:, width // 2 :])
    weights = it.draw({**state, "hole": hole}, None)[2]
    assert sum(weights.values) == pytest.approx(1, abs=1e-5)


def test_the_query_is_found_at_distance_zero_and_a_flipped_bit_adds_one(explorer):
    it = explorer("codes")
    train = prepare_split(it._run.config, it._run.images, "train")
    x = train[7, None]
    state = it.update({**it.start(), "image": PHOTO}, "image", x, it.start())
    nearest = it.draw(state, x)[0].tiles
    assert nearest[1].caption[0] == "0 bits"
    codes = it._model.codes(train)
    flipped = {**state, "code": press(it.controls[1], state["code"], 0)}
    distances = (codes != torch.tensor(flipped["code"])).sum(1).sort().values[:12].tolist()
    assert [int(tile.caption[0].split()[0]) for tile in it.draw(flipped, x)[0].tiles[1:]] == distances


def test_a_sampled_sequence_has_the_probabilities_of_the_generator(explorer):
    it = explorer("sequence-gan")
    state = it.start()
    generator = it._model.generator
    tokens, _, bars = it.draw(state, None)
    z = torch.eye(generator.space.k)[state["tokens"]][None]
    assert sum(np.log(tokens.probabilities)) == pytest.approx(float(generator.log_prob(z).detach()), abs=1e-4)
    assert sum(bars.values) == pytest.approx(1, abs=1e-5)
    at = {**state, "position": [2]}
    other = (state["tokens"][2] + 1) % generator.space.k
    changed = it.update({**at, "token": [other]}, "token", None, at)
    assert changed["tokens"][:2] == state["tokens"][:2]
    assert changed["tokens"][2] == other
    # The same seed without a choice of the user gives the sample of the model's own noise.
    assert it.update({**changed, "seed": 0}, "seed", None, changed)["tokens"] == state["tokens"]
    counts = np.bincount([it._sample(seed, [])[0] for seed in range(800)], minlength=generator.space.k) / 800
    q = generator.scores(z)[0, 0].softmax(-1).detach().numpy()
    assert np.abs(counts - q).max() < 5 * np.sqrt(0.25 / 800)


def test_a_photo_becomes_an_input_of_the_model_and_a_bomb_is_refused(explorer, tmp_path):
    photo = tmp_path / "photo.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (60, 80, 3), dtype=np.uint8)).save(photo)
    bomb = tmp_path / "bomb.png"
    Image.new("1", (20_000, 20_000)).save(bomb)
    broken = tmp_path / "broken.png"
    broken.write_bytes(photo.read_bytes()[:300])
    for name in ("categorical", "classes", "attributes", "dvae", "codes", "rgb", "completion"):
        it = explorer(name)
        pixels = it.read_photo(photo)
        state = it.update({**it.start(), "image": PHOTO}, "image", pixels, it.start())
        assert it.draw(state, pixels)
        assert it.draw(state, None)  # the photo is gone, as in a link: the first example is shown
        names, folder = {}, explorer.folder if name in STORED else tmp_path
        if folder != tmp_path:
            shutil.copy(photo, folder)
        with contextlib.chdir(folder):
            exec(it.write_python(state), names)
        expected = pixels[1] if isinstance(pixels, tuple) else pixels
        assert torch.equal(names["x"], expected)
        for path in (bomb, broken):
            with pytest.raises(DataError):
                it.read_photo(path)


@pytest.mark.parametrize("value", [None, "x", -5, 10**9, True, 1.5, float("nan"), [], [0], [None] * 6, {"a": 1}, [[0]]])
def test_values_of_a_link_that_are_not_valid_become_the_default(explorer, value):
    for name in ("bits", "attributes", "dvae", "completion", "sequence-gan"):
        it = explorer(name)
        state = check_state(it.controls, {control.name: value for control in it.controls})
        assert check_state(it.controls, state) == state
        assert it.draw(it.update(state, it.controls[0].name, None, state), None)
