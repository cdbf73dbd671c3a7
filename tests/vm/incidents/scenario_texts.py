"""What the texts of rocelab's own scenarios and topologies say, for lists of tests.

Loading a scenario compiles and runs its module. All of them take six seconds of a core in an emulated VM.
"""

from __future__ import annotations

import functools
import re
from typing import Final

from lab.scenario import library

_FILE: Final = re.compile(r'"([a-z0-9-]+\.yaml)"')
_ANSWER: Final = re.compile(r"\banswer=")
_NAME: Final = re.compile(r"^name: (\S+)$", re.MULTILINE)


def fabric_of(scenario: str) -> str:
    """The name of a scenario's fabric."""
    (file,) = set(_FILE.findall(_text_of(scenario)))
    return _name_in(file)


def has_answer(scenario: str) -> bool:
    """Whether it can be a challenge."""
    return _ANSWER.search(_text_of(scenario)) is not None


def _text_of(scenario: str) -> str:
    return library.file_of(scenario).read_text(encoding="utf-8")


@functools.cache
def _name_in(file: str) -> str:
    """The name in a topology file, of which many scenarios use the same."""
    (name,) = _NAME.findall((library.OWN.parent / "topologies" / file).read_text(encoding="utf-8"))
    return str(name)
