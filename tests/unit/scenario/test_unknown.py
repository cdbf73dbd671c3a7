"""A recording that lacks what a check looks at: it says so, and neither passes nor fails."""

from pathlib import Path

import pytest

from lab.scenario import library
from tests.unit.scenario.tale import outcomes


@pytest.mark.parametrize("name", library.names())
def test_without_its_phases_no_check_can_tell(tmp_path: Path, name: str) -> None:
    assert set(outcomes(tmp_path, name, {"some other phase": {}}).values()) == {"unknown"}
