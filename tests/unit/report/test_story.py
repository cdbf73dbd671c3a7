"""A scenario's text, taken apart."""

import pytest

from lab.report.scenario_text import story_of
from lab.scenario import library

TEXT = """A title with a full stop.

Story
    Given  a fabric whose sentence
           goes on below
    When   it breaks
    And    breaks again

        h1 -- leaf1
          \\-- leaf2

Numbers
    one number, which is
        broken into lines
    another
"""


def test_a_text_has_its_parts() -> None:
    story = story_of(TEXT)
    assert story.title == "A title with a full stop"
    assert [(each.word, each.text) for each in story.sentences] == [
        ("Given", "a fabric whose sentence goes on below"),
        ("When", "it breaks"),
        ("And", "breaks again"),
    ]
    assert story.figure == "h1 -- leaf1\n  \\-- leaf2"
    assert story.numbers == "one number, which is\n    broken into lines\nanother"


def test_of_no_text_there_is_no_story() -> None:
    story = story_of("")
    assert (story.title, story.sentences, story.figure, story.numbers) == ("", (), "", "")


@pytest.mark.parametrize("name", library.names())
def test_the_story_of_every_scenario_is_found(name: str) -> None:
    story = story_of(library.find(name).text)
    assert {"Given", "When", "Then"} <= {sentence.word for sentence in story.sentences}
    assert story.numbers.split() == library.find(name).text.partition("\nNumbers\n")[2].split()
