"""The judge: learns what is there to be seen, the same each time, and keeps out of what is not known."""

import torch

from hardmax.metrics.judges import measure_accuracy, recognise, train_recogniser


def pictures(count, seed):
    """Noise with a bright upper or lower half, or both: two bits."""
    generator = torch.Generator().manual_seed(seed)
    bits = torch.randint(2, (count, 2), generator=generator)
    x = 0.3 * torch.rand(count, 1, 12, 12, generator=generator)
    x[:, :, :6] += 0.5 * bits[:, :1, None, None]
    x[:, :, 6:] += 0.5 * bits[:, 1:, None, None]
    return x, bits


def test_it_learns():
    x, bits = pictures(400, 0)
    state = torch.random.get_rng_state()
    judge = train_recogniser(x, bits, pictures(100, 1), epochs=12)
    assert torch.equal(torch.random.get_rng_state(), state)
    test, wanted = pictures(200, 2)
    assert (measure_accuracy(recognise(judge, test), wanted) > 0.95).all()
    assert (measure_accuracy(recognise(judge, test), 1 - wanted) < 0.05).all()
    again = train_recogniser(x, bits, pictures(100, 1), epochs=12)
    assert all(torch.equal(a, b) for a, b in zip(judge.parameters(), again.parameters(), strict=True))


def test_what_is_not_known_teaches_nothing():
    x, bits = pictures(200, 0)
    lies = bits.clone()
    lies[100:] = 1 - bits[100:]
    unknown = bits.clone()
    unknown[100:] = -1
    validation = pictures(100, 1)
    told = [
        measure_accuracy(recognise(train_recogniser(x, own, validation, epochs=25), x), bits) for own in (unknown, lies)
    ]
    assert (told[0] > 0.9).all()
    assert (told[0] > told[1]).all()


def test_shares():
    found, wanted = torch.tensor([[0, 1], [1, 1], [1, 0]]), torch.tensor([[0, 1], [0, -1], [1, 1]])
    torch.testing.assert_close(measure_accuracy(found, wanted), torch.tensor([2 / 3, 0.5]))
