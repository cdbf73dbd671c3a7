"""Every challenge, answered rightly: at once, and after five minutes in which every ordinary command was used.

Judges: the scenario's own checks, by way of ``scenario fix``, and the ledger of faults. The time is the guest's.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.backends import lifecycle
from lab.faults import fault_engine
from lab.model.hosts import addresses_of
from lab.model.topology import Role
from lab.routing.frr_config.render import has_routers
from lab.scenario import library
from lab.vm.calls.handover import GUEST_CACHE
from tests.fabric import resident
from tests.fabric.command import rocelab_json
from tests.vm.incidents.test_scenarios import LONG, Warm, topology_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.vm, pytest.mark.timeout(3600)]
SCORES: Final = GUEST_CACHE / "scores"
PATIENT: Final = 300.0
"""Virtual seconds: longer than an entry of ARP, a MAC of a bridge or a look of a user lasts."""
NAMES: Final = sorted(
    (name for name in library.names() if library.find(name).answer), key=lambda name: (topology_of(name), name)
)
LOOKED: Final = "evpn-rt-mismatch"
"""The one at which CI uses every command."""
BRIEF: Final = {LOOKED, "vtep-unreachable", "evpn-no-imet", "gray-loss", "pfc-storm"}
"""What CI has the time for: some of the overlay, a loss and a storm, on two fabrics."""
FAULTLESS: Final = {0, 1, 3}
"""How a command ends that looks at a fabric with a fault."""


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    there, fabric = set(SCORES.glob("*")), Warm()
    yield fabric
    fabric.turn_to("")
    for score in set(SCORES.glob("*")) - there:
        score.unlink()


@pytest.mark.parametrize("patience", [0.0, pytest.param(PATIENT, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", [pytest.param(each, marks=() if each in BRIEF else LONG) for each in NAMES])
def test_a_right_answer_passes(name: str, patience: float, warm: Warm, tmp_path: Path) -> None:
    fabric = topology_of(name)
    warm.turn_to(fabric)
    rocelab_json("scenario", "break", name)
    began = time.monotonic()
    if patience or name == LOOKED:
        look_around(fabric, tmp_path)
    time.sleep(max(0.0, began + patience - time.monotonic()))
    assert verified(name, tmp_path) == {}
    assert fault_engine.running(lifecycle.open_fabric(fabric)) == ()


def verified(name: str, folder: Path) -> dict[str, str]:
    """The checks that do not pass once a challenge was answered and mended, with their evidence."""
    answer = library.find(name).answer
    assert answer is not None
    right = rocelab_json("scenario", "check", "--cause", answer.cause, "--where", answer.where[0])
    assert right["verdict"] == "right"
    done = resident.ended("scenario", "fix", "-o", str(folder / "runs"), "--json", timeout=900)
    fixed: Any = json.loads(done.stdout)
    assert "verified" in fixed, fixed
    return {check["name"]: check["evidence"] for check in fixed["verified"]["checks"] if check["outcome"] != "pass"}


def look_around(fabric: str, folder: Path) -> None:
    """What whoever plays may do: each ordinary command once."""
    for words in ordinary(fabric, folder):
        done = resident.ended(*words, timeout=600)
        assert done.returncode in FAULTLESS, f"{words} ended with {done.returncode}: {done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr, words


def ordinary(fabric: str, folder: Path) -> list[tuple[str, ...]]:
    """The commands, about the first and the last host and the leaves of a fabric."""
    running = lifecycle.open_fabric(fabric)
    topology = running.topology
    first, last = topology.hosts[0].name, topology.hosts[-1].name
    leaves = [node.name for node in topology.having(Role.LEAF)]
    address = str(addresses_of(running.plan, last)[0])
    lossless = [("counters",), ("congestion",), ("qos", "show", leaves[0]), ("qos", "events", "--limit", "5")]
    routed = [("path", first, last), *(("vtysh", leaf, "-c", "show bgp summary") for leaf in leaves)]
    return [
        ("record", "start", "mine", "-o", str(folder)),
        ("ls",), ("status",), ("inspect",), ("fault", "ls"), ("rdma", "show"), ("top", "--once"),
        *(lossless if running.qos else ()), *(routed if has_routers(topology) else ()),
        ("exec", first, "--", "ping", "-c2", "-W1", address), ("exec", leaves[0], "--", "ip", "-s", "link"),
        ("capture", leaves[0], "-o", str(folder / "seen.pcapng"), "--seconds", "1"),
        ("diagnose", "--seconds", "2"), *([("diagnose", "--seconds", "1", "--probe")] if running.qos else ()),
        ("scenario", "hint"), ("record", "stop"), ("diagnose", str(folder / "mine")),
    ]  # fmt: skip
