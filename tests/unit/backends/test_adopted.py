"""What an adopted lab was found to be, and who may not do what with it."""

from __future__ import annotations

import json
from ipaddress import ip_address, ip_interface
from typing import TYPE_CHECKING, Any

import pytest

from lab.backends import registry
from lab.backends.adopted import adopted_facts, adopted_ports, adoption
from lab.backends.adopted.adopted_facts import AdoptedNode
from lab.backends.adopted.adopted_lab import kept, refuse_change
from lab.backends.adopted.adopted_ports import Replaced
from lab.backends.backend import Fabric
from lab.backends.fabric_state import FabricState
from lab.dataplane.numbering import number_ports
from lab.errors import EnvironmentLacks, OperationFailed, UsageError
from lab.kernel.netlink.saved_qdiscs import SavedQdisc
from lab.model.topology import Endpoint, Link, Node, Role, Topology
from tests.fake_docker import Docker

if TYPE_CHECKING:
    from pathlib import Path

THEIRS = Topology(
    "theirs",
    (Node("r1", Role.LEAF), Node("c1", Role.HOST)),
    (Link(Endpoint("r1", "eth1"), Endpoint("c1", "data0"), 10**9, 9500),),
)


def interface(name: str, mac: str, *addresses: tuple[str, str]) -> dict[str, Any]:
    said = [{"local": each.partition("/")[0], "prefixlen": int(each.partition("/")[2]), "scope": scope}
            for each, scope in addresses]  # fmt: skip
    return {"ifname": name, "ifindex": len(name), "mtu": 1500, "address": mac, "addr_info": said}


ROUTER = [
    interface(
        "lo", "00:00:00:00:00:00", ("127.0.0.1/8", "host"), ("10.9.9.1/32", "global"), ("fd00::1/128", "global")
    ),
    interface(
        "eth1", "aa:c1:ab:00:00:01", ("fe80::1/64", "link"), ("fd01::1/64", "global"), ("10.1.0.1/24", "global")
    ),
    interface("eth0", "02:42:ac:14:14:02", ("172.20.20.2/24", "global")),
]
CLIENT = [interface("data0", "aa:c1:ab:00:00:02", ("fe80::2/64", "link"))]


def found(client: list[dict[str, Any]] = CLIENT) -> dict[str, AdoptedNode]:
    return {
        "r1": AdoptedNode("clab-theirs-r1", 41, json.dumps(ROUTER)),
        "c1": AdoptedNode("clab-theirs-c1", 42, json.dumps(client)),
    }


def test_the_plan_is_what_was_found_on_interfaces_of_links() -> None:
    plan = adopted_facts.plan_of(THEIRS, found())
    assert list(plan["r1"].interfaces) == ["eth1"]
    assert plan["r1"].interfaces["eth1"].address == ip_interface("10.1.0.1/24")
    assert plan["r1"].interfaces["eth1"].mac == "aa:c1:ab:00:00:01"
    assert (plan["r1"].loopback4, plan["r1"].loopback6) == (ip_address("10.9.9.1"), ip_address("fd00::1"))
    assert plan["c1"].interfaces["data0"].address is None


def test_a_link_whose_interface_is_gone_is_told() -> None:
    with pytest.raises(EnvironmentLacks, match="c1 has no interface data0"):
        adopted_facts.plan_of(THEIRS, found(client=[]))


def test_later_commands_know_what_was_found(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Docker(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    state = FabricState("theirs")
    state.directory.mkdir(parents=True)
    adopted_facts.save(kept(state), found())
    fabric = Fabric(state, THEIRS, registry.backend("adopted"))
    assert fabric.plan == adopted_facts.plan_of(THEIRS, found())
    assert str(fabric.router("r1").terminal("bgpd")) == "/proc/41/root/run/frr/bgpd.vty"
    assert fabric.router("r1").vtysh("show version")[-4:] == ["clab-theirs-r1", "vtysh", "-c", "show version"]
    state.forget()
    assert list(root.glob("fabrics/theirs/*")) == []
    with pytest.raises(OperationFailed, match="rocelab adopt again"):
        Fabric(state, THEIRS, registry.backend("adopted"))


@pytest.mark.usefixtures("root")
def test_it_is_neither_built_nor_broken() -> None:
    state = FabricState("theirs")
    state.directory.mkdir(parents=True)
    adopted_facts.save(kept(state), found())
    backend = registry.backend("adopted")
    with pytest.raises(UsageError, match="rocelab adopt takes one that runs"):
        backend.check(THEIRS)
    with pytest.raises(UsageError, match="rocelab breaks only fabrics of its own"):
        refuse_change(Fabric(state, THEIRS, backend), "breaks")


def test_only_root_adopts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(EnvironmentLacks, match="needs root"):
        adoption.adopt(THEIRS, "theirs")


def test_backends_that_build_are_listed() -> None:
    with pytest.raises(UsageError, match=r"there is netns, containerlab$"):
        registry.backend("k8s")


def veths(kind: str = "veth", mtu: int = 9500) -> dict[str, AdoptedNode]:
    """The lab, with ends of links as ``ip -details`` tells them."""
    router = ROUTER[1] | {"linkinfo": {"info_kind": "veth"}, "mtu": 1400, "ifindex": 7}
    client = CLIENT[0] | {"linkinfo": {"info_kind": kind}, "mtu": mtu, "ifindex": 9}
    return {
        "r1": AdoptedNode("clab-theirs-r1", 41, json.dumps([router])),
        "c1": AdoptedNode("clab-theirs-c1", 42, json.dumps([client])),
    }


def test_links_have_the_larger_mtu_that_was_found_at_their_ends() -> None:
    assert adopted_facts.with_their_mtus(THEIRS, veths(mtu=1300)).links[0].mtu == 1400
    assert adopted_facts.with_their_mtus(THEIRS, veths(mtu=4000)).links[0].mtu == 4000


def test_a_port_goes_on_a_veth_alone() -> None:
    adopted_facts.refuse_others(THEIRS, veths())
    with pytest.raises(EnvironmentLacks, match="c1:data0 is macvlan, and a lossless port goes on a veth"):
        adopted_facts.refuse_others(THEIRS, veths("macvlan"))


def test_ports_have_the_indexes_that_were_found() -> None:
    numbering = number_ports(THEIRS, adopted_facts.indexes(veths()))
    router, client = numbering.nodes["r1"], numbering.nodes["c1"]
    assert numbering.index("r1", "eth1") == 7
    assert numbering.index("c1", "data0") == 9
    assert router.index(router.clock) == client.index(client.clock) == 1
    assert client.index(client.drain("data0")) > 2**24


def test_what_ports_take_the_place_of_is_kept(tmp_path: Path) -> None:
    queue = SavedQdisc(0xFFFFFFFF, 0x10000, "tbf", "2800")
    had = {"r1": {"eth1": Replaced(7, (queue,), 500, (1, 2), "0", 0), "lo": Replaced(1, ())}}
    file = tmp_path / "replaced.json"
    adopted_ports.save(file, had)
    assert adopted_ports.load(file) == had
