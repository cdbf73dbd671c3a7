"""The way to and from a bond by tables that no kernel has: which leg, which VTEP, and what stands in for a dead leg.

Hashes are by hand, of what the kernel's sources say.
"""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.errors import OperationFailed
from lab.kernel.netlink import bonding, flow_hash
from lab.model.load import load_topology, read_topology

from .tables import Tables, entry, untagged, vxlan, walk

if TYPE_CHECKING:
    from lab.routing.paths.tunnel_path import TunnelWalker

FILE: Final = Path(__file__).parents[3] / "topologies" / "multihomed.yaml"
TOPOLOGY: Final = read_topology(FILE)
H1, H2, H3 = (f"02:1a:00:{number:02x}:00:01" for number in (5, 6, 7))
HOP: Final = "02:1a:00:ff:00:01"
GROUP: Final = 536870913


def bond(*, carrier: bool = True, backup: int = 0, aggregator: int = 1) -> dict[str, Any]:
    data = {"xmit_hash_policy": "layer3+4", "ad_info": {"aggregator": aggregator}}
    port = {"backup_port": "vni10010", "backup_nhid": backup} if backup else {}
    about = {"info_kind": "bond", "info_data": data, "info_slave_data": port}
    return {"ifname": "bond1", "flags": ["LOWER_UP"] if carrier else [], "linkinfo": about}


def leg(name: str, state: str = "ACTIVE", mii: str = "UP", aggregator: int = 1) -> dict[str, Any]:
    about = {"state": state, "mii_status": mii, "ad_aggregator_id": aggregator}
    return {"ifname": name, "master": "bond1", "linkinfo": {"info_kind": "veth", "info_slave_data": about}}


class Multihomed(Tables):
    """Of topologies/multihomed.yaml: h1 on leaf1 and leaf2, h2 on leaf1, h3 on leaf3."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.at = ""
        self.order = {"h1": ["eth1", "eth2"], "leaf1": ["swp2"], "leaf2": ["swp2"]}
        monkeypatch.setattr(bonding, "members", lambda _: self.order[self.at])
        neighbour = [{"lladdr": HOP, "state": ["REACHABLE"]}]
        hops = [{"id": 1, "gateway": "10.252.0.1"}, {"id": 2, "gateway": "10.252.0.2"},
                {"id": GROUP, "group": [{"id": 1}, {"id": 2}]}]  # fmt: skip
        ports = [*map(untagged, ("vni10010", "bond1", "swp2", "swp3"))]
        far = [entry(H3, "vni10010", vlan=10), entry(H3, "vni10010", dst="10.252.0.3")]
        here = [entry(H1, "bond1", vlan=10), entry(H2, "swp3", vlan=10), *far]
        own = {"vlan": ports, "neigh": neighbour, "nexthop": hops}
        up = [{"dev": "swp1"}]
        self.said |= {
            "h1": {"route get": [{"dev": "bond1"}], "neigh": [{"lladdr": H3, "state": ["STALE"]}],
                   "link": [bond(), leg("eth1"), leg("eth2")]},
            "h2": {"route get": [{"dev": "eth1"}], "neigh": [{"lladdr": H1, "state": ["STALE"]}]},
            "h3": {"route get": [{"dev": "eth1"}], "neigh": [{"lladdr": H1, "state": ["STALE"]}]},
            "leaf1": {**own, "fdb": here, "route get": up, "link": [vxlan(10010, "10.252.0.1"), bond(), leg("swp2")]},
            "leaf2": {**own, "fdb": here, "route get": up, "link": [vxlan(10010, "10.252.0.2"), bond(), leg("swp2")]},
            "leaf3": {**own, "fdb": [entry(H3, "swp2", vlan=10), entry(H1, "vni10010", vlan=10),
                                     entry(H1, "vni10010", nhid=GROUP)],
                      "route get": up, "link": [vxlan(10010, "10.252.0.3")]},
            "spine1": {"neigh": neighbour},
        }  # fmt: skip

    def inside(self, node: str) -> Any:
        self.at = node
        return super().inside(node)

    def towards(self, leaf: str) -> None:
        """The spine sends there, and it takes what comes for its own."""
        self.said["spine1"]["route get"] = [{"dev": f"swp{leaf[-1]}"}]
        self.said[leaf]["route get"] = [{"type": "local", "dev": "lo"}]

    def walker(self, src: str, dst: str, sport: int | None = None) -> TunnelWalker:
        name = {"h1": "bond1"}
        return walk(TOPOLOGY, self, f"{src}:{name.get(src, 'eth1')}", f"{dst}:{name.get(dst, 'eth1')}", sport)

    def ways(self, src: str, dst: str, sport: int | None = None) -> list[list[str]]:
        return [[str(hop.end) for hop in hops] for hops in self.walker(src, dst, sport).paths()]


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Multihomed:
    monkeypatch.setattr(flow_hash, "hash_of", lambda _: 0x80000000)
    return Multihomed(monkeypatch)


BY_LEAF1: Final = ["h1:eth1", "leaf1:swp1", "spine1:swp3", "leaf3:swp2"]
BY_LEAF2: Final = ["h1:eth2", "leaf2:swp1", "spine1:swp3", "leaf3:swp2"]


def test_a_bond_may_take_each_of_its_legs(tables: Multihomed) -> None:
    tables.towards("leaf3")
    assert tables.ways("h1", "h3") == [BY_LEAF1, BY_LEAF2]
    hops = tables.walker("h1", "h3").paths()[1]
    assert [each.said for each in hops[0].looked if each.table == "bond"] == ["bond1, layer3+4: eth2, 1 of 2"]


def test_each_leg_gives_what_leaves_by_it_a_class(tables: Multihomed) -> None:
    tables.towards("leaf3")
    lossless = load_topology(FILE.read_text().replace("name: multihomed", "name: multihomed\nqos: pfc-ecn"))
    ways = walk(lossless, tables, "h1:bond1", "h3:eth1").paths()
    assert [[str(hop.end) for hop in hops] for hops in ways] == [BY_LEAF1, BY_LEAF2]
    assert {(hop.priority, hop.queue) for hops in ways for hop in hops} == {(3, 3)}


@pytest.mark.parametrize(("hashed", "way"), [(4, BY_LEAF1), (7, BY_LEAF2)])
def test_a_flow_takes_the_leg_that_its_hash_says(
    hashed: int, way: list[str], tables: Multihomed, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.towards("leaf3")
    asked: list[tuple[str, ...]] = []

    def hash_of(*flow: object) -> int:
        asked.append(tuple(map(str, flow)))
        return hashed

    monkeypatch.setattr(bonding, "hash_of", hash_of)
    assert tables.ways("h1", "h3", 49476) == [way]
    assert asked == [("10.1.10.1", "10.1.10.3", "49476", "4791")]


def test_the_order_of_the_driver_decides(tables: Multihomed, monkeypatch: pytest.MonkeyPatch) -> None:
    tables.towards("leaf3")
    tables.order["h1"].reverse()
    monkeypatch.setattr(bonding, "hash_of", lambda *_: 0)
    assert tables.ways("h1", "h3", 49476) == [BY_LEAF2]


@pytest.mark.parametrize("unused", [leg("eth1", state="BACKUP"), leg("eth1", mii="DOWN"), leg("eth1", aggregator=2)])
def test_a_leg_that_lacp_does_not_use_is_none(unused: dict[str, Any], tables: Multihomed) -> None:
    tables.towards("leaf3")
    tables.said["h1"]["link"][1] = unused
    assert tables.ways("h1", "h3", 49476) == tables.ways("h1", "h3", 49477) == [BY_LEAF2]


def test_a_bond_without_legs_is_told(tables: Multihomed) -> None:
    tables.said["h1"]["link"][0] = bond(aggregator=3)
    with pytest.raises(OperationFailed, match="h1:bond1 has no leg that it sends by"):
        tables.ways("h1", "h3")


def test_of_another_policy_any_leg_is_told(tables: Multihomed) -> None:
    """What the driver makes of MACs is not computed: both are possible, and the policy is said."""
    tables.towards("leaf3")
    tables.said["h1"]["link"][0]["linkinfo"]["info_data"]["xmit_hash_policy"] = "layer2"
    assert tables.ways("h1", "h3", 49476) == [BY_LEAF1, BY_LEAF2]
    (said,) = (x.said for x in tables.walker("h1", "h3", 49476).paths()[0][0].looked if x.table == "bond")
    assert said == "bond1, layer2: eth1, 1 of 2"


@pytest.mark.parametrize(("hashed", "leaf"), [(0x7FFFFFFF, "leaf1"), (0x80000000, "leaf2")])
def test_a_flow_to_a_bond_takes_the_vtep_that_the_groups_threshold_says(
    hashed: int, leaf: str, tables: Multihomed, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.towards(leaf)
    monkeypatch.setattr(flow_hash, "hash_of", lambda _: hashed)
    assert tables.ways("h3", "h1", 49476) == [["h3:eth1", "leaf3:swp1", f"spine1:swp{leaf[-1]}", f"{leaf}:swp2"]]
    looked = tables.walker("h3", "h1", 49476).paths()[0][1].looked
    assert [each.table for each in looked] == ["FDB", "next hops", "VNI", "route", "neighbour"]
    assert looked[1].said == f"10.252.0.{leaf[-1]}, 1 of 2"


def test_a_leaf_without_carrier_at_its_bond_sends_to_the_other(tables: Multihomed) -> None:
    tables.towards("leaf2")
    tables.said["leaf1"]["link"][1] = bond(carrier=False, backup=2)
    assert tables.ways("h2", "h1", 49476) == [["h2:eth1", "leaf1:swp1", "spine1:swp2", "leaf2:swp2"]]
    said = tables.walker("h2", "h1", 49476).paths()[0][1].looked[0].said
    assert said == f"VLAN 10, {H1}: bond1 is down, vni10010 for it, next hops 2"
    tables.said["leaf1"]["link"][1] = bond()
    assert tables.ways("h2", "h1", 49476) == [["h2:eth1", "leaf1:swp2"]]


def test_a_group_without_next_hops_is_told(tables: Multihomed) -> None:
    tables.said["leaf3"]["nexthop"] = []
    with pytest.raises(OperationFailed, match=f"leaf3 has no next hop in group {GROUP}"):
        tables.ways("h3", "h1")


def test_the_drivers_hash_is_that_of_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ports c001 and 12b7, addresses 0a010a01 and 0a010a03, as a little-endian machine reads them:
    b71201c0 ^ 010a010a ^ 030a010a = b51201c0; ^ its >> 16 = b512b4d2; ^ its >> 8 = b5a7a666; half of it.
    """
    monkeypatch.setattr("sys.byteorder", "little")
    src, dst = ip_address("10.1.10.1"), ip_address("10.1.10.3")
    assert bonding.hash_of(src, dst, 0xC001, 4791) == 0xB5A7A666 >> 1


def test_addresses_of_ipv6_are_folded_word_by_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """fd000000 is in each twice, which leaves 00000001, read as 0x01000000: shifted by 16 and by 8, 01010101."""
    monkeypatch.setattr("sys.byteorder", "little")
    src, dst = ip_address("fd00::fd00:0:0:1"), ip_address("fd00::fd00:0:0:0")
    assert bonding.hash_of(src, dst, 0, 0) == 0x01010101 >> 1


@pytest.mark.parametrize(
    ("weights", "hashed", "place"),
    [((1,), 0xFFFFFFFF, 0), ((1, 1), 0, 0), ((1, 1), 0xFFFFFFFF, 1), ((1, 3), 0x3FFFFFFF, 0), ((1, 3), 0x40000000, 1),
     ((1, 1, 1), 0x55555555, 0), ((1, 1, 1), 0x55555556, 1), ((1, 1, 1), 0xAAAAAAAA, 2)],
)  # fmt: skip
def test_members_share_the_range_of_the_hash_by_weight(weights: tuple[int, ...], hashed: int, place: int) -> None:
    """Of thirds: 2^31 / 3 is 715827882.67, 2/3 of it 1431655765.33: the last of the first is 0x2aaaaaaa."""
    assert flow_hash.member_of(hashed, weights) == place
