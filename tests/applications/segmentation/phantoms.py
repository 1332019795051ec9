"""Phantoms, small synthetic images of a brain: ellipses of three tissues of random shape on a dark background."""

import torch


def ellipse_labels(shape=(32, 32), *, generator, spread=0.12):
    """Return labels `[*shape]`: 0 background, 1 shell, 2 inside, 3 a small core off the centre."""
    axes = torch.meshgrid(*[torch.linspace(-1, 1, side) for side in shape], indexing="ij")

    def radius(size, shift):
        sides = size * torch.exp(spread * torch.randn(len(shape), generator=generator))
        centre = shift + spread * 0.3 * torch.randn(len(shape), generator=generator)
        return sum(((x - p) / s).square() for x, p, s in zip(axes, centre, sides, strict=True))

    labels = torch.zeros(shape, dtype=torch.int64)
    labels[radius(0.8, 0.0) < 1] = 1
    labels[(radius(0.55, 0.0) < 1) & (labels == 1)] = 2
    labels[(radius(0.25, 0.15) < 1) & (labels == 2)] = 3
    return labels


def one_hot(labels, count=4):
    """Return one map of labels `[*S]` as `[M, *S]`, one-hot."""
    return torch.nn.functional.one_hot(labels, count).movedim(-1, 0).float()


def ellipse_maps(number, shape=(32, 32), *, seed=0):
    """Return maps `[number, 4, *shape]`, one-hot."""
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([one_hot(ellipse_labels(shape, generator=generator)) for _ in range(number)])


def dice(predicted, truth, labels):
    """Return the mean Dice over labels."""
    scores = [
        2 * ((predicted == m) & (truth == m)).sum() / ((predicted == m).sum() + (truth == m).sum()) for m in labels
    ]
    return float(torch.stack(scores).mean())
