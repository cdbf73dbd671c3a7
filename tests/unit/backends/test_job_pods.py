"""Where pods go, which fabrics have no room for them, and what is left of them after a killed job."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address, ip_interface
from pathlib import Path
from subprocess import CompletedProcess
from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.backends import job_pods
from lab.backends.backend import Fabric
from lab.backends.fabric_state import FabricState, JournalKind
from lab.backends.job_pods import PodKind, planned_pods, pods
from lab.backends.netns_backend import NetnsBackend
from lab.errors import OperationFailed, UsageError
from lab.kernel.netlink import ip_state
from lab.kernel.process import netns
from lab.model.load import load_topology
from lab.rdma import rxe
from lab.rdma.nic_choice import find_nic
from lab.routing.daemons import Router

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lab.backends.job_pods import JobPod
    from lab.kernel.process.netns import Namespace

TOPOLOGIES: Final = Path(__file__).parents[3] / "topologies"


def fabric(name: str, **changes: str) -> Fabric:
    text = (TOPOLOGIES / f"{name}.yaml").read_text(encoding="utf-8")
    for old, new in changes.items():
        text = text.replace(f"{old}:", f"{new}\n{old}:", 1)
    topology = load_topology(text)
    return Fabric(FabricState(topology.name), topology, NetnsBackend())


def pods_of(made: Fabric, hosts: Sequence[str]) -> list[JobPod]:
    return planned_pods(made, [find_nic(made, host) for host in hosts])


def test_a_pod_has_a_network_of_its_own_with_its_leaf() -> None:
    """Two addresses of the shared address space for each NIC, which no other NIC has."""
    one, other = pods_of(fabric("rails"), ["h1:eth2", "h2"])
    assert (one.address, one.gateway, one.network) == ("100.64.0.3/31", "100.64.0.2", ip_interface("100.64.0.2/31"))
    assert (one.leaf, one.nic.device, one.nic.interface) == ("leaf2", "rails.h1.pod", "eth2")
    assert (one.host.name, one.nic.namespace.name) == ("rl-rails.h1", "rl-rails.h1.pod")
    assert (other.leaf, other.nic.address) == ("leaf1", ip_address("100.64.0.5"))


def test_a_host_link_with_ipv6_has_room_for_a_pod() -> None:
    made = fabric("incast", defaults="routing: {host_family: ipv6}")
    (pod,) = pods_of(made, ["h2"])
    address = made.plan["h2"].interfaces["eth1"].address
    assert address is not None
    assert ip_interface(pod.address).network == address.network
    assert pod.nic.address not in {address.ip, ip_address(pod.gateway)}
    assert pod.network is None, "the leaf needs no further address"


def test_a_pod_has_one_rail() -> None:
    made = fabric("rails")
    railed = replace(find_nic(made, "h1"), rails=(find_nic(made, "h1:eth2"),))
    with pytest.raises(UsageError, match="several rails"):
        planned_pods(made, [railed])


def test_a_fabric_with_the_addresses_of_pods_has_none() -> None:
    made = fabric("incast", defaults="addressing: {host_links: 100.100.0.0/16}")
    with pytest.raises(UsageError, match=r"overlaps 100\.100\.0\.0/16"):
        pods_of(made, ["h1"])


@pytest.mark.parametrize("name", ["roce-tenant", "multihomed"])
def test_a_host_in_an_overlay_network_has_no_room(name: str) -> None:
    made = fabric(name)
    host = next(each.name for each in made.topology.hosts if each.rdma)
    with pytest.raises(UsageError, match="no room for a pod"):
        pods_of(made, [host])


class Killed:
    """A fabric with the pod of a killed job on each of some hosts, and what is removed of it, in order."""

    def __init__(self, made: Fabric, hosts: Sequence[str], patch: pytest.MonkeyPatch) -> None:
        self.fabric, self.done = made, list[str]()
        made.state.directory.mkdir(parents=True)
        (made.state.directory / "nodes").mkdir()
        left = {pod.nic.namespace.name: 1 for pod in pods_of(made, hosts)}
        made.state.record(JournalKind.POD, left)
        patch.setattr(netns, "own", lambda cookies: [name for name in cookies if name in left])
        patch.setattr(netns, "delete", lambda names: self.done.extend(f"netns {name}" for name in names))
        patch.setattr(rxe, "is_in", lambda *_: True)
        patch.setattr(rxe, "delete", lambda *devices: self.done.extend(f"rdma {device}" for device in devices))
        patch.setattr(Router, "ask", self._ask)
        patch.setattr(ip_state, "attempt", self._attempt)
        patch.setattr(job_pods, "_create", self._create)

    def _ask(self, *words: str) -> CompletedProcess[str]:
        """Stand in for vtysh, whose BGP has the network of the first NIC only, and which stops at an error."""
        for word in words[3:]:
            if word != "no network 100.64.0.0/31":
                return CompletedProcess([], 1, "", "")
            self.done.append(word)
        return CompletedProcess([], 0, "", "")

    def _attempt(self, namespace: Namespace, _: str, line: str) -> None:
        self.done.append(f"{namespace.name} {line}")

    def _create(self, *_: Any) -> None:
        raise OperationFailed("the job ends here", "")

    def next_job(self, hosts: Iterable[str]) -> list[str]:
        """Begin a job in pods, and return what it removed."""
        nics = [find_nic(self.fabric, host) for host in hosts]
        with (
            pytest.raises(OperationFailed, match="ends here"),
            pods(self.fabric, nics, PodKind.MACVLAN, lambda *_: None),
        ):
            pass
        return self.done


@pytest.mark.usefixtures("root")
def test_the_next_job_removes_a_pod_of_another_nic(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed job used h1:eth1, and the next one uses h1:eth2, which is at another leaf."""
    done = Killed(fabric("rails"), ["h1:eth1"], monkeypatch).next_job(["h1:eth2"])
    assert "no network 100.64.0.0/31" in done
    assert any(each.startswith("rl-rails.leaf1 addr del 100.64.0.0/31") for each in done)


@pytest.mark.usefixtures("root")
def test_a_removal_that_is_cut_short_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The namespace is how a later job knows of the pod, so that it is the last to go."""
    done = Killed(fabric("rails"), ["h1"], monkeypatch).next_job(["h1"])
    first = next(number for number, each in enumerate(done) if each.startswith("netns "))
    before = done[:first]
    assert "no network 100.64.0.0/31" in before
    assert "rdma rails.h1.pod" in before
    assert any("addr del 100.64.0.0/31" in each for each in before)


@pytest.mark.usefixtures("root")
def test_a_second_job_leaves_the_pods_of_a_job_that_still_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process runs in the pods yet."""
    killed = Killed(fabric("rails"), [], monkeypatch)
    monkeypatch.setattr(job_pods, "_create", lambda *_: None)
    monkeypatch.setattr(job_pods, "_await_routes", lambda *_: None)
    first, others = (find_nic(killed.fabric, host) for host in ("h1", "h2"))
    with pods(killed.fabric, [first], PodKind.MACVLAN, lambda *_: None):
        with pytest.raises(UsageError, match="a job runs in the pod of h1"):
            killed.next_job(["h2", "h1:eth2"])
        killed.done.clear()
        with pods(killed.fabric, [others], PodKind.MACVLAN, lambda *_: None):
            pass  # on other hosts
    with pods(killed.fabric, [first], PodKind.MACVLAN, lambda *_: None):
        pass
