"""The plug-in where there is RDMA: the examples that people copy pass, a scenario is judged, and failures are told.

Judges: pytest's own report, and rdma(8) that nothing is left.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Final

import pytest

from lab.backends.fabric_state import all_fabrics
from lab.kernel.process import process
from tests.pytest_run import EXAMPLE, run

pytestmark = [pytest.mark.vm, pytest.mark.long, pytest.mark.timeout(1200)]
MORE: Final = """
import pytest

pytestmark = pytest.mark.rocelab(topology="lossless.yaml", scope="session")


def test_pauses(fabric, fault):
    with fabric.counting() as counted, fault("slow-receiver", "h3", rate="20Mbit"):
        goodput = fabric.goodput("h1:h3", duration=1)
    assert goodput["h1:h3"] == pytest.approx(19.6e6, rel=0.02)
    assert counted.count("pauses", "h3") == 0


def test_stories(scenario):
    played = scenario("incast", hold="1s")
    assert played.recording.fabric.startswith("incast-t")
    assert not played.failures
"""


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE, tmp_path / "copied"))


def test_the_example_passes_and_leaves_nothing(copied: Path) -> None:
    done = run(copied, "-q")
    assert "5 passed" in done.stdout, done.stdout
    assert all_fabrics() == []
    assert process.run(["rdma", "link"]).stdout == ""


def test_a_fault_is_counted_and_a_scenario_judged(copied: Path) -> None:
    (copied / "test_more.py").write_text(MORE, encoding="utf-8")
    done = run(copied, "test_more.py")
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    told = re.search(r"assert (\d+) \(pauses of h3\) == 0\n *E +h3:eth1 tx_prio3_pause: (\d+)", done.stdout)
    assert told, done.stdout
    assert told[1] == told[2]
    assert all_fabrics() == []


def test_a_script_has_a_fabric_for_a_block() -> None:
    done = process.run([sys.executable, str(EXAMPLE.parent / "api" / "storm.py")], timeout=300)
    told = re.fullmatch(r"h1 to h3: ([\d.]+) Mb/s, and ([\d.]+) while h4 storms\n", done.stdout)
    assert told, done.stdout
    assert float(told[1]) == pytest.approx(49.7, rel=0.02)  # half of the link that both pairs share
    assert all_fabrics() == []
