"""Context-free grammars: parse rules from text and enumerate all sentences up to a given length."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import final

from hardmax.errors import DataError

MOST = 100_000  # sentences of one length that are enumerated
_ARROW, _OR = "->", "|"
Sentence = tuple[str, ...]


@final
@dataclass(frozen=True)
class Grammar:
    """A context-free grammar: the name on the left of a rule is replaced by one of the choices on the right.

    A word that is on no left side is a token. All sentences of up to n tokens can be enumerated, so a model's knowledge
    of the language is computed exactly, not estimated.

    Attributes:
        rules: the choices of every name; a sentence begins with the first name.

    Example:
        >>> grammar = Grammar.parse("sentence -> a | a sentence b")
        >>> [" ".join(words) for words in grammar.sentences(length=5)]
        ['a', 'a a b', 'a a a b b']
    """

    rules: dict[str, tuple[Sentence, ...]]

    @classmethod
    def parse(cls, text: str, origin: str = "the grammar") -> "Grammar":
        """Parse rules, one per line, `name -> word word | word`; a comment starts with #.

        Raises:
            DataError: a line is not a rule, a choice is empty, or there are no rules.
        """
        rules: dict[str, tuple[Sentence, ...]] = {}
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            if len(words) < 3 or words[1] != _ARROW:
                raise DataError(
                    f"{origin}, line {number}: expected a rule such as 'name -> word word | word', got {line!r}"
                )
            choices = tuple(_split(words[2:]))
            if not all(choices):
                raise DataError(f"{origin}, line {number}: a choice is empty, and every one needs a word: {line!r}")
            rules[words[0]] = (*rules.get(words[0], ()), *choices)
        if not rules:
            raise DataError(f"{origin} has no rule; write one such as 'sentence -> a | a sentence b'")
        return cls(rules)

    @property
    def tokens(self) -> tuple[str, ...]:
        """All tokens (words without a rule), in the order of the rules."""
        words = (word for choices in self.rules.values() for choice in choices for word in choice)
        return tuple(dict.fromkeys(word for word in words if word not in self.rules))

    def sentences(self, length: int) -> list[Sentence]:
        """Return all distinct sentences of at most `length` tokens, the shortest first.

        Raises:
            DataError: there are no such sentences, or too many.
        """
        # expansions[n][name]: the expansions of a name with n tokens. Every word of a choice has at least one token, so
        # all choices except those of a single name need only shorter expansions; those are repeated until none is new.
        expansions: list[dict[str, dict[Sentence, None]]] = [{}]
        start = next(iter(self.rules))
        for n in range(1, length + 1):
            expansions.append({name: {} for name in self.rules})
            while any(self._grow(name, choice, n, expansions) for name in self.rules for choice in self.rules[name]):
                pass
        sentences = [sentence for by_name in expansions[1:] for sentence in by_name[start]]
        if not sentences:
            raise DataError(f"the grammar has no sentence of at most {length} tokens; give a larger length")
        return sentences

    def _grow(self, name: str, choice: Sentence, n: int, expansions: list[dict[str, dict[Sentence, None]]]) -> bool:
        """Add the expansions of a choice with n tokens; return whether any of them is new."""
        sentences = expansions[n][name]
        before = len(sentences)
        for sentence in self._expand(choice, n, expansions):
            sentences[sentence] = None
            if len(sentences) > MOST:
                raise DataError(f"the grammar has more than {MOST:,} sentences of {n} tokens; give a smaller length")
        return len(sentences) > before

    def _expand(
        self, words: Sequence[str], n: int, expansions: list[dict[str, dict[Sentence, None]]]
    ) -> list[Sentence]:
        """Return all expansions of these words with n tokens."""
        first, *rest = words
        if not rest:
            return list(expansions[n][first]) if first in self.rules else [(first,)] * (n == 1)
        ways = []
        for size in range(1, n - len(rest) + 1):
            heads = expansions[size][first] if first in self.rules else [(first,)] * (size == 1)
            ways += (
                [(*head, *tail) for head in heads for tail in self._expand(rest, n - size, expansions)] if heads else []
            )
        return ways


def _split(words: Sequence[str]) -> Iterator[Sentence]:
    """Yield the words of each choice."""
    ends = [i for i, word in enumerate(words) if word == _OR]
    for begin, end in pairwise([-1, *ends, len(words)]):
        yield tuple(words[begin + 1 : end])
