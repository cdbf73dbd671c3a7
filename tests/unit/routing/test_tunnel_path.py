"""The way through tunnels by tables that no kernel has: what each says decides, and what one lacks is told."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.errors import OperationFailed
from lab.kernel.netlink import flow_hash
from lab.model.addressing import plan_addresses
from lab.model.load import read_topology
from lab.model.overlay.plan import plan_overlay
from lab.routing.paths.traffic_end import stations_of

from .tables import Tables, entry, untagged, vxlan, walk

if TYPE_CHECKING:
    from lab.routing.paths.tunnel_path import TunnelWalker

TOPOLOGY: Final = read_topology(Path(__file__).parents[3] / "topologies" / "roce-tenant.yaml")
TENANT: Final = read_topology(Path(__file__).parents[3] / "topologies" / "tenant.yaml")
H2: Final = "02:1a:00:07:00:01"
HOP: Final = "02:1a:00:ff:00:01"


class TwoSpines(Tables):
    """Of h1 and h2, in one network, over two spines."""

    def __init__(self) -> None:
        ports = [untagged("vni10010"), untagged("swp3")]
        super().__init__()
        self.said |= {
            "h1": {"route get": [{"dev": "eth1"}], "neigh": [{"lladdr": H2, "state": ["STALE"]}]},
            "leaf1": {
                "fdb": [entry(H2, "vni10010", vlan=10), entry(H2, "vni10010", dst="10.252.0.2")],
                "vlan": ports,
                "link": [vxlan(10010, "10.252.0.1"), *({"ifname": f"swp{n}", "ifindex": 1000 + n} for n in (1, 2))],
                "route get": [{"dst": "10.252.0.2", "nexthops": [{"dev": "swp1"}, {"dev": "swp2"}]}],
                "neigh": [{"lladdr": HOP, "state": ["REACHABLE"]}],
            },
            "leaf2": {
                "fdb": [entry(H2, "swp3", vlan=10)],
                "vlan": ports,
                "link": [vxlan(10010, "10.252.0.2")],
                "route get": [{"type": "local", "dev": "lo"}],
                "neigh": [{"lladdr": HOP, "state": ["REACHABLE"]}],
            },
        }
        for spine in ("spine1", "spine2"):
            self.said[spine] = {"route get": [{"dev": "swp2"}], "neigh": [{"lladdr": HOP, "state": ["REACHABLE"]}]}

    def walker(self, sport: int | None = None) -> TunnelWalker:
        return walk(TOPOLOGY, self, "h1:eth1", "h2:eth1", sport)


def test_both_ways_go_into_the_tunnel_and_out_of_it() -> None:
    found = TwoSpines().walker().paths()
    assert [[str(hop.end) for hop in hops] for hops in found] == [
        ["h1:eth1", "leaf1:swp1", "spine1:swp2", "leaf2:swp3"],
        ["h1:eth1", "leaf1:swp2", "spine2:swp2", "leaf2:swp3"],
    ]
    for hops in found:
        assert [hop.outer and (hop.outer.vni, hop.outer.src, hop.outer.dst) for hop in hops] == [
            None, (10010, "10.252.0.1", "10.252.0.2"), (10010, "10.252.0.1", "10.252.0.2"), None,
        ]  # fmt: skip
        assert [hop.mac for hop in hops] == [H2, HOP, HOP, H2]
        assert {(hop.priority, hop.queue) for hop in hops} == {(3, 3)}
        assert [[each.table for each in hop.looked] for hop in hops] == [
            ["neighbour"], ["FDB", "VNI", "route", "neighbour"], ["route", "neighbour"], ["VNI", "FDB"],
        ]  # fmt: skip


@pytest.mark.parametrize("number", [1, 2])
def test_a_flow_has_one_outer_port_and_takes_the_uplink_that_the_kernel_says(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    def uplink_of(*flow: object) -> int:
        asked.append(tuple(map(str, flow)))
        return 1000 + number

    monkeypatch.setattr(flow_hash, "hash_of", lambda _: 0)
    monkeypatch.setattr(flow_hash, "uplink_of", uplink_of)
    (hops,) = TwoSpines().walker(49476).paths()
    assert [str(hop.end) for hop in hops[1:3]] == [f"leaf1:swp{number}", f"spine{number}:swp2"]
    ports = {hop.outer.sport for hop in hops if hop.outer}
    assert asked == [("10.252.0.1", "10.252.0.2", str(*ports), "4789")]


def test_an_uplink_that_no_next_hop_has_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_hash, "hash_of", lambda _: 0)
    monkeypatch.setattr(flow_hash, "uplink_of", lambda *_: 0)
    with pytest.raises(OperationFailed, match=r"leaf1 has no route to 10.252.0.2 that it would take"):
        TwoSpines().walker(49476).paths()


def test_a_tunnel_that_does_not_inherit_loses_the_class_behind_it() -> None:
    tables = TwoSpines()
    tables.said["leaf1"]["link"] = [vxlan(10010, "10.252.0.1", tos="0x0")]
    for hops in tables.walker().paths():
        assert [hop.priority for hop in hops] == [3, 3, 0, 0]


@pytest.mark.parametrize(
    ("node", "table", "said", "told"),
    [
        ("leaf1", "fdb", [], f"leaf1 does not know {H2} in VLAN 10, and floods"),
        ("leaf1", "fdb", [entry(H2, "vni10010", vlan=20)], f"leaf1 does not know {H2} in VLAN 10, and floods"),
        ("leaf1", "fdb", [entry(H2, "vni10010", vlan=10)], f"leaf1 does not know {H2} in VLAN 10, and floods"),
        ("leaf1", "fdb", [entry(H2, "bridge", vlan=10, state="permanent")], "leaf1 has no interface in VLAN 10"),
        ("leaf1", "vlan", [], "leaf1:swp3 takes no frames without a tag"),
        ("leaf2", "link", [vxlan(10011, "10.252.0.2")], "leaf2 has no VNI 10010, and drops them"),
        ("leaf2", "route get", [{"dev": "swp1"}], "go in a circle at"),
        ("spine1", "route get", [{"dev": "swp9"}], "spine1 sends them to swp9"),
        ("h1", "route get", [{"dev": "eth2"}], "h1 sends them to eth2, not eth1"),
    ],
)
def test_what_a_table_lacks_is_told(node: str, table: str, said: list[dict[str, Any]], told: str) -> None:
    tables = TwoSpines()
    tables.said[node][table] = said
    with pytest.raises(OperationFailed, match=told):
        tables.walker().paths()


def test_a_spine_that_does_not_forward_has_no_path_of_tunnelled_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves bridge these packets, and forward none."""
    asked: list[tuple[int, str]] = []

    def stopped(version: int, interface: str) -> str:
        asked.append((version, interface))
        return "net/ipv4/ip_forward"

    monkeypatch.setattr("lab.routing.paths.underlay_path.tuning.forwarding_stopped", stopped)
    with pytest.raises(OperationFailed, match=r"spine1 does not forward IPv4 packets to 10\.252\.0\.2"):
        TwoSpines().walker().paths()
    assert asked == [(4, "swp1")]


def test_a_tagged_host_is_known_by_the_interface_of_its_vlan() -> None:
    plan, overlay = plan_addresses(TENANT), plan_overlay(TENANT)
    (tagged,) = stations_of("h6", plan["h6"], overlay).values()
    assert (str(tagged), tagged.network, tagged.vlan, str(tagged.place.end)) == ("h6:eth1.30", "lan", 30, "h6:eth1")
    assert str(tagged.place.address) == "10.1.10.4"


@pytest.mark.parametrize("last", [True, False])
def test_an_outer_port_is_in_the_range(last: bool) -> None:
    """Over all values of what counts, the upper half."""
    ports = [flow_hash.outer_port(hashed << 16, 32768, 60999, last=last) for hashed in range(0x10000)]
    assert (min(ports), max(ports)) == (32768, 60999 if last else 60998)


@pytest.mark.parametrize(("last", "port"), [(False, 7531), (True, 7532)])
def test_an_outer_port_is_that_of_the_kernel_for_a_hash(last: bool, port: int) -> None:
    """Both halves decide. By hand: (0x12345678 ^ 0x56780000) * 28231 >> 32, and with 28232 of all ports."""
    assert flow_hash.outer_port(0x12345678, 32768, 60999, last=last) == 32768 + port


def test_the_frame_that_is_hashed_is_the_flow() -> None:
    """EtherType, protocol, addresses and ports where IEEE 802.3, RFC 791, RFC 8200 and RFC 768 have them."""
    frame = flow_hash.udp_frame(ip_address("10.1.10.2"), ip_address("10.1.20.2"), 49476, 4791)
    assert (frame[12:14].hex(), frame[23], frame[26:34].hex()) == ("0800", 17, "0a010a020a011402")
    assert (int.from_bytes(frame[34:36], "big"), int.from_bytes(frame[36:38], "big")) == (49476, 4791)
    frame6 = flow_hash.udp_frame(ip_address("fd00::1"), ip_address("fd00::2"), 1, 2)
    assert (frame6[12:14].hex(), frame6[20], frame6[54:58].hex(), len(frame6)) == ("86dd", 17, "00010002", 62)
