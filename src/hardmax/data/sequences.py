"""Sequences of tokens in three parts, as `Images` are of pictures."""

from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float32, Int64
from torch import Tensor

FILL = ""
"""The token that stands after the end of a sentence that is shorter than others."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Sequences:
    """Sequences of one length, in three parts.

    Attributes:
        name: what was asked for.
        source: one line: where they come from.
        symbols: what each token is called.
        between: what is written between two tokens: a blank between words, nothing between characters.
        train: `[N, T]`, int64.
        validation: `[N, T]`, int64.
        test: `[N, T]`, int64.
        language: `[M, T]`, int64: all sentences that are right, where that is known; else None.

    Example:
        >>> from hardmax.data import load_sequences
        >>> data = load_sequences("brackets")
        >>> data
        Sequences(brackets: 5,000 train, 500 validation, 1,000 test, 8 of 5 tokens, 274 sentences)
        >>> data.text(data.language[3])
        '( ) [ ]'
    """

    name: str
    source: str
    symbols: tuple[str, ...]
    between: str
    train: Int64[Tensor, "train T"]
    validation: Int64[Tensor, "validation T"]
    test: Int64[Tensor, "test T"]
    language: Int64[Tensor, "M T"] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """`(T,)`, of one sequence."""
        return tuple(self.train.shape[1:])

    @property
    def facts(self) -> dict[str, Any]:
        """What `config.json` tells of them."""
        sentences = None if self.language is None else len(self.language)
        return {"shape": list(self.shape), "symbols": list(self.symbols), "sentences": sentences}

    def one_hot(self, tokens: Int64[Tensor, "*shape"]) -> Float32[Tensor, "*shape K"]:
        """Return tokens as z of `Categorical(K)`."""
        return (tokens[..., None] == torch.arange(len(self.symbols), device=tokens.device)).float()

    def text(self, tokens: Int64[Tensor, "T"]) -> str:
        """Return a sequence as a reader wants it; what is filled up within it is shown as _."""
        return written(tokens.tolist(), self.symbols, self.between)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(getattr(self, part)):,} {part}" for part in ("train", "validation", "test"))
        sentences = "" if self.language is None else f", {len(self.language):,} sentences"
        return f"Sequences({self.name}: {sizes}, {self.shape[0]} of {len(self.symbols)} tokens{sentences})"


def written(tokens: list[int], symbols: tuple[str, ...], between: str) -> str:
    """Return tokens as text; fills at the end are left out, others are shown as _.

    Example:
        >>> written([1, 0, 2, 0, 0], ("", "a", "cat"), " ")
        'a _ cat'
    """
    words = [symbols[token] for token in tokens]
    while words and words[-1] == FILL:
        words.pop()
    return between.join(word or "_" for word in words)
