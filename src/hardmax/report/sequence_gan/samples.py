"""Sequences that a generator writes, and which of them are right."""

from collections.abc import Collection
from dataclasses import dataclass

import torch

from hardmax.data import Sequences
from hardmax.models import SequenceGAN


@dataclass(frozen=True)
class Written:
    """A sequence.

    Attributes:
        text: of it.
        right: whether it is a sentence of the language; None where that is not known.
    """

    text: str
    right: bool | None


def write_samples(model: SequenceGAN, data: Sequences, count: int, generator: torch.Generator) -> list[Written]:
    """Draw so many sequences, and look each up in the language."""
    texts, tokens = model.sample(count, generator=generator)
    known: Collection[tuple[int, ...]] | None = None
    if data.language is not None:
        known = {tuple(sentence) for sentence in data.language.tolist()}
    rights = (None if known is None else tuple(sequence) in known for sequence in tokens.tolist())
    return [Written(text, right) for text, right in zip(texts, rights, strict=True)]
