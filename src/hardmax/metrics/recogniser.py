"""A judge of generated pictures: a network that has learnt from real ones which attributes a picture has."""

from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from hardmax.metrics.judge import judged, train_judge

_BATCH = 50


def train_recogniser(
    pictures: Float[Tensor, "N channels H W"],
    attributes: Int64[Tensor, "N A"],
    validation: tuple[Float[Tensor, "M channels H W"], Int64[Tensor, "M A"]],
    *,
    epochs: int = 20,
    seed: int = 0,
) -> nn.Module:
    """Train a small convolutional network to name attributes; return it as it was after its best epoch.

    Pictures are mirrored by chance: attributes that tell left from right cannot be learnt. Torch's global generator is
    kept.

    Args:
        pictures: `[N, channels, H, W]`, real ones.
        attributes: `[N, A]`, their bits; a -1 teaches nothing.
        validation: others, by which the best epoch is chosen.
        epochs: how often the pictures are gone through.
        seed: of all randomness.

    Returns:
        A module from pictures `[B, channels, H, W]` to logits `[B, A]`.
    """

    def loss(logits: Tensor, index: Tensor) -> Tensor:
        bits = attributes[index]
        losses = binary_cross_entropy_with_logits(logits, bits.clamp_min(0).float(), reduction="none")
        return (losses * (bits >= 0)).sum().div(len(index))

    return train_judge(
        pictures,
        attributes.shape[1],
        loss,
        lambda network: float(shares_right(recognise(network, validation[0]), validation[1]).mean()),
        name="recogniser",
        mirror=True,
        batch_size=_BATCH,
        epochs=epochs,
        seed=seed,
    )


def recognise(network: nn.Module, pictures: Float[Tensor, "N channels H W"]) -> Int64[Tensor, "N A"]:
    """Return the bits that a network sees in pictures."""
    return (judged(network, pictures) > 0).long()


def shares_right(found: Int64[Tensor, "N A"], attributes: Int64[Tensor, "N A"]) -> Float[Tensor, "A"]:
    """Return how often each attribute is what it should be, of where that is known."""
    known = attributes >= 0
    return ((found == attributes) & known).sum(0) / known.sum(0).clamp_min(1)
