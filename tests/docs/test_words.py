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


@pytest.mark.parametrize("pattern", WORDS)
def test_every_pattern_finds_whole_words_alone(pattern):
    first = pattern.split("|")[0].replace("(?:", "").replace("?", "").removesuffix(")")
    assert find_words(f"so it is {first} there")
    assert not find_words(f"so it is x{first}y there")
    assert not find_words(f"so it is {first} there", (pattern,))


def test_there_are_none_in_the_project():
    assert len(list_files()) > 300
    assert all((ROOT / name).is_file() for name in ALLOWED)
    assert main([]) == 0
