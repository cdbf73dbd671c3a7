"""Jobs in pods on fabrics of other underlays: right results, and nothing left by ``down`` after a killed job."""

from __future__ import annotations

import signal
from typing import Final

import pytest

from lab.kernel.process import netns
from lab.rdma import sysfs
from tests.fabric.command import forked, rocelab, rocelab_json
from tests.patience import PATIENCE
from tests.vm.faulty import built

pytestmark = [pytest.mark.vm, pytest.mark.timeout(900)]
LONG: Final = pytest.mark.long
UNDERLAYS: Final = {
    "ospf": "routing: {underlay: ospf}",
    "isis": "routing: {underlay: isis}",
    "ipv6": "routing: {host_family: ipv6}",
}
"""By name: OSPF and IS-IS advertise the networks of pods by themselves; with IPv6 a pod uses its host's link."""
RING: Final = ("job", "allreduce", "h1", "h2", "--algorithm", "ring", "--size", "64KiB", "--warmup", "0")


def text_of(name: str) -> str:
    """The topology: two leaves with one host each."""
    shape = "generate: {shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 1}"
    return f"name: {name}\nqos: pfc-ecn\ndefaults: {{rate: 100Mbit, mtu: 9000}}\n{UNDERLAYS[name]}\n{shape}\n"


def left(name: str) -> list[str]:
    """The namespaces and the RDMA devices of a fabric, and of its pods."""
    spaces = [each.name for each in netns.NETNS_DIR.iterdir() if each.name.startswith(f"rl-{name}.")]
    devices = sysfs.DEVICES.iterdir() if sysfs.DEVICES.exists() else ()
    return [*spaces, *(each.name for each in devices if each.name.startswith(f"{name}."))]


@pytest.mark.parametrize("name", ["ospf", pytest.param("isis", marks=LONG), pytest.param("ipv6", marks=LONG)])
def test_a_job_runs_in_pods_and_down_removes_those_of_a_killed_one(name: str) -> None:
    with built(text_of(name)):
        answer = rocelab_json(*RING, "--fabric", name, "--pod", "macvlan", "--iterations", "1")
        assert [rank["device"] for rank in answer["ranks"]] == [f"{name}.h1.pod", f"{name}.h2.pod"]
        assert (answer["rows"][0]["wrong"], answer["pod"]) == (0, "macvlan")
        assert not [each for each in left(name) if each.endswith(".pod")]
        with forked(*RING, "--fabric", name, "--pod", "macvlan", "--iterations", "10000") as job:
            while sysfs.packets(f"{name}.h1.pod", "rcvd") < 100:
                assert not job.is_over(0.1), job.so_far()
            job.send_signal(signal.SIGKILL)
            job.end(PATIENCE)
        assert len([each for each in left(name) if each.endswith(".pod")]) == 4
        rocelab("down", "--fabric", name)
        assert left(name) == []
