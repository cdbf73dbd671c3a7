"""A challenge, answered rightly: at once, and after five minutes in which every ordinary command was used."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.backends import lifecycle
from lab.faults import fault_engine
from lab.kernel.process.user_folders import STATE_HOME
from lab.model.hosts import addresses_of
from lab.model.topology import Role
from lab.routing.frr_config.render import has_routers
from lab.scenario import library
from tests.fabric import resident
from tests.fabric.command import rocelab_json
from tests.vm.incidents.scenario_texts import fabric_of, has_answer
from tests.vm.incidents.test_scenarios import LONG

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lab.model.addressing import NodePlan
    from lab.model.topology import Topology
    from tests.vm.shared_fabric import SharedFabric

PATIENT: Final = 300.0
"""Virtual seconds: longer than an entry of ARP, a MAC of a bridge or a look of a user lasts."""
LOOKED: Final = "evpn-rt-mismatch"
"""The challenge in which CI uses every command: an overlay, routers and lossless ports."""
_IN_CI: Final = {LOOKED, "ecn-missing-one-leaf", "gray-loss", "one-path-only", "slow-receiver"}
"""The challenges that CI answers: a tunnel's, a port's, a link's, a router's and a host's fault.

The others are ``long``. CI has the checks of each in tests/unit/scenario, and its kind of fault in a test of faults.
"""
_TENANTS: Final = "roce-tenant"
_FAULTLESS: Final = {0, 1, 3}
"""Exit codes of a command that looks at a fabric with a fault."""


def challenges(*, of_tenants: bool) -> list[object]:
    """The names of the challenges on the fabric with tenants, or on all other fabrics, as pytest's parameters.

    Those of one fabric are neighbours. CI skips the ones that are marked ``long``.
    """
    names = [name for name in library.names() if has_answer(name)]
    wanted = [name for name in names if (fabric_of(name) == _TENANTS) is of_tenants]
    ordered = sorted(wanted, key=lambda name: (fabric_of(name), name))
    return [pytest.param(name, marks=() if name in _IN_CI else LONG) for name in ordered]


def answer_rightly(name: str, patience: float, shared: SharedFabric, folder: Path) -> None:
    """Break, look around, answer and fix: every check passes afterwards, and no fault is left.

    The score stays in ``folder``, even if the test is killed.
    """
    fabric = fabric_of(name)
    shared.turn_to(fabric)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(STATE_HOME, str(folder / "state"))
        rocelab_json("scenario", "break", name)
        began = time.monotonic()
        if patience or name == LOOKED:
            look_around(fabric, folder)
        time.sleep(max(0.0, began + patience - time.monotonic()))
        failed = verified(name, folder)
        assert not failed, failed
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
        assert done.returncode in _FAULTLESS, f"{words} ended with {done.returncode}: {done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr, words


def ordinary(fabric: str, folder: Path) -> list[tuple[str, ...]]:
    """The commands, about the leaves of a fabric, its first host, and the last one that this has a route to."""
    running = lifecycle.open_fabric(fabric)
    topology = running.topology
    first = topology.hosts[0].name
    last, address = last_reached(topology, running.plan, first)
    leaves = [node.name for node in topology.having(Role.LEAF)]
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


def last_reached(topology: Topology, plan: Mapping[str, NodePlan], first: str) -> tuple[str, str]:
    """Return the last host with an address that ``first`` has a route to, and that address.

    Without a gateway these are the hosts of its own network: ping ends with 2 if there is no route.
    """
    nic = next(each for each in plan[first].interfaces.values() if each.address is not None)
    assert nic.address is not None
    reached = [
        (host.name, str(address))
        for host in topology.hosts
        for address in addresses_of(plan, host.name)[:1]
        if nic.gateway is not None or address in nic.address.network
    ]
    return reached[-1]
