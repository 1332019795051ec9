"""Sequences of tokens in three splits: sentences of a grammar, or pieces of a text with characters as tokens."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from hardmax._deprecation import RenamedMember
from hardmax.data.grammar import Grammar
from hardmax.data.tables import read_text
from hardmax.errors import DataError
from hardmax.files import expand_path, report_read_error
from hardmax.random import make_generator

FILL = ""
"""The padding token, after the end of a sentence that is shorter than others."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Sequences:
    """Sequences of one length, in three parts.

    Attributes:
        name: the name or path that was loaded.
        source: the origin of the sequences, in one line.
        symbols: the text of each token.
        between: separator of tokens in a text: a space between words, nothing between characters.
        train: `[N, T]`, int64.
        validation: `[N, T]`, int64.
        test: `[N, T]`, int64.
        language: `[M, T]`, int64: all valid sentences, if they are known; else None.

    Example:
        >>> from hardmax.data import load_sequences
        >>> data = load_sequences("brackets")
        >>> data
        Sequences(brackets: 5,000 train, 500 validation, 1,000 test, 8 of 5 tokens, 274 sentences)
        >>> data.to_text(data.language[3])
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
        """Shape of one sequence, `(T,)`."""
        return tuple(self.train.shape[1:])

    @property
    def facts(self) -> dict[str, Any]:
        """Shape, symbols and number of sentences, as recorded in `config.json`."""
        sentences = None if self.language is None else len(self.language)
        return {"shape": list(self.shape), "symbols": list(self.symbols), "sentences": sentences}

    @property
    def tensors(self) -> dict[str, Tensor]:
        """All tensors: the sequences of each part, and the sentences of the language if they are known."""
        tensors = {f"{part} sequences": getattr(self, part) for part in _SIZES}
        return tensors if self.language is None else tensors | {"sentences": self.language}

    def one_hot(self, tokens: Int64[Tensor, "*shape"]) -> Float32[Tensor, "*shape K"]:
        """Return tokens as one-hot vectors, the z of `Categorical(K)`."""
        return (tokens[..., None] == torch.arange(len(self.symbols), device=tokens.device)).float()

    def to_text(self, tokens: Int64[Tensor, "T"]) -> str:
        """Return a sequence as text; a padding token inside it becomes _."""
        return format_tokens(tokens.tolist(), self.symbols, self.between)

    text = RenamedMember("to_text")

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(getattr(self, part)):,} {part}" for part in ("train", "validation", "test"))
        sentences = "" if self.language is None else f", {len(self.language):,} sentences"
        return f"Sequences({self.name}: {sizes}, {self.shape[0]} of {len(self.symbols)} tokens{sentences})"


def format_tokens(tokens: list[int], symbols: tuple[str, ...], between: str) -> str:
    """Return tokens as text, without padding at the end; padding elsewhere becomes _.

    Example:
        >>> format_tokens([1, 0, 2, 0, 0], ("", "a", "cat"), " ")
        'a _ cat'
    """
    words = [symbols[token] for token in tokens]
    while words and words[-1] == FILL:
        words.pop()
    return between.join(word or "_" for word in words)


LANGUAGES = {"agreement": 5, "brackets": 8}
"""Grammars that come with hardmax, and the default length of their sentences."""
TEXTS = {"constitution": "the Constitution of the United States, in the public domain"}
"""Texts that come with hardmax."""
_TEXT_LENGTH = 16
_SIZES = {"train": 5_000, "validation": 500, "test": 1_000}


def load_sequences(data: str | Path, *, length: int | None = None, seed: int = 0) -> Sequences:
    """Load sequences: of a language with a known grammar, or of a text.

    Args:
        data: "agreement" or "brackets", grammars that come with hardmax; "constitution", a text that comes with it; or
            the path of a grammar file (`.grammar`, rules such as `sentence -> a | a sentence b`) or of any text.
        length: T, the length of the longest sentence or of the pieces of a text; the default is 5 for "agreement", 8
            for other grammars, 16 for texts.
        seed: seed of the sampled sentences. All sentences of a language are equally likely.

    Returns:
        Tokens `[N, T]` in three parts. Sentences are sampled; pieces of a text begin at every character, and the last
        two tenths of it are kept for validation and test.

    Raises:
        DataError: the file does not exist, is not a valid grammar, or is too short a text.

    Example:
        >>> data = load_sequences("agreement")
        >>> data.to_text(data.language[-1])
        'the birds like the birds'
    """
    name = str(data)
    if length is not None and length < 2:
        raise DataError(f"length must be at least 2 tokens, got {length}")
    if name in TEXTS:
        text = read_text(Path(__file__).parent / "texts" / f"{name}.txt")
        return _cut_text(text, name, TEXTS[name], length or _TEXT_LENGTH)
    if name in LANGUAGES:
        text = read_text(Path(__file__).parent / "languages" / f"{name}.grammar")
        return _sample_sentences(text, name, "a grammar that comes with hardmax", length or LANGUAGES[name], seed)
    path = expand_path(data)
    with report_read_error(path):
        exists = path.is_file()
    if not exists:
        known = ", ".join([*LANGUAGES, *TEXTS])
        raise DataError(f"there are no sequences {name!r}: give one of {known}, or the path of a .grammar or text file")
    if path.suffix == ".grammar":
        return _sample_sentences(read_text(path), path.stem, str(path), length or LANGUAGES["brackets"], seed)
    return _cut_text(read_text(path), path.stem, str(path), length or _TEXT_LENGTH)


def _sample_sentences(text: str, name: str, source: str, length: int, seed: int) -> Sequences:
    """Sample sentences of a grammar for each part."""
    grammar = Grammar.parse(text, source)
    symbols = (FILL, *grammar.tokens)
    token_of = {symbol: token for token, symbol in enumerate(symbols)}
    sentences = grammar.enumerate_sentences(length)
    filled = [[token_of[word] for word in words] + [0] * (length - len(words)) for words in sentences]
    language = torch.tensor(filled)
    splits = {
        part: language[torch.randint(len(language), (size,), generator=make_generator(seed, "sentences", part))]
        for part, size in _SIZES.items()
    }
    summary = f"{source}: {len(language):,} sentences of at most {length} tokens, all equally likely"
    return Sequences(name, summary, symbols, " ", **splits, language=language)


def _cut_text(text: str, name: str, source: str, length: int) -> Sequences:
    """Cut a text into overlapping pieces, one from every character; pieces of different parts do not overlap."""
    text = " ".join(text.split())
    symbols = tuple(sorted(set(text)))
    token_of = {symbol: token for token, symbol in enumerate(symbols)}
    tokens = torch.tensor([token_of[symbol] for symbol in text])
    tenth = len(text) // 10
    if tenth < length:
        raise DataError(
            f"{source} has {len(text)} characters, too few for pieces of {length}: give {10 * length} or more"
        )
    ends = {"train": (0, 8 * tenth), "validation": (8 * tenth, 9 * tenth), "test": (9 * tenth, len(text))}
    parts: dict[str, Tensor] = {part: tokens[begin:end].unfold(0, length, 1) for part, (begin, end) in ends.items()}
    return Sequences(name, f"{source}: {len(text):,} characters, {len(symbols)} kinds", symbols, "", **parts)
