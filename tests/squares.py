"""Synthetic images with attributes: a square that is red or blue, on the left or on the right."""

import numpy as np

NAMES = ("red", "on_the_right")


def squares(count=240, size=16, seed=0):
    """Return images `[count, size, size, 3]` and their attributes `[count, 2]`."""
    random = np.random.default_rng(seed)
    bits = random.integers(0, 2, (count, 2))
    images = random.integers(30, 60, (count, size, size, 3)).astype(np.uint8)
    for image, (red, right) in zip(images, bits, strict=True):
        top, left = random.integers(2, 8), (9 if right else 1) + random.integers(0, 2)
        image[top : top + 6, left : left + 5] = (220, 60, 50) if red else (60, 90, 220)
    return images, bits


def save_squares(path):
    """Write images and attributes to a file for `hardmax train --data`."""
    images, bits = squares()
    np.savez(path, images=images, attributes=bits, attribute_names=np.array(NAMES))
    return path
