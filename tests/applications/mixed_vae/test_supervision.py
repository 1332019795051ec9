"""The choice of labelled images: balanced, by seed, nested, and never an image without a label."""

import pytest
import torch

from hardmax.applications.mixed_vae.supervision import draw_labelled
from hardmax.data import load_images
from hardmax.errors import ArgumentError

LABELS = torch.arange(1000) * 7 % 10


@pytest.mark.parametrize("count", [10, 50, 100, 1000])
def test_equal_shares(count):
    index = draw_labelled(LABELS, count, seed=1)
    assert index.dtype == torch.int64
    assert index.unique().shape == (count,)
    assert LABELS[index].bincount().tolist() == [count // 10] * 10


def test_the_remainder_is_assigned_by_the_seed():
    larger_classes = []
    for seed in range(20):
        counts = LABELS[draw_labelled(LABELS, 47, seed=seed)].bincount()
        assert sorted(counts.tolist()) == [4] * 3 + [5] * 7
        larger_classes.append(tuple((counts == 5).nonzero().flatten().tolist()))
    assert len(set(larger_classes)) > 15


def test_every_image_is_equally_likely():
    counts = torch.zeros(1000)
    for seed in range(400):
        counts[draw_labelled(LABELS, 100, seed=seed)] += 1
    # Binomial(400, 0.1): 40 +- 6; the extreme of a thousand is within 5 standard deviations.
    assert counts.min() > 10
    assert counts.max() < 70


def test_draws_are_nested_and_reproducible():
    assert torch.equal(draw_labelled(LABELS, 100, seed=3)[:50], draw_labelled(LABELS, 50, seed=3))
    assert not torch.equal(draw_labelled(LABELS, 50, seed=3), draw_labelled(LABELS, 50, seed=4))
    assert draw_labelled(torch.arange(12) % 3, 3, seed=0).tolist() == [10, 3, 8]


def test_images_without_a_label_are_not_drawn():
    labels = LABELS.clone()
    labels[::2] = -1
    index = draw_labelled(labels, 100, seed=0)
    assert (index % 2 == 1).all()
    assert labels[index].bincount(minlength=10).max() == 20


def test_a_small_class_gives_all_it_has():
    labels = torch.cat([torch.zeros(3), torch.ones(100), torch.full((100,), 2)]).long()
    assert labels[draw_labelled(labels, 43, seed=0)].bincount().tolist() == [3, 20, 20]


def test_combinations_of_attributes():
    bits = torch.stack([torch.arange(900) % 3 == 0, torch.arange(900) % 10 == 0], 1).long()
    chosen = bits[draw_labelled(bits, 40, seed=0)]
    assert (chosen @ torch.tensor([2, 1])).bincount().tolist() == [10, 10, 10, 10]
    half = torch.where(torch.arange(900)[:, None] < 450, bits, bits.new_tensor([1, -1]))
    assert draw_labelled(half, 40, seed=0).max() < 450


def test_fewer_than_combinations_is_fine_as_long_as_each_attribute_is_on_and_off():
    bits = torch.cartesian_prod(*[torch.arange(2)] * 8)
    chosen = bits[draw_labelled(bits, 60, seed=0)]
    assert len(chosen.unique(dim=0)) == 60
    assert ((chosen.sum(0) > 0) & (chosen.sum(0) < 60)).all()
    with pytest.raises(ArgumentError, match=r"1 labelled images leave out attribute 0 = [01]; ask for more"):
        draw_labelled(bits, 1, seed=0)


@pytest.mark.parametrize(
    ("labels", "count", "message"),
    [
        (LABELS, 1001, "count is 1,001, expected 1 to 1,000: 1,000 of the 1,000 images have a known label"),
        (LABELS, 0, "count is 0, expected 1 to 1,000"),
        (LABELS, -5, "count is -5"),
        (LABELS, 9, "9 labelled images leave out 1 of the 10 classes; ask for more"),
        (torch.where(LABELS > 7, LABELS, -1), 300, "expected 1 to 200: 200 of the 1,000 images have a known label"),
        (torch.full((30,), -1), 10, "none of the 30 images has a known label"),
        (torch.zeros(0, dtype=torch.int64), 1, "none of the 0 images"),
    ],
)
def test_invalid_counts(labels, count, message):
    with pytest.raises(ArgumentError, match=message):
        draw_labelled(labels, count)


def test_labels_of_training_images():
    images = load_images("sample")
    labels = images.labels["train"]
    index = draw_labelled(labels, 100, seed=0)
    assert index.max() < len(images.train)
    assert labels[index].bincount().tolist() == [10] * 10
