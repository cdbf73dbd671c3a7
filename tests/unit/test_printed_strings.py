"""Every string that a module may print, and every docstring, is plain technical English."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.sentences import docstrings, printed

ROOT: Final = Path(__file__).parents[2]
MODULES: Final = sorted((ROOT / "lab").rglob("*.py"))
_TO_REWRITE: Final = {"unit", "vm"}
"""Folders of tests whose docstrings are still to be rewritten; this set only shrinks."""
TESTS: Final = [
    path for path in sorted((ROOT / "tests").rglob("*.py")) if path.relative_to(ROOT).parts[1] not in _TO_REWRITE
]


def test_printed_strings_are_plain_english() -> None:
    found = {}
    for path in MODULES:
        if broken := [str(each) for each in printed(path.read_text(encoding="utf-8")) if each.faults()]:
            found[str(path.relative_to(ROOT))] = broken
    assert found == {}, "\n".join(f"{name}:{fault}" for name, faults in found.items() for fault in faults)


@pytest.mark.parametrize(
    "source",
    [
        'Cause("pfc-storm", words="It pauses its leaf, and nobody resumes it.")',
        'NAMES = {"pause": "times that the peer was told to stop"}',
        'yield f"{port}: a pause that it never heard of"',
        'says = f"what is for {address} is sent to {mac}, and {real} has not got it"',
        'MEANING = "a sentence of" + " so" * 2 + "' + "very " * 26 + 'many words"',
    ],
)
def test_a_printed_string_that_breaks_a_rule_is_noticed(source: str) -> None:
    assert any(each.faults() for each in printed(source))


@pytest.mark.parametrize(
    "source",
    [
        '"""Nobody is told of this docstring."""',
        'SCRIPT = "#!/bin/sh\\n# nobody is told of this comment"',
        'LABEL = "what it is"',
        'yield f"{port} pauses its peer in priority {priority}"',
    ],
)
def test_docstrings_programs_and_labels_are_no_sentences(source: str) -> None:
    assert not any(each.faults() for each in printed(source))


def idioms(source: str) -> list[str]:
    """Every docstring sentence with one of the project's old idioms."""
    return [f"{each.line}: {each.text}" for each in docstrings(source) if each.idioms()]


def test_docstrings_have_none_of_the_old_idioms() -> None:
    found = {
        str(path.relative_to(ROOT)): broken
        for path in (*MODULES, *TESTS)
        if (broken := idioms(path.read_text(encoding="utf-8")))
    }
    assert found == {}, "\n".join(f"{name}:{each}" for name, broken in found.items() for each in broken)


def test_an_idiom_in_a_docstring_is_noticed() -> None:
    assert idioms('def f():\n    """Who hears it is told."""\n')
    assert idioms('X = 1\n"""What counts is the size."""\n')
    assert not idioms('"""Return the size.\n\n=====  =====\nwhat   how\n=====  =====\n"""\n')
