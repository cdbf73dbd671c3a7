"""Jobs in pods: right results by devices of their own, and nothing that is left of them."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Final

import pytest

from lab.kernel.process import netns
from lab.rdma import sysfs
from tests.fabric.command import forked, rocelab_json
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from lab.backends.backend import Fabric

pytestmark = [pytest.mark.vm, pytest.mark.timeout(900)]
SIZE: Final = 2**18
RING: Final = ("job", "allreduce", "h1", "h5", "--algorithm", "ring", "--size", "256KiB", "--warmup", "0")


def in_class(fabric: Fabric, priority: int) -> int:
    """The bytes that the hosts' ports have sent in a priority."""
    nodes = rocelab_json("counters", "--fabric", fabric.name)["nodes"]
    return sum(nodes[host]["interfaces"]["eth1"].get(f"tx_prio{priority}_bytes", 0) for host in ("h1", "h5"))


def left(fabric: Fabric) -> list[str]:
    """What a pod has: its namespace, its device, and the address of its leaf's port."""
    names = [each.name for each in netns.NETNS_DIR.iterdir() if each.name.endswith(".pod")]
    devices = [each.name for each in sysfs.DEVICES.iterdir() if each.name.endswith(".pod")]
    config = fabric.router("leaf1").ask("show running-config").stdout
    shown = json.loads(fabric.namespace("leaf1").run(["ip", "-j", "addr", "show"]).stdout)
    addresses = [info["local"] for port in shown for info in port["addr_info"] if info["local"].startswith("100.64.")]
    return [*names, *devices, *addresses, *(line for line in config.splitlines() if "100.64." in line)]


@pytest.mark.parametrize("kind", ["macvlan", pytest.param("ipvlan", marks=pytest.mark.long)])
def test_a_job_in_pods_uses_their_devices_and_the_ports_of_their_hosts(incast: Fabric, kind: str) -> None:
    before = in_class(incast, 3)
    answer = rocelab_json(*RING, "--pod", kind, "--iterations", "2")
    assert [rank["device"] for rank in answer["ranks"]] == ["incast.h1.pod", "incast.h5.pod"]
    assert answer["rows"][0]["wrong"] == 0
    moved = 2 * 2 * SIZE  # two ranks, two steps; the share of each rank is 2(n-1)/n = 1
    assert moved < in_class(incast, 3) - before < 1.1 * moved
    assert left(incast) == []


def test_pods_of_a_killed_job_go_with_the_next_one(incast: Fabric) -> None:
    with forked(*RING, "--pod", "macvlan", "--iterations", "10000") as job:
        while sysfs.packets("incast.h1.pod", "rcvd") < 100:
            assert not job.is_over(0.1), job.so_far()
        job.send_signal(signal.SIGKILL)
        job.end(PATIENCE)
    assert left(incast)
    assert rocelab_json(*RING, "--pod", "macvlan", "--iterations", "1")["rows"][0]["wrong"] == 0
    assert left(incast) == []
