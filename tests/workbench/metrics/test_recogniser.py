"""The recogniser of attributes: it learns, is reproducible, and ignores unknown attributes."""

import torch

from hardmax.metrics.judges import measure_accuracy, predict_attributes, train_recogniser


def images(count, seed):
    """Noise with a bright upper or lower half, or both: two bits."""
    generator = torch.Generator().manual_seed(seed)
    bits = torch.randint(2, (count, 2), generator=generator)
    x = 0.3 * torch.rand(count, 1, 12, 12, generator=generator)
    x[:, :, :6] += 0.5 * bits[:, :1, None, None]
    x[:, :, 6:] += 0.5 * bits[:, 1:, None, None]
    return x, bits


def test_it_learns():
    x, bits = images(400, 0)
    state = torch.random.get_rng_state()
    judge = train_recogniser(x, bits, images(100, 1), epochs=12)
    assert torch.equal(torch.random.get_rng_state(), state)
    test, wanted = images(200, 2)
    assert (measure_accuracy(predict_attributes(judge, test), wanted) > 0.95).all()
    assert (measure_accuracy(predict_attributes(judge, test), 1 - wanted) < 0.05).all()
    again = train_recogniser(x, bits, images(100, 1), epochs=12)
    assert all(torch.equal(a, b) for a, b in zip(judge.parameters(), again.parameters(), strict=True))


def test_unknown_attributes_are_ignored():
    x, bits = images(200, 0)
    lies = bits.clone()
    lies[100:] = 1 - bits[100:]
    unknown = bits.clone()
    unknown[100:] = -1
    validation = images(100, 1)
    accuracies = [
        measure_accuracy(predict_attributes(train_recogniser(x, own, validation, epochs=25), x), bits)
        for own in (unknown, lies)
    ]
    assert (accuracies[0] > 0.9).all()
    assert (accuracies[0] > accuracies[1]).all()


def test_shares():
    predicted, attributes = torch.tensor([[0, 1], [1, 1], [1, 0]]), torch.tensor([[0, 1], [0, -1], [1, 1]])
    torch.testing.assert_close(measure_accuracy(predicted, attributes), torch.tensor([2 / 3, 0.5]))
