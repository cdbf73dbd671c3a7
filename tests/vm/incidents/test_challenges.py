"""Every challenge but those of the fabric with tenants, answered rightly.

Judges: the scenario's own checks, by way of ``scenario fix``, and the ledger of faults. The time is the guest's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.vm.challenge_answers import PATIENT, answer_rightly, challenges

if TYPE_CHECKING:
    from pathlib import Path

    from tests.vm.shared_fabric import SharedFabric

pytestmark = [pytest.mark.vm, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("patience", [0.0, pytest.param(PATIENT, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", challenges(of_tenants=False))
def test_a_right_answer_passes(name: str, patience: float, shared_fabric: SharedFabric, tmp_path: Path) -> None:
    answer_rightly(name, patience, shared_fabric, tmp_path)
