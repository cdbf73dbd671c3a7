"""Golden pairs: errors/NAME.yaml is refused with exactly errors/NAME.txt.

ROCELAB_UPDATE_GOLDEN=1 writes the texts anew.
"""

import os
from pathlib import Path

import pytest

from lab.errors import ExitCode, InvalidInput
from lab.model.load import read_topology

CASES = sorted((Path(__file__).parent / "errors").glob("*.yaml"))


def _complaint(case: Path) -> str:
    with pytest.raises(InvalidInput) as caught:
        read_topology(case)
    assert caught.value.exit_code is ExitCode.USAGE
    for problem in caught.value.problems:
        assert problem.message
        assert problem.remedy
        assert problem.line > 0
    return str(caught.value).replace(str(case), case.name) + "\n"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_message(case: Path) -> None:
    expected = case.with_suffix(".txt")
    complaint = _complaint(case)
    if "ROCELAB_UPDATE_GOLDEN" in os.environ:
        expected.write_text(complaint, encoding="utf-8")
    assert complaint == expected.read_text(encoding="utf-8")


def test_there_are_cases() -> None:
    assert len(CASES) >= 25
