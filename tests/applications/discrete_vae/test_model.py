"""The discrete VAE as a module: networks, saving, loading."""

import json

import pytest
import torch

import hardmax as hm

SPACES = [hm.Categorical(6), hm.Categorical(3, 2), hm.Binary(5), hm.PairwiseBinary(4)]
STRUCTURED = [
    hm.PairwiseBinary(5, [(0, 1), (2, 4)]),
    hm.PairwiseBinary(5, supermodular=True, solver="enumeration"),
    hm.PairwiseBinary(30, [(i, i + 1) for i in range(29)]),
    hm.Subset(6, 2),
    hm.Chain(3, 4),
    hm.Permutation(4),
    hm.SpanningTree(4),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
@pytest.mark.parametrize("architecture", ["mlp", "conv"])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 17, 33), (1, 8, 8)], ids=str)
@pytest.mark.parametrize("likelihood", ["bernoulli", "gaussian"])
def test_every_part_gets_a_gradient(space, architecture, shape, likelihood):
    model = hm.DiscreteVAE.build(
        space, shape, architecture=architecture, hidden=20, prior="learned", likelihood=likelihood
    )
    x = torch.rand(4, *shape)
    out = model(x)
    (-out.value.mean()).backward()
    assert out.value.shape == (4,)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
    images, z = model.sample(3)
    assert images.shape == (3, *shape)
    assert z.shape == (3, *space.event_shape)
    assert (model.bounds(x).elbo <= model.bounds(x).log_likelihood + 1e-3).all()


def test_bits_are_decoded_with_their_complements():
    model = hm.DiscreteVAE.build(hm.Binary(15), (1, 28, 28))
    assert model.decoder.layers[0].in_features == 30
    assert [layer.out_features for layer in model.decoder.layers if hasattr(layer, "out_features")] == [300, 784]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_save_and_load(space, tmp_path):
    model = hm.DiscreteVAE.build(space, (1, 9, 9), hidden=8, prior="learned", likelihood="gaussian")
    model.save_pretrained(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
    before = torch.get_rng_state()
    loaded = hm.DiscreteVAE.from_pretrained(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)
    assert loaded.space == space
    for (name, a), (_, b) in zip(model.state_dict().items(), loaded.state_dict().items(), strict=True):
        assert torch.equal(a, b), name


@pytest.mark.parametrize("space", STRUCTURED, ids=str)
@pytest.mark.parametrize("estimator", ["auto", hm.Direct(), hm.GumbelSoftmax()], ids=str)
def test_structured_spaces(space, estimator, tmp_path):
    model = hm.DiscreteVAE.build(space, (1, 6, 6), hidden=12)
    x = torch.rand(4, 1, 6, 6).round()
    if estimator == hm.Direct() and not space.offers("change"):
        estimator = hm.Direct(full=True)
    if estimator == hm.GumbelSoftmax() and not space.offers("relax"):
        estimator = hm.ConditionalGradient()
    out = model(x, estimator=estimator)
    (-out.value.mean()).backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())
    bounds = model.bounds(x, samples=20)
    assert (bounds.elbo <= bounds.log_likelihood + 1e-3).all()
    assert model.sample(3)[1].shape == (3, *space.event_shape)
    if space.offers("change"):
        assert model.greedy_bound(x).shape == (4,)
    model.save_pretrained(tmp_path)
    assert hm.DiscreteVAE.from_pretrained(tmp_path).space == space


def test_refined_is_deprecated():
    model, x = hm.DiscreteVAE.build(hm.Binary(3), (1, 4, 4), hidden=8), torch.rand(2, 1, 4, 4).round()
    with pytest.warns(DeprecationWarning, match="use DiscreteVAE.greedy_bound"):
        assert torch.equal(model.refined(x), model.greedy_bound(x))


def test_deeper_encoders(tmp_path):
    model = hm.DiscreteVAE.build(hm.Binary(5), (1, 6, 6), hidden=12, encoder_layers=3)
    widths = [layer.in_features for layer in model.encoder.layers if isinstance(layer, torch.nn.Linear)]
    assert widths == [36, 12, 12, 12]
    model.save_pretrained(tmp_path)
    x = torch.rand(2, 1, 6, 6)
    assert torch.equal(hm.DiscreteVAE.from_pretrained(tmp_path).encoder(x), model.encoder(x))
    with pytest.raises(hm.ArgumentError, match="mlp"):
        hm.DiscreteVAE.build(hm.Binary(5), (1, 6, 6), architecture="conv", encoder_layers=2)


def test_a_prior_that_cannot_be_learned():
    for space in (hm.PairwiseBinary(30), hm.PairwiseBinary(4, supermodular=True)):
        with pytest.raises(hm.ArgumentError, match="'uniform'"):
            hm.DiscreteVAE.build(space, (1, 6, 6), prior="learned")


def test_own_networks(tmp_path):
    def make():
        encoder = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 6))
        return hm.DiscreteVAE(encoder, torch.nn.Linear(6, 16), hm.Categorical(6))

    model = make()
    model.save_pretrained(tmp_path)
    with pytest.raises(hm.DataError, match="networks of your own"):
        hm.DiscreteVAE.from_pretrained(tmp_path)
    loaded = hm.DiscreteVAE.from_pretrained(tmp_path, make())
    x = torch.rand(2, 4, 4)
    assert torch.equal(loaded.encoder(x), model.encoder(x))


class TestBrokenFiles:
    @pytest.fixture
    def folder(self, tmp_path):
        hm.DiscreteVAE.build(hm.Binary(3), (1, 4, 4), hidden=8).save_pretrained(tmp_path)
        return tmp_path

    def test_missing(self, folder):
        (folder / "model.safetensors").unlink()
        with pytest.raises(hm.DataError, match=r"model\.safetensors is missing"):
            hm.DiscreteVAE.from_pretrained(folder)

    def test_truncated(self, folder):
        file = folder / "model.safetensors"
        file.write_bytes(file.read_bytes()[:100])
        with pytest.raises(hm.DataError, match="cannot read the model"):
            hm.DiscreteVAE.from_pretrained(folder)

    def test_a_pickle_is_not_unpickled(self, folder):
        torch.save({"layers": torch.zeros(3)}, folder / "model.safetensors")
        with pytest.raises(hm.DataError, match="cannot read the model"):
            hm.DiscreteVAE.from_pretrained(folder)

    def test_another_configuration(self, folder):
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "hidden": 9}))
        with pytest.raises(hm.DataError, match="do not fit"):
            hm.DiscreteVAE.from_pretrained(folder)
        (folder / "config.json").write_text(json.dumps({**config, "space": {"name": "torus"}}))
        with pytest.raises(hm.DataError, match="not hold the configuration"):
            hm.DiscreteVAE.from_pretrained(folder)


@pytest.mark.parametrize("options", [{"prior": "flat"}, {"likelihood": "poisson"}])
def test_bad_names(options):
    with pytest.raises(Exception, match=r"prior|likelihood"):
        hm.DiscreteVAE(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2), hm.Binary(2), **options)
