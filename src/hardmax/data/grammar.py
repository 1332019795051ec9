"""Grammars: rules in a text file, and all sentences of bounded length."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import final

from hardmax.errors import DataError

MOST = 100_000  # sentences that are listed
_ARROW, _OR = "->", "|"
Sentence = tuple[str, ...]


@final
@dataclass(frozen=True)
class Grammar:
    """A context-free grammar: what stands on the left of a rule is replaced by one of the choices on the right.

    What stands on no left side is a token. Every sentence of at most so many tokens is found, so that what a model
    knows of the language is a number and no estimate.

    Attributes:
        rules: for every name, the choices; the first name is where a sentence begins.

    Example:
        >>> grammar = Grammar.parse("sentence -> a | a sentence b")
        >>> [" ".join(words) for words in grammar.sentences(length=5)]
        ['a', 'a a b', 'a a a b b']
    """

    rules: dict[str, tuple[Sentence, ...]]

    @classmethod
    def parse(cls, text: str, origin: str = "the grammar") -> "Grammar":
        """Read rules, one in a line, `name -> word word | word`; what follows a # is a comment.

        Raises:
            DataError: a line is no rule, a choice is empty, or there is no rule.
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
        """All words that are not replaced, in the order of the rules."""
        words = (word for choices in self.rules.values() for choice in choices for word in choice)
        return tuple(dict.fromkeys(word for word in words if word not in self.rules))

    def sentences(self, length: int) -> list[Sentence]:
        """Return all different sentences of at most so many tokens, short ones first.

        Raises:
            DataError: there are none, or too many.
        """
        # found[n][name]: what a name can become with n tokens. Every word of a choice has at least one, so that
        # all but the choices of a single name need fewer tokens; those are gone round until nothing is new.
        found: list[dict[str, dict[Sentence, None]]] = [{}]
        start = next(iter(self.rules))
        for n in range(1, length + 1):
            found.append({name: {} for name in self.rules})
            while any(self._grow(name, choice, n, found) for name in self.rules for choice in self.rules[name]):
                pass
        sentences = [sentence for own in found[1:] for sentence in own[start]]
        if not sentences:
            raise DataError(f"the grammar has no sentence of at most {length} tokens; give a larger length")
        return sentences

    def _grow(self, name: str, choice: Sentence, n: int, found: list[dict[str, dict[Sentence, None]]]) -> bool:
        """Add what a choice makes of n tokens; return whether anything is new."""
        own = found[n][name]
        before = len(own)
        for sentence in self._of(choice, n, found):
            own[sentence] = None
            if len(own) > MOST:
                raise DataError(f"the grammar has more than {MOST:,} sentences of {n} tokens; give a smaller length")
        return len(own) > before

    def _of(self, words: Sequence[str], n: int, found: list[dict[str, dict[Sentence, None]]]) -> list[Sentence]:
        """Return all ways to make n tokens of words."""
        first, *rest = words
        if not rest:
            return list(found[n][first]) if first in self.rules else [(first,)] * (n == 1)
        ways = []
        for size in range(1, n - len(rest) + 1):
            heads = found[size][first] if first in self.rules else [(first,)] * (size == 1)
            ways += [(*head, *tail) for head in heads for tail in self._of(rest, n - size, found)] if heads else []
        return ways


def _split(words: Sequence[str]) -> Iterator[Sentence]:
    """Yield the words of each choice."""
    ends = [i for i, word in enumerate(words) if word == _OR]
    for begin, end in pairwise([-1, *ends, len(words)]):
        yield tuple(words[begin + 1 : end])
