"""The MTU that a library does not negotiate: each check has a recording that it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.scenario.traffic.training import FAILED
from lab.telemetry.store.recording_folder import RecordKind
from scenarios.mtu_not_negotiated import FRAME, HOSTS, MESSAGES
from tests.unit.scenario.tale import Line, Ranks, Tale, failing, outcomes

if TYPE_CHECKING:
    from pathlib import Path

NAME: Final = "mtu-not-negotiated"
NOT_STARTED: Final[tuple[int, dict[str, Any]]] = (
    100,
    {
        "source": "caller", "kind": "note", "text": FAILED, "job": "ring", "nics": ["h1:eth1", "h2:eth1"],
        "mtu": 4096, "said": "rank 1 at h2: its NIC ended a QP with an error while it started",
    },
)  # fmt: skip
EVENTS: Final = {"observe": [NOT_STARTED]}
PACKETS: Final = 2600
COUNTED: Final[Tale] = {
    "baseline": {},
    "bandwidth": {"h1:eth1 tx_prio3_packets": PACKETS, "h1:eth1 tx_prio3_bytes": PACKETS * FRAME},
    "exchanged": {},
    "observe": {},
    "verify": {},
}


def step(transfer: float) -> list[Ranks]:
    return [dict.fromkeys(HOSTS, (50.0, transfer))]


def shown(host: str, active: int) -> Line:
    """What ibv_devinfo prints of a host's NIC."""
    said = f"\t\t\tmax_mtu:\t\t4096 (5)\n\t\t\tactive_mtu:\t\t{active} (3)\n"
    argv = ["ibv_devinfo", "-d", f"incast.{host}.eth1"]
    return RecordKind.COMMAND, {"node": host, "argv": argv, "exit_code": 0, "stdout": said, "stderr": ""}


def written(messages: int) -> Line:
    """A test of ib_write_bw that has ended."""
    return RecordKind.TRANSFER, {
        "src": "h1:eth1", "dst": "h2:eth1", "verb": "write", "size": 65536, "qps": 1, "messages": messages,
        "seconds": 0.3, "times": [],
    }  # fmt: skip


JOBS: Final = {"baseline": step(280), "exchanged": step(295), "verify": step(280)}
LINES: Final = {"bandwidth": [written(MESSAGES)], "observe": [shown("h1", 4096), shown("h2", 1024)]}


def test_a_good_one_passes(tmp_path: Path) -> None:
    found = outcomes(tmp_path, NAME, COUNTED, 2.0, EVENTS, jobs=JOBS, lines=LINES)
    assert set(found.values()) == {"pass"}, found


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"events": {}}, "the-job-does-not-start"),
        ({"events": {**EVENTS, "verify": [NOT_STARTED]}}, "the-job-does-not-start"),
        ({"lines": {**LINES, "observe": [shown("h1", 4096), shown("h2", 4096)]}}, "the-active-mtus-differ"),
        ({"lines": {**LINES, "bandwidth": [written(MESSAGES - 1)]}}, "ib-write-bw-negotiates"),
        ({"lines": {"observe": LINES["observe"]}}, "ib-write-bw-negotiates"),
        ({"jobs": {**JOBS, "exchanged": step(280)}}, "the-library-passes-if-it-negotiates"),
        ({"jobs": {**JOBS, "exchanged": step(320)}}, "the-library-passes-if-it-negotiates"),
        ({"jobs": {**JOBS, "verify": step(295)}}, "the-job-recovers"),
    ],
)
def test_each_figure_can_fail(changes: dict[str, Any], wrong: str, tmp_path: Path) -> None:
    given = {"events": EVENTS, "jobs": JOBS, "lines": LINES, **changes}
    assert failing(tmp_path, NAME, COUNTED, {}, seconds=2.0, **given) == {wrong}


def test_large_packets_are_not_negotiated(tmp_path: Path) -> None:
    large: Tale = {"bandwidth": {"h1:eth1 tx_prio3_packets": PACKETS / 4}}
    found = failing(tmp_path, NAME, COUNTED, large, EVENTS, seconds=2.0, jobs=JOBS, lines=LINES)
    assert found == {"ib-write-bw-negotiates"}


def test_without_a_job_its_steps_are_unknown(tmp_path: Path) -> None:
    found = outcomes(tmp_path, NAME, COUNTED, 2.0, EVENTS, lines=LINES)
    assert {name for name, outcome in found.items() if outcome == "unknown"} == {
        "the-library-passes-if-it-negotiates", "the-job-recovers",
    }  # fmt: skip
