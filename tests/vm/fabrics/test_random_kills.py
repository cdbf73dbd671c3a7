"""Any process of a scenario's run killed at any point: a clear line, the fabric healed or gone, a recording to read.

Four kills of a hundred: ``./scripts/catalogue --kills 100`` has them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.random_kills import Killer, drawn

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.vm, pytest.mark.long, pytest.mark.timeout(900)]
SEED = 20261123
SCENARIO = "slow-receiver"


def test_whatever_is_killed_the_fabric_heals_and_the_recording_can_be_read(tmp_path: Path) -> None:
    killer = Killer(tmp_path)
    lines = {SCENARIO: killer.lines_of(SCENARIO)}
    killed = set[str]()
    for kill in drawn(SEED, 4, lines):
        outcome = killer.run(kill)
        print(outcome)
        assert outcome.wrong == [], outcome
        killed.add(outcome.killed.partition(" ")[0])
    assert len(killed) > 1  # not always the same
    assert killer.lines_of(SCENARIO) == lines[SCENARIO]  # and it plays as before
    assert killer.down() == []
