"""Every string that a module may print is plain technical English: findings, causes, evidence, meanings, captions."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.sentences import printed

ROOT: Final = Path(__file__).parents[2]
MODULES: Final = sorted((ROOT / "lab").rglob("*.py"))


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
