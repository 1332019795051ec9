"""Words that the project decided against: the check of ``make lint`` finds them, and there are none."""

import pytest
from check_words import ALLOWED, ROOT, WORDS, find_words, list_files, main


def test_a_planted_word_is_reported_with_its_line_and_what_to_write(tmp_path, capsys):
    file = tmp_path / "page.md"
    file.write_text("All is well.\nWhoever reads this may go on.\n")
    assert main([str(file)]) == 1
    assert f"{file}:2: 'Whoever': {WORDS['whoever']}" in capsys.readouterr().out
    file.write_text("All is well.\n")
    assert main([str(file)]) == 0


# a text with the word, for patterns that are not a list of words
EXAMPLES = {
    r"pictures?": "picture",
    r"heeds?|heeded|heedless": "heed",
    r"stands? still": "stands still",
    r"that (?:is|are) none": "that is none",
    r"next to no(?:ne|thing)?": "next to nothing",
    r"so many(?! that)": "so many",
    r"made scans?": "made scans",
    r"contestants?": "contestant",
    r"def (?:taken|found|brought|pointed|drawn|seen|told|lazily|exactly|bounded|enumerated)": "def found",
    r"def (?:after|back|judged|shown|made|known|named|refused|rendered|finished|never|until|here)": "def after",
    r"(?:found|told|taken|brought)(?:, \w+)* =(?!=)": "found, rest =",
}


@pytest.mark.parametrize("pattern", WORDS)
def test_every_pattern_finds_complete_words_only(pattern):
    word = EXAMPLES.get(pattern, pattern.split("|")[0])
    assert find_words(f"it is {word} 3")
    assert not find_words(f"it is x{word} 3")
    assert not find_words(f"it is {word} 3", (pattern,))
    assert not find_words(f'the key "{word}" of a file')


def test_there_are_none_in_the_project():
    assert len(list_files()) > 300
    assert all((ROOT / name).is_file() for name in ALLOWED)
    assert main([]) == 0
