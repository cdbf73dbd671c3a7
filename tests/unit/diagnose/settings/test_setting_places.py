"""Settings that differ as causes: at which place, and beside which others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.audit.audited import NodeAudit, UnreadPart
from lab.audit.difference import Difference
from lab.audit.objects.kernel_objects import AddressAudit
from lab.diagnose import differing
from lab.diagnose.conservation.corruption import with_corruption
from lab.diagnose.conservation.hop_balance import HopKind
from lab.diagnose.conservation.locations import Location, PacketEffect
from lab.diagnose.diagnosis import Diagnosis, DiagnosisOutcome
from tests.unit.diagnose.made_facts import PEERS
from tests.unit.diagnose.settings.made_settings import FILTER, FORWARDING, ROUTE, setting
from tests.unit.diagnose.settings.setting_diagnoses import SEEN, cause, diagnosed, named

COSTS = (
    setting("spine1", "frr interface swp2 / ip ospf cost", "value", "swp2", value="50", expected="20",
            against=PEERS["spine1:swp2"]),
    setting("leaf2", "frr interface swp1 / ip ospf cost", "value", PEERS["spine1:swp2"].partition(":")[2], value="20",
            expected="50", against="spine1:swp2"),
)  # fmt: skip


def test_missing_paths_are_at_the_link_whose_ends_differ_whichever_switch_lacks_them() -> None:
    """One of the ends is wrong, and nothing shows which one."""
    assert PEERS["spine1:swp2"].startswith("leaf2:")
    narrow = cause("one-path-only", "leaf1", 0.75)
    assert diagnosed([], causes=[narrow]).causes == (narrow,)
    (found,) = diagnosed(COSTS, causes=[narrow]).causes
    assert found.places == ("spine1:swp2", PEERS["spine1:swp2"])
    assert found.confidence == 0.6
    assert found.fix.startswith("one of the two: rocelab vtysh spine1 ")
    (usual,) = diagnosed([replace(COSTS[0], against="siblings")], causes=[narrow]).causes
    assert (usual.places, usual.confidence) == (("spine1:swp2",), 0.96)
    assert usual.fix.startswith("rocelab vtysh spine1 ")
    (pinned,) = diagnosed([ROUTE, replace(COSTS[0], against="siblings")], causes=[narrow]).causes
    assert (pinned.places, pinned.fix) == (("leaf1",), "rocelab exec leaf1 -- ip route del 10.0.0.8/32")
    assert pinned.confidence == 0.96


def test_what_may_be_intended_is_a_cause_only_if_nothing_else_differs() -> None:
    line = replace(setting("leaf1", "frr router bgp 1 / neighbor 192.0.2.2 remote-as 64999"), intended=True)
    assert named(diagnosed([line, FORWARDING], "leaf1")) == [("forwarding-differs", ("leaf1",), 0.93)]
    assert named(diagnosed([line], "leaf1")) == [("session-differs", ("leaf1",), 0.93)]


def test_an_entry_that_changes_nothing_is_no_cause() -> None:
    entry = setting("leaf1", "neighbour 10.0.0.1 swp3", interface="swp3")
    assert named(diagnosed([entry], "leaf1")) == [("neighbour-differs", ("leaf1:swp3",), 0.93)]
    assert named(diagnosed([replace(entry, harmless=True)], "leaf1")) == []


def test_frames_with_the_mac_of_a_wrong_entry_are_flooded_to_the_owner_of_its_address() -> None:
    """Its NIC counts them, and its host drops them. No packet vanishes at the node with the entry."""
    words = "neighbour 10.0.0.1 eth1"
    wrong = setting("h4", words, "mac", "eth1", value="02:de:ad:00:00:01", expected="02::1", against="rule")
    h1 = AddressAudit("eth1", "10.0.0.1/31", "global")
    nodes = {"h1": NodeAudit("h1", "host", addresses=(h1,)), "h4": NodeAudit("h4", "host", addresses=(h1,))}
    differs = Difference("h4", "neighbour", words, "mac", "02:de:ad:00:00:01", "02::1", "rule", "eth1")
    assert differing._owners_of(differs, nodes) == ("h1",)
    assert differing._owners_of(replace(differs, kind="route"), nodes) == ()
    dropped = cause("acl-4791", "h1:eth1", 0.6)
    assert named(diagnosed([wrong], "h1:eth1", causes=[dropped])) == [("acl-4791", ("h1:eth1",), 0.6)]
    known = replace(wrong, owners=("h1",))
    assert named(diagnosed([known], "h1:eth1", causes=[dropped])) == [("neighbour-differs", ("h4:eth1",), 0.93)]
    assert named(diagnosed([known], "h2:eth1", causes=[])) != [("neighbour-differs", ("h4:eth1",), 0.93)]


@pytest.mark.parametrize(
    ("field", "places", "confidence"),
    [
        ("dscp_to_priority.26", ("h4:eth1",), 0.93),
        ("in kernel", ("h4:eth1",), 0.93),
        ("mtu", ("h4:eth1", "leaf2"), 0.5),
    ],
)
def test_a_setting_at_one_of_two_equal_places_shows_which_one_it_is(
    field: str, places: tuple[str, ...], confidence: float
) -> None:
    """Both ends of a link count packets in different classes, and either can be wrong."""
    differs = setting("h4", "port eth1", field, "eth1", value="0", expected="3")
    either = replace(cause("dscp-map-mismatch", "h4:eth1", 0.5), places=("h4:eth1", "leaf2"))
    assert named(diagnosed([differs], causes=[either]))[0] == ("dscp-map-mismatch", places, confidence)


def behind_nics(*shares: int) -> Diagnosis:
    """Losses behind the NICs of h1, h2 and so on, in packets of a hundred."""
    places = [f"h{number}:eth1" for number, _ in enumerate(shares, 1)]
    seen = replace(SEEN, source=HopKind.NIC_RX.value)
    located = tuple(
        Location(place, PacketEffect.VANISH, share, 100, seen) for place, share in zip(places, shares, strict=True)
    )
    drop = replace(cause("silent-drop", "", 0.7), places=tuple(places))
    return Diagnosis(
        outcome=DiagnosisOutcome.FAULT, causes=(drop,), unexplained=(), missing=(), start=0.0, end=2.0,
        located=located,
    )  # fmt: skip


def test_packets_lost_behind_a_nic_are_corrupt_if_no_setting_of_its_host_differs() -> None:
    read = {name: NodeAudit(name=name, role="host") for name in ("h1", "h2")}
    corrupt = with_corruption(behind_nics(20, 18), read)
    assert named(corrupt) == [("link-corrupt", ("h1:eth1", "h2:eth1"), 0.7)]
    assert named(with_corruption(behind_nics(20, 4), read)) == [("link-corrupt", ("h1:eth1",), 0.7)]
    differs = setting("h1", "sysctl net.ipv4.conf.eth1.rp_filter", "value", value="1", expected="0")
    unread = {**read, "h2": replace(read["h2"], unread=(UnreadPart("nft", "OperationFailed"),))}
    for found, known in (
        (behind_nics(20, 18), {"h1": read["h1"]}),
        (behind_nics(20, 18), unread),
        (replace(behind_nics(20, 18), differing=(differs,)), read),
        (replace(behind_nics(20, 18), differing=(FILTER,)), read),
    ):
        assert [each.cause for each in with_corruption(found, known).causes] == ["silent-drop"]


def test_interfaces_of_a_node_without_a_cable_are_one_place() -> None:
    """The MTU of a tunnel changes that of its bridge, and of the VLANs of that."""
    names = ("vni7", "bridge", "vlan7", "swp3")
    small = [setting("leaf1", f"interface {each}", "mtu", each, value="1400", expected="4300") for each in names]
    assert named(diagnosed(small[:1], "leaf1")) == [("mtu-differs", ("leaf1:vni7",), 0.93)]
    assert named(diagnosed(small[:3], "leaf1")) == [("mtu-differs", ("leaf1",), 0.93)]
    assert named(diagnosed(small, "leaf1")) == [("mtu-differs", ("leaf1", "leaf1:swp3"), 0.93)]


def test_a_bridge_that_ignores_vlans_explains_floods_and_addresses_of_other_networks() -> None:
    """Frames loop between the tunnels of all networks, and two tenants can have the same addresses."""
    flood, stale = cause("spine-as-bottleneck", "h2:eth1", 0.99), cause("stale-neighbour", "h4:eth1", 0.96)
    mixed = setting("leaf1", "interface bridge", "vlan_filtering", "bridge", value="0", expected="1")
    found = diagnosed([mixed], "h1:eth1", "leaf1", causes=[flood, stale])
    assert named(found) == [("bridge-differs", ("leaf1:bridge",), 0.93)]
    learning = replace(mixed, setting="learning", value="no", expected="yes")
    found = diagnosed([learning], "h1:eth1", "leaf1", causes=[flood, stale])
    assert [each.cause for each in found.causes][:2] == ["spine-as-bottleneck", "stale-neighbour"]


def test_a_tunnel_that_is_shut_loses_packets_at_its_other_end() -> None:
    shut = replace(setting("leaf2", "interface vni7", "up", "vni7", value="no", expected="yes"), tunnel=True)
    drop = cause("silent-drop", "leaf1", 0.7)
    assert named(diagnosed([shut], "leaf1", causes=[drop])) == [("link-differs", ("leaf2:vni7",), 0.93)]
    assert named(diagnosed([replace(shut, tunnel=False)], "leaf1", causes=[drop])) == [
        ("silent-drop", ("leaf1",), 0.7)
    ]
    behind = cause("silent-drop", "h1:eth1", 0.7)
    assert named(diagnosed([shut], "h1:eth1", causes=[behind])) == [("silent-drop", ("h1:eth1",), 0.7)]


@pytest.mark.parametrize(("place", "fix"), [("leaf2", ""), ("leaf2:swp1", "rocelab qos set leaf2:swp1 ")])
def test_a_setting_of_one_port_does_not_narrow_what_all_ports_have(place: str, fix: str) -> None:
    """Only the uplinks of both leaves have enough siblings: their ports to hosts are as many with as without."""
    differs = setting("leaf2", "port swp1", "pfc.watchdog.enabled", "swp1", value="yes", expected="no")
    (found,) = diagnosed([differs], causes=[cause("pfc-watchdog-missing", place, 0.85)]).causes
    assert found.places == (place,)
    assert found.fix.startswith(fix)
    assert bool(found.fix) is bool(fix)


@pytest.mark.parametrize("field", ["priority", "ageing_time", "stp_state"])
def test_a_bridge_that_floods_or_moves_its_tree_is_the_cause_where_packets_are_lost(field: str) -> None:
    differs = setting("leaf1", "interface bridge", field, "bridge", value="0", expected="1")
    found = diagnosed([differs], "leaf1", causes=[cause("silent-drop", "leaf1", 0.7)])
    assert named(found) == [("bridge-differs", ("leaf1:bridge",), 0.93)]


@pytest.mark.parametrize(("sure", "first"), [(0.25, "filter-differs"), (0.45, "ecn-missing-one-leaf")])
def test_an_unlikely_cause_at_the_port_of_a_filter_explains_no_packets(sure: float, first: str) -> None:
    """The filter rewrites the DSCP of what the port sends. Its queue does not mark, as it is configured to."""
    link = f"{PEERS['leaf1:swp3']}--leaf1:swp3"
    causes = [cause("dscp-rewritten", link, 0.7), cause("ecn-missing-one-leaf", "leaf1:swp3", sure)]
    found = diagnosed([FILTER], link, causes=causes, effect=PacketEffect.RECLASS)
    assert first in [each.cause for each in found.causes]
    assert ("filter-differs" in [each.cause for each in found.causes]) is (first == "filter-differs")


def test_the_queue_of_a_port_that_counts_nothing_is_the_cause() -> None:
    queue = setting("h3", "qdisc eth1 root", "kind", "eth1", value="pfifo", expected="rl_incast")
    found = diagnosed([queue], causes=[cause("queue-replaced", "h3:eth1", 0.75)])
    assert named(found) == [("queue-differs", ("h3:eth1",), 0.93)]
