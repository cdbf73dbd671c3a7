"""Challenges as they are played: what ordinary commands show and do not give away, and the fix.

Judges: tc(8) and the ports' own counters for the symptom, the ports' configuration octet for octet, /proc.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lab.backends import lifecycle
from lab.backends.fabric_state import FabricState
from lab.dataplane import port_maps
from lab.faults.ledger import Ledger
from lab.kernel.process.user_folders import STATE_HOME
from lab.scenario.challenges.challenge_record import MARK
from tests.fabric.command import TOPOLOGIES, rocelab, rocelab_json

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.vm, pytest.mark.backends, pytest.mark.long, pytest.mark.timeout(600)]
NAME = "incast"
STATE = FabricState(NAME)
ORDINARY = (
    ("fault", "ls"), ("fault", "ls", "--json"), ("ls",), ("status",), ("qos", "show"), ("record", "ls"),
    ("counters", "leaf2"), ("rdma", "show"), ("inspect",),
)  # fmt: skip


@pytest.fixture(scope="module")
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(STATE_HOME, str(tmp_path_factory.mktemp("state")))
        rocelab("up", TOPOLOGIES / "incast.yaml")
        yield
        rocelab("down", "--fabric", NAME)


def octets() -> bytes:
    return port_maps.open_maps(NAME).config.tobytes()


def grown(port: str, counter: str, seconds: float = 1.0) -> int:
    """By how much a counter of priority 3 grows in so long."""
    running = lifecycle.open_fabric(NAME)
    node, _, interface = port.partition(":")
    counters, number = port_maps.open_maps(NAME).counters, running.numbering.nodes[node].port(interface)
    before = int(counters[number]["priority"][counter][3])
    time.sleep(seconds)
    return int(port_maps.open_maps(NAME).counters[number]["priority"][counter][3]) - before


def marked() -> list[int]:
    """Programs that a challenge has started and that run."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and MARK.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_one_is_played_to_its_end(fabric: None, tmp_path: Path) -> None:  # noqa: ARG001 - it is up
    """Hidden, looked at, answered wrongly and rightly, fixed and verified: what was there before is there again."""
    before = octets()
    begun = rocelab_json("scenario", "break", "pfc-storm")
    assert begun["fabric"] == NAME
    assert grown("leaf2:swp6", "tx_bytes") == 0 == grown("leaf2:swp3", "tx_bytes", 0)
    (running,) = [entry for entry in Ledger.of(STATE).entries() if entry.whole]
    shown = "".join((done := rocelab(*words)).stdout + done.stderr for words in ORDINARY)
    assert not [word for word in (running.kind, "storm", "whose command") if word in shown]
    assert rocelab_json("fault", "ls") == []
    backlog = lifecycle.open_fabric(NAME).namespace("leaf2").run(["tc", "-s", "-j", "qdisc", "show", "dev", "swp6"])
    assert json.loads(backlog.stdout)[0]["backlog"] > 100_000
    assert "has a challenge" in rocelab("fault", "inject", "link-down", "leaf1:swp1", expect=2).stderr
    assert "has a challenge" in rocelab("scenario", "break", "incast", expect=2).stderr
    rocelab("fault", "heal", "--all")
    assert Ledger.of(STATE).entries() == (running,)
    wrong = rocelab("scenario", "check", "--cause", "slow-receiver", "--where", "h8", "--json", expect=1)
    assert json.loads(wrong.stdout)["verdict"] == "wrong"
    elsewhere = rocelab("scenario", "check", "--cause", "pfc-storm", "--where", "h5", "--json", expect=1)
    assert json.loads(elsewhere.stdout)["verdict"] == "right cause, wrong place"
    assert len(rocelab_json("scenario", "hint")["given"]) == 1
    assert rocelab_json("scenario", "check", "--cause", "pfc-storm", "--where", "h8")["verdict"] == "right"
    fixed: Any = rocelab_json("scenario", "fix", "-o", str(tmp_path))
    assert {each["name"]: each["outcome"] for each in fixed["verified"]["checks"]} == dict.fromkeys(
        ("the-storm-stops-the-leaf", "pauses-spread-hop-by-hop", "an-unrelated-pair-stops", "nothing-is-lost",
         "rate-recovers"), "pass",
    )  # fmt: skip
    assert (fixed["score"]["hints"], fixed["score"]["wrong"], fixed["score"]["solved"]) == (1, 2, True)
    assert octets() == before
    assert Ledger.of(STATE).entries() == ()
    assert marked() == []
