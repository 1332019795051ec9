"""Context-free grammars: parse rules from text, and enumerate all sentences up to a given length."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import final

from hardmax._deprecation import RenamedMember
from hardmax.errors import DataError

MOST = 100_000  # maximum number of sentences of one length
_ARROW, _OR = "->", "|"
Sentence = tuple[str, ...]


@final
@dataclass(frozen=True)
class Grammar:
    """A context-free grammar: rules that replace a name on the left by one of the choices on the right.

    A word without a rule is a token. All sentences of up to n tokens can be enumerated, so that the probability that a
    model assigns to the language is computed exactly, not estimated.

    Attributes:
        rules: the choices of every name; a sentence begins with the first name.

    Example:
        >>> grammar = Grammar.parse("sentence -> a | a sentence b")
        >>> [" ".join(words) for words in grammar.enumerate_sentences(length=5)]
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
            choices = tuple(_split_choices(words[2:]))
            if not all(choices):
                raise DataError(f"{origin}, line {number}: a choice is empty, but each needs a word: {line!r}")
            rules[words[0]] = (*rules.get(words[0], ()), *choices)
        if not rules:
            raise DataError(f"{origin} has no rule; write one such as 'sentence -> a | a sentence b'")
        return cls(rules)

    @property
    def tokens(self) -> tuple[str, ...]:
        """All tokens (words without a rule), in the order of the rules."""
        words = (word for choices in self.rules.values() for choice in choices for word in choice)
        return tuple(dict.fromkeys(word for word in words if word not in self.rules))

    def enumerate_sentences(self, length: int) -> list[Sentence]:
        """Return all distinct sentences of at most `length` tokens, the shortest first.

        Raises:
            DataError: there are no such sentences, or too many; or their enumeration takes too long.
        """
        sentences = _Enumeration(self.rules, length).enumerate()
        if not sentences:
            raise DataError(f"the grammar has no sentence of at most {length} tokens; give a larger length")
        return sentences

    sentences = RenamedMember("enumerate_sentences")


class _Enumeration:
    """Enumeration of all sentences of a grammar, from the shortest to the longest, in bounded time and memory."""

    def __init__(self, rules: dict[str, tuple[Sentence, ...]], length: int) -> None:
        self.rules, self.length = rules, length
        # expansions[name][n]: the expansions of a name with n tokens.
        self.expansions: dict[str, list[dict[Sentence, None]]] = {name: [{}] for name in rules}
        # Expansions of the last words of a choice, by the words and the number of tokens.
        self.endings: dict[tuple[Sentence, int], list[Sentence]] = {}
        self.work = 0

    def enumerate(self) -> list[Sentence]:
        """Return all sentences."""
        start = next(iter(self.rules))
        # Every word of a choice has at least one token.
        choices = [(name, c) for name, all_of_name in self.rules.items() for c in all_of_name if len(c) <= self.length]
        for n in range(1, self.length + 1):
            for expansions in self.expansions.values():
                expansions.append({})
            # Choices of several words need only shorter expansions, and are expanded once. Those of a single name are
            # expanded again whenever that name has new expansions.
            expanded = [0] * len(choices)
            while any(self._add_expansions(number, *choices[number], n, expanded) for number in range(len(choices))):
                pass
        return [sentence for by_length in self.expansions[start][1:] for sentence in by_length]

    def _add_expansions(self, number: int, name: str, choice: Sentence, n: int, expanded: list[int]) -> bool:
        """Add the expansions of a choice with n tokens that are new since its last call; return whether there are any.

        Args:
            number: number of the choice.
            name: name that the choice expands.
            choice: its words.
            n: number of tokens.
            expanded: number of expansions of each choice that were added before.
        """
        self._count_work(_STEP)
        sentences = self.expansions[name][n]
        before = len(sentences)
        if len(choice) == 1 and choice[0] in self.rules:
            source = self.expansions[choice[0]][n]
            if len(source) == expanded[number]:
                return False
            new = list(islice(source, expanded[number], None))
            expanded[number] = len(source)
        else:
            if expanded[number]:
                return False
            new, expanded[number] = self._expand(choice, n), 1
        for sentence in new:
            self._count_work(_STEP)
            sentences[sentence] = None
            if len(sentences) > MOST:
                raise DataError(f"the grammar has more than {MOST:,} sentences of {n} tokens; give a smaller length")
        self._count_work((len(sentences) - before) * (n + _OVERHEAD))
        return len(sentences) > before

    def _expand(self, words: Sentence, n: int) -> Iterator[Sentence]:
        """Yield all expansions of these words with n tokens."""
        first, rest = words[0], words[1:]
        if not rest:
            yield from self._expand_word(first, n)
            return
        for size in range(1, n - len(rest) + 1):
            if heads := self._expand_word(first, size):
                tails = self._find_endings(rest, n - size)
                for head in heads:
                    for tail in tails:
                        yield (*head, *tail)

    def _find_endings(self, words: Sentence, n: int) -> list[Sentence]:
        """Return the distinct expansions of the last words of a choice; computed once."""
        # From the last word to the first, so that a long choice does not exceed the depth of recursion.
        for begin in range(len(words) - 1, -1, -1):
            for size in range(len(words) - begin, n - begin + 1):
                key = (words[begin:], size)
                if key not in self.endings:
                    endings: dict[Sentence, None] = {}
                    self._count_work(len(words))
                    for ending in self._expand(*key):
                        self._count_work(_STEP if ending in endings else size + _OVERHEAD)
                        endings[ending] = None
                    self.endings[key] = list(endings)
        return self.endings[words, n]

    def _expand_word(self, word: str, n: int) -> Iterable[Sentence]:
        """Return the expansions of one word with n tokens: a token has one, itself."""
        return self.expansions[word][n] if word in self.rules else [(word,)] * (n == 1)

    def _count_work(self, work: int) -> None:
        """Count units of work, each of about eight bytes of memory, or 50 nanoseconds."""
        self.work += work
        if self.work > _MOST_WORK:
            raise DataError(
                f"the grammar takes too long to enumerate up to {self.length} tokens; give a smaller length, or fewer "
                "or shorter rules"
            )


_MOST_WORK = 40_000_000
_STEP = 8  # units of work for each step
_OVERHEAD = 20  # units of work for each expansion that is kept, in addition to its tokens


def _split_choices(words: Sequence[str]) -> Iterator[Sentence]:
    """Yield the words of each choice."""
    ends = [i for i, word in enumerate(words) if word == _OR]
    for begin, end in pairwise([-1, *ends, len(words)]):
        yield tuple(words[begin + 1 : end])
