"""Training of the mixed VAE: losses, the schedule of weights, and that stopping or sharing a run changes nothing."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import hardmax as hm
from hardmax.applications.mixed_vae import MixedVAE, SharedGaussian
from hardmax.applications.mixed_vae.config import MixedConfig, Weights, schedule_weights
from hardmax.applications.mixed_vae.supervision import (
    align_scores,
    consistency_loss,
    label_loss,
    prepare_labelled_split,
    recognition_loss,
)
from hardmax.applications.mixed_vae.task import MixedTask, evaluate
from hardmax.applications.runs import load_run, train
from hardmax.data.augmentation import distort, draw_distortions
from hardmax.errors import ArgumentError
from hardmax.training.loop import Observer
from hardmax.training.processes import Group
from hardmax.training.run_folder import read_rows
from hardmax.training.state import State

PATTERNS = np.random.default_rng(0).integers(0, 2, (4, 8, 8))


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    """Four patterns with noise; the label is the number of the pattern."""
    generator = np.random.default_rng(1)
    labels = np.arange(800) % 4
    noise = generator.random((800, 8, 8)) < 0.1
    path = tmp_path_factory.mktemp("data") / "classes.npz"
    np.savez(path, images=((PATTERNS[labels] ^ noise) * 255).astype(np.uint8), labels=labels)
    return str(path)


@pytest.fixture(scope="module")
def attributes(tmp_path_factory):
    """Two bits, each of which turns one half of an image bright; colour."""
    generator = np.random.default_rng(2)
    bits = generator.integers(0, 2, (400, 2))
    images = generator.integers(0, 60, (400, 8, 8, 3))
    images[:, :4] += 150 * bits[:, :1, None, None]
    images[:, 4:] += 150 * bits[:, 1:, None, None]
    path = tmp_path_factory.mktemp("data") / "attributes.npz"
    np.savez(
        path, images=images.astype(np.uint8), attributes=bits.astype(np.uint8), attribute_names=["Top", "Low_Half"]
    )
    return str(path)


def make_config(data, out, **options):
    small = {"labels": 8, "epochs": 6, "lr": 3e-3, "head_epochs": 1, "labelled_batch": 8, "augment": "none"}
    # With only eight labels, a wrong confident prediction in the first steps would not be corrected later.
    return MixedConfig(data=data, out=str(out), **{**small, "confidence": 0.95, **options})


@pytest.mark.parametrize("supervision", ["argmax", "cross-entropy", "hamming"])
def test_eight_labels_are_enough_for_four_patterns(supervision, classes, tmp_path):
    rows = []
    assert train(make_config(classes, tmp_path / "run", supervision=supervision), Observer(on_epoch=rows.append))
    assert rows[-1][2]["accuracy"] > 0.95
    assert -rows[-1][2]["elbo"] < -rows[0][2]["elbo"] - 5
    assert rows[0][0]["elbo"] is None  # the first epoch has only labels and consistency
    assert rows[1][0]["elbo"] is not None


def test_attributes_are_bits_of_a_colour_image(attributes, tmp_path):
    options = {"attributes": "low half,top", "labels": 20, "binarize": "none", "epochs": 12, "continuous": 4}
    config = make_config(attributes, tmp_path / "run", **options)
    assert train(config)
    model = load_run(config.out, kind=MixedVAE).model
    assert model.space == hm.Binary(2)
    assert isinstance(model.join, SharedGaussian)
    metrics = evaluate(model, prepare_labelled_split(config, MixedTask.load_data(config), "test"))
    assert metrics["accuracy"] > 0.9
    z = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    dark, low, top = model.sample(3, z_d=z, z_c=torch.zeros(3, 1, model.join.c))[0]
    assert (
        low[:, 4:].mean() > dark[:, 4:].mean() + 0.2
    )  # the first bit is the lower half: the order is that of --attributes
    assert top[:, :4].mean() > dark[:, :4].mean() + 0.2


def test_a_run_that_is_stopped_and_resumed_is_the_same(classes, tmp_path):
    whole = make_config(classes, tmp_path / "whole", epochs=3, augment="affine", consistency=1.0, confidence=0.3)
    train(whole)
    parts, calls = replace(whole, out=str(tmp_path / "parts")), 0

    def stop():
        nonlocal calls
        calls += 1
        return calls == 11

    assert not train(parts, Observer(should_stop=stop))
    assert train(replace(parts, resume=True))
    assert (tmp_path / "whole" / "metrics.jsonl").read_text() == (tmp_path / "parts" / "metrics.jsonl").read_text()
    first, second = (load_run(tmp_path / name, "latest").model.state_dict() for name in ("whole", "parts"))
    assert all(torch.equal(first[name], second[name]) for name in first)


def compute_in_parts(config, size, count):
    """Return gradients and sums of a step, added up over the parts of `size` processes."""
    gradients, sums = [], []
    images = MixedTask.load_data(config)
    for rank in range(size):
        task = MixedTask.build(config, images, 0, Group(rank, size))
        index = State(task).begin_epoch()[0][:count]
        sums.append(task.add_gradients(index, 1, 0))
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in task.model.parameters()]
        gradients.append(torch.cat([gradient.view(-1) for gradient in parts]))
    return torch.stack(gradients).sum(0), torch.stack(sums).sum(0)


@pytest.mark.parametrize("count", [9, 2])
def test_parts_of_a_batch_add_up_to_the_whole(count, classes, tmp_path):
    config = make_config(classes, tmp_path, augment="elastic", confidence=0.1, labelled_batch=5, recognition=2.0)
    (whole, sums), (parts, added) = (compute_in_parts(config, size, count) for size in (1, 3))
    torch.testing.assert_close(parts, whole, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(added, sums, rtol=1e-4, atol=1e-4)


def test_evaluation_in_parts(classes, tmp_path, monkeypatch):
    config = make_config(classes, tmp_path)
    images = MixedTask.load_data(config)
    task, tensors = MixedTask.build(config, images), []
    test = prepare_labelled_split(config, images, "test")
    whole = evaluate(task.model, test, batch_size=7)
    monkeypatch.setattr(Group, "all_reduce", lambda self, tensor: tensors.append(tensor))
    for rank in range(3):
        evaluate(task.model, test, batch_size=7, group=Group(rank, 3))
    assert (sum(tensors)[0] / len(test)).item() == pytest.approx(whole["elbo"])


def test_labelled_images_are_of_the_training_part_and_balanced(classes, tmp_path):
    config = make_config(classes, tmp_path, labels=12)
    images = MixedTask.load_data(config)
    tasks = [MixedTask.build(replace(config, label_seed=seed), images) for seed in (None, 0, 1)]
    assert torch.equal(tasks[0].labelled.x, tasks[1].labelled.x)
    assert not torch.equal(tasks[0].labelled.x, tasks[2].labelled.x)
    for task in tasks:
        assert task.labelled.labels.bincount().tolist() == [3, 3, 3, 3]
        train_part = {tuple(x.flatten().tolist()) for x in task.train_images.x}
        assert all(tuple(x.flatten().tolist()) in train_part for x in task.labelled.x)


def test_the_gradient_of_labels_is_that_of_cross_entropy_in_the_mean():
    generator = torch.Generator().manual_seed(0)
    for space, target in (
        (hm.Categorical(4), torch.eye(4)[[2, 0]].double()),
        (hm.Binary(3), torch.tensor([[0, 1, 1], [1, 0, 0]]).double()),
    ):
        scores = torch.randn(2, *space.score_shape, dtype=torch.float64, generator=generator)
        expected = torch.func.grad(lambda s, t=target, sp=space: -sp.log_prob(s, t).sum())(scores)
        draws = 4000
        many = scores.repeat(draws, *[1] * (scores.dim() - 1)).requires_grad_()
        noise = space.noise((1, 2 * draws), generator, dtype=torch.float64)
        label_loss(many, target.repeat(draws, 1), space, "argmax", epsilon=0.5, noise=noise).sum().backward()
        gradients = many.grad.view(draws, *scores.shape)
        error = gradients.std(0) / draws**0.5
        z = (gradients.mean(0) - expected / 0.5) / error.clamp(min=1e-3)
        assert z.abs().max() < 5
        exact = label_loss(scores, target, space, "cross-entropy", epsilon=0.5, noise=noise[:, :2])
        torch.testing.assert_close(exact, -space.log_prob(scores, target))


def test_the_gradient_of_a_loss_of_the_users_follows_theorem_1():
    """The expected number of wrong bits, by enumeration and through direct optimization as epsilon falls."""
    space, generator = hm.Binary(3), torch.Generator().manual_seed(0)
    target, scores = torch.tensor([[0.0, 1.0, 1.0]]).double(), torch.tensor([[0.3, -0.2, 0.5]]).double()
    members = space.enumerate(dtype=torch.float64)

    def wrong(s):
        return (space.log_probs(s).exp() * (members - target).abs().sum(-1)).sum()

    expected, draws, errors = torch.func.grad(wrong)(scores), 20000, []
    noise = space.noise((1, draws), generator, dtype=torch.float64)
    for epsilon in (2.0, 0.25):
        many = scores.repeat(draws, 1).requires_grad_()
        loss = label_loss(many, target.repeat(draws, 1), space, "hamming", epsilon=epsilon, noise=noise)
        assert loss.mean().item() == pytest.approx(wrong(scores).item(), abs=0.03)
        loss.sum().backward()
        errors.append((many.grad.mean(0) - expected).abs().max().item())
    assert errors[1] < 0.04 < errors[0] / 2


def test_a_wrong_category_is_one_error():
    space = hm.Categorical(3)
    scores, target = torch.tensor([[50.0, 0.0, 0.0]] * 2), torch.eye(3)[:2]
    loss = label_loss(scores, target, space, "hamming", epsilon=1.0, noise=torch.zeros(1, 2, 3))
    assert loss.tolist() == [0.0, 1.0]


def test_consistency_trains_only_the_distorted_copy_where_it_is_confident():
    space = hm.Categorical(3)
    original = torch.tensor([[5.0, 0.0, 0.0], [0.4, 0.3, 0.2]], requires_grad=True)
    distorted = torch.zeros(2, 3, requires_grad=True)
    losses, is_confident = consistency_loss(original, distorted, space, 0.9)
    assert is_confident.tolist() == [True, False]
    assert losses.tolist() == [pytest.approx(np.log(3)), 0.0]
    losses.sum().backward()
    assert original.grad is None
    assert distorted.grad[0, 0] < 0 < distorted.grad[0, 1]
    assert (distorted.grad[1] == 0).all()


@pytest.mark.parametrize("space", [hm.Categorical(4), hm.Binary(3)], ids=str)
def test_scores_are_aligned_by_bayes_rule(space):
    """Posteriors under one prior become posteriors under another prior."""
    generator = torch.Generator().manual_seed(0)
    likelihood = torch.randn(5, *space.score_shape, generator=generator, dtype=torch.float64)
    prior, other = torch.randn(2, *space.score_shape, generator=generator, dtype=torch.float64)
    aligned = align_scores(likelihood + prior, prior, other)
    torch.testing.assert_close(space.marginals(aligned), space.marginals(likelihood + other))
    aligned = align_scores(likelihood + prior, prior, None)
    torch.testing.assert_close(space.marginals(aligned), space.marginals(likelihood))


@pytest.mark.parametrize(("align", "aligns"), [("auto", True), ("none", False)])
def test_frequencies_of_predicted_classes_are_learned_and_corrected(align, aligns, classes, tmp_path):
    """An encoder that always predicts the first class: its frequency is learned, and it is no longer a target."""
    config = make_config(classes, tmp_path, align=align, lr=0.1, confidence=0.5)
    task = MixedTask.build(config, MixedTask.load_data(config))
    with torch.no_grad():
        task.model.discrete.layers[-1].bias.add_(torch.tensor([6.0, 0.0, 0.0, 0.0]))
    state, sure = State(task), []
    for parameter in task.model.parameters():
        parameter.requires_grad_(False)
    task.labelled = None
    for index in state.begin_epoch() * 12:
        sums = task.add_gradients(index, 0, 0)
        state.optimizer.step()
        state.optimizer.zero_grad()
        sure.append(float(sums[task.sums.index("sure")]) / len(index))
    assert (sure[0] == 1, sure[-1] == 1) == (True, not aligns)
    assert bool(task.extra_parameters) == aligns
    if aligns:
        assert task.extra_parameters[0].softmax(0)[0] > 0.5


def test_attributes_are_not_aligned_unless_asked(attributes, tmp_path):
    for align, count in (("auto", 0), ("prior", 1)):
        config = make_config(attributes, tmp_path, attributes="top", align=align)
        assert len(MixedTask.build(config, MixedTask.load_data(config)).extra_parameters) == count


def test_distortions():
    generator = torch.Generator().manual_seed(0)
    image = torch.zeros(1, 1, 28, 28)
    image[..., 12:16, 6:10] = 1  # left of the middle
    left = (torch.arange(28) - 13.5) < 0
    for kind, mirrored in (("shift", False), ("affine", False), ("elastic", False), ("flip", True)):
        matrices = draw_distortions(kind, 64, generator)
        copies = distort(image.expand(64, 1, 28, 28), matrices)
        assert 0.6 < copies.sum() / (64 * 16) < 1.6  # nothing is lost
        on_the_left = (copies[..., left].sum((1, 2, 3)) > copies.sum((1, 2, 3)) / 2).float().mean()
        assert (0.2 < on_the_left < 0.8) == mirrored
        assert len({tuple(copy.flatten().tolist()) for copy in copies}) == 64
    image = torch.rand(1, 3, 5, 6, generator=generator)
    mirrored = distort(image.expand(64, 3, 5, 6), draw_distortions("mirror", 64, generator))
    unchanged, flipped = (torch.isclose(mirrored, p).all((1, 2, 3)) for p in (image, image.flip(-1)))
    assert (unchanged | flipped).all()
    assert 16 < unchanged.sum() < 48
    first, second = (draw_distortions("elastic", 5, generator.manual_seed(1)) for _ in range(2))
    assert torch.equal(first.matrices, second.matrices)
    assert torch.equal(first.bends, second.bends)


def test_weights_by_epoch():
    config = MixedConfig(head_epochs=2)
    assert schedule_weights(config, 1) == Weights(0.0, 0.0, 10.0, 10.0, 0.0)
    assert schedule_weights(config, 2) == Weights(1.0, 0.1, 10.0, 10.0, 0.0)
    assert schedule_weights(replace(config, labels=0), 0) == Weights(1.0, 0.0, 0.0, 0.0, 0.0)
    first = replace(config, schedule="labelled-first")
    assert schedule_weights(first, 1) == Weights(0.0, 0.1, 10.0, 0.0, 0.0)
    assert schedule_weights(first, 2) == Weights(1.0, 0.0, 0.0, 0.0, 0.0)
    assert schedule_weights(replace(config, elbo=0.0), 5) == Weights(0.0, 0.0, 10.0, 10.0, 0.0)
    for recognition, weight in ((None, 5.0), (0.0, 0.0), (2.0, 2.0)):
        assert schedule_weights(replace(config, attributes="a", recognition=recognition), 2).recognition == weight


def test_recognition_trains_the_decoder_and_not_the_encoder():
    model = MixedVAE.build(hm.Binary(2), (1, 6, 6), join="beside", continuous=3, hidden=16)
    z_d, z_c = torch.tensor([[0.0, 1.0], [1.0, 1.0]]), torch.randn(2, 1, 3, requires_grad=True)
    losses = recognition_loss(model, z_d, z_c)
    images = model.decode(z_d, z_c.detach())
    torch.testing.assert_close(losses, -model.space.log_prob(model.scores(images), z_d))
    losses.sum().backward()
    assert all(parameter.grad is None for parameter in [*model.trunk.parameters(), *model.discrete.parameters()])
    assert all(parameter.grad is not None for parameter in model.decoder.parameters())
    assert z_c.grad.abs().sum() > 0


def test_recognition_starts_after_the_head_epochs(attributes, tmp_path):
    options = {"attributes": "top", "binarize": "none", "epochs": 2, "recognition": 1.0}
    config = make_config(attributes, tmp_path / "run", **options)
    assert schedule_weights(config, 0).recognition == 0.0
    rows = []
    assert train(config, Observer(on_epoch=rows.append))
    assert rows[0][0]["recognition_loss"] is None
    assert rows[1][0]["recognition_loss"] > 0


def test_terms_that_are_turned_off_are_not_in_the_rows(classes, tmp_path):
    train(make_config(classes, tmp_path / "run", elbo=0.0, consistency=0.0, epochs=1))
    row = read_rows(tmp_path / "run" / "metrics.jsonl")[0]
    assert row["label_loss"] > 0
    assert row["elbo"] is row["sure"] is row["consistency_loss"] is None


def test_training_without_labels(classes, tmp_path):
    config = make_config(classes, tmp_path / "run", labels=0, epochs=2, categories=6)
    assert train(config)
    assert load_run(config.out, kind=MixedVAE).model.space == hm.Categorical(6)


def test_a_grey_encoder_input_leaves_the_likelihood_to_rounded_images(attributes, tmp_path):
    config = make_config(attributes, tmp_path, attributes="top", encoder_input="grey")
    images = prepare_labelled_split(config, MixedTask.load_data(config), "train")
    assert set(images.x.unique().tolist()) <= {0.0, 1.0}
    assert len(images.encoder_input.unique()) > 50


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": -1}, "labels must not be negative"),
        ({"confidence": 1.0}, "confidence must be at least 0 and below 1"),
        ({"labels": 0, "elbo": 0.0}, "nothing to learn from"),
        ({"labels": 0, "schedule": "labelled-first"}, "needs --labels"),
        ({"attributes": "a", "categories": 3}, "give one of the two"),
        ({"continuous": 0}, "continuous must be at least 1"),
    ],
    ids=str,
)
def test_invalid_options(options, message):
    with pytest.raises(ArgumentError, match=message):
        MixedConfig(**options)


def test_data_that_do_not_fit(classes, attributes, tmp_path):
    with pytest.raises(ArgumentError, match=r"'Topp'.*Top"):
        train(make_config(attributes, tmp_path / "run", attributes="Topp"))
    with pytest.raises(ArgumentError, match="has no classes"):
        train(make_config(attributes, tmp_path / "run"))
    with pytest.raises(ArgumentError, match="leave out"):
        train(make_config(classes, tmp_path / "run", labels=2))
    assert not (tmp_path / "run").exists()
