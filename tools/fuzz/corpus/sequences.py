"""Grammars and texts."""

from pathlib import Path

from hardmax.data.sequences import load_sequences
from tools.fuzz.corpus.target import Target

_GRAMMAR = """# sentences
sentence -> a | a sentence b | pair
pair -> c d | d c sentence
"""


def make_targets(folder: Path) -> list[Target]:
    """Write the files; return the targets."""
    folder.mkdir(parents=True)
    grammar, text = folder / "own.grammar", folder / "own.txt"
    grammar.write_text(_GRAMMAR)
    text.write_text("the cat sat on the mat, and the dog did not. " * 12)
    return [
        Target("grammar", grammar, lambda: load_sequences(grammar, length=6)),
        Target("text", text, lambda: load_sequences(text)),
    ]
