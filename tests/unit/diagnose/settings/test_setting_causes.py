"""Settings that differ as causes: those that can lose packets where packets are lost, and no others."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lab.diagnose.causes.cause_table import CAUSES
from lab.diagnose.causes.setting_fixes import remedies, remedy
from lab.diagnose.causes.setting_kinds import INFERRED, SETTING_KINDS, kind_of
from lab.diagnose.conservation.locations import PacketEffect
from lab.diagnose.diagnosis import Diagnosis, DiagnosisOutcome
from lab.diagnose.route_paths import RoutePaths
from lab.diagnose.setting_causes import with_setting_causes
from lab.diagnose.symptom import Evidence
from tests.unit.diagnose.made_facts import PEERS, TOPOLOGY
from tests.unit.diagnose.settings.made_settings import FILTER, FORWARDING, NEIGHBOUR, ROUTE, SACK, setting
from tests.unit.diagnose.settings.setting_diagnoses import H1_LEAF, cause, diagnosed, named

if TYPE_CHECKING:
    from lab.diagnose.differing import DifferingSetting


@pytest.mark.parametrize(
    ("differs", "place", "answer"),
    [
        (ROUTE, "leaf1", ("route-differs", ("leaf1",), 0.93)),
        (FORWARDING, "leaf1", ("forwarding-differs", ("leaf1",), 0.93)),
        (FILTER, "leaf1", ("filter-differs", ("leaf1:swp3",), 0.93)),
        (FILTER, f"{PEERS['leaf1:swp3']}--leaf1:swp3", ("filter-differs", ("leaf1:swp3",), 0.93)),
        (NEIGHBOUR, "h1:eth1", ("neighbour-differs", ("h1:eth1",), 0.93)),
        (NEIGHBOUR, H1_LEAF.partition(":")[0], ("neighbour-differs", ("h1:eth1",), 0.93)),
    ],
    ids=["a route", "forwarding", "a filter at its node", "before its port", "a neighbour", "at its neighbour"],
)
def test_a_setting_within_reach_of_lost_packets_is_the_cause(
    differs: DifferingSetting, place: str, answer: tuple[str, tuple[str, ...], float]
) -> None:
    found = diagnosed([differs], place, causes=[cause("silent-drop", place, 0.7)])
    assert (found.outcome, named(found)) == (DiagnosisOutcome.FAULT, [answer])


@pytest.mark.parametrize(
    ("differs", "place"),
    [
        (ROUTE, "leaf1:swp1--spine1:swp1"), (ROUTE, "leaf2"), (SACK, "leaf1"),
        (FILTER, "leaf1:swp1--spine1:swp1"), (NEIGHBOUR, "h1:eth1--leaf1:swp3"),
    ],
    ids=["a route and a link", "another switch", "TCP", "a filter at another port", "a neighbour and a link"],
)  # fmt: skip
def test_a_setting_out_of_reach_is_none(differs: DifferingSetting, place: str) -> None:
    lost = cause("gray-loss", place)
    assert diagnosed([differs], place, causes=[lost]).causes == (lost,)


@pytest.mark.parametrize("differs", [ROUTE, FILTER, FORWARDING], ids=["a route", "a filter", "forwarding"])
def test_late_packets_at_a_nic_make_no_setting_out_of_reach_the_cause(differs: DifferingSetting) -> None:
    """Packets over a slow link arrive out of order, and the sweep has named the link."""
    slow = cause("link-delay", "leaf2:swp1--spine1:swp2")
    assert diagnosed([differs], "h4:eth1", causes=[slow], effect=PacketEffect.REORDER).causes == (slow,)


def test_a_hash_that_differs_replaces_a_collision_wherever_it_was_concluded() -> None:
    hashed = setting("leaf1", "sysctl net.ipv4.fib_multipath_hash_policy", "value", value="0", expected="1")
    collision = cause("elephant-collision", "leaf2")
    found = diagnosed([hashed], "h4:eth1", causes=[collision], effect=PacketEffect.REORDER)
    assert [each.cause for each in found.causes] == ["hash-differs"]


def test_without_trouble_a_setting_has_no_effect() -> None:
    fine = Diagnosis(
        outcome=DiagnosisOutcome.HEALTHY, causes=(), unexplained=(), missing=(), start=0.0, end=2.0,
        differing=(ROUTE, FILTER),
    )  # fmt: skip
    assert with_setting_causes(fine, RoutePaths(TOPOLOGY)) == fine


BFD_DOWN = setting(
    "spine1", "bfd session swp1 fe80::1", "status", "swp1", kind="bfd session", value="down", expected="up",
    against="rule",
)  # fmt: skip
SILENT = setting("leaf1", "bfdd", "answer", kind="node", value="no answer within 10 s", expected="answers")


@pytest.mark.parametrize(
    ("settings", "answer"),
    [
        ([BFD_DOWN], ("session-differs", ("spine1:swp1",), 0.75)),
        ([setting("leaf1", "interface swp3", interface="swp3", value="absent", expected="present")],
         ("link-differs", ("leaf1:swp3",), 0.75)),
        ([replace(SILENT, object="zebra")], ("daemon-silent", ("leaf1",), 0.75)),
        ([SILENT], ("daemon-silent", ("leaf1",), 0.75)),
        ([setting("leaf1", "daemon ospfd", "running", value="no", expected="yes")],
         ("session-differs", ("leaf1",), 0.75)),
    ],
)  # fmt: skip
def test_a_session_or_a_daemon_that_is_down_is_wrong_before_a_packet_is_lost(
    settings: list[DifferingSetting], answer: tuple[str, tuple[str, ...], float]
) -> None:
    assert named(diagnosed(settings)) == [answer]


def test_a_dead_daemon_is_no_drain() -> None:
    """No route leads over its switch any more, either. A daemon that runs is not the one that is wrong."""
    effects = ("fewer paths or routes at leaf1, leaf2", "spine1 is drained: no route of others leads over it")
    gone = replace(setting("spine1", "daemon bgpd", "running", value="no", expected="yes"), touches=effects)
    assert named(diagnosed([gone])) == [("session-differs", ("spine1",), 0.75)]
    assert named(diagnosed([setting("spine1", "daemon bgpd", "running", value="yes", expected="no")])) == []


@pytest.mark.parametrize("line", ["interface swp1 / ipv6 ospf6 area", "router isis fabric / topology ipv6-unicast"])
def test_a_line_that_takes_routes_is_wrong_if_no_probe_uses_them(line: str) -> None:
    """As in a fabric whose hosts have no IPv6. A drained switch and what leads outside can be intended."""
    taking = replace(setting("leaf1", f"frr {line}"), touches=("fewer paths or routes at leaf1, spine1",))
    assert named(diagnosed([taking])) == [("session-differs", ("leaf1",), 0.75)]
    drains = replace(taking, touches=(*taking.touches, "leaf1 is drained: no IPv6 route of others leads over it"))
    assert named(diagnosed([drains])) == []
    assert named(diagnosed([replace(taking, intended=True)])) == []
    assert named(diagnosed([replace(taking, touches=())])) == []


def test_sessions_of_bfd_that_are_down_follow_from_the_line_that_shuts_them() -> None:
    shut = setting("leaf1", "frr bfd / profile fabric / shutdown")
    own = replace(BFD_DOWN, node="leaf1", value="shutdown")
    found = diagnosed([BFD_DOWN, own, shut])
    assert named(found) == [("session-shutdown", ("leaf1",), 0.93)]
    assert [each.fix for each in found.causes] == [remedy(shut)]
    assert named(diagnosed([own])) == [], "shut by intent"
    assert named(diagnosed([replace(BFD_DOWN, intended=True)])) == []
    kernel = replace(SILENT, object="kernel")
    assert named(diagnosed([kernel])) == [], "no daemon: see what was not checked"


def test_what_another_cause_explains_is_not_explained_again() -> None:
    storm = cause("pfc-storm", "leaf1:swp3")
    assert diagnosed([FILTER], "leaf1:swp3", causes=[storm], effect=PacketEffect.HOLD).causes == (storm,)
    mapped = cause("dscp-map-mismatch", "leaf1")
    differs = setting("leaf1", "port swp1", "dscp_to_priority.26", "swp1", value="0", expected="3")
    (found,) = diagnosed([differs], "leaf1:swp1--spine1:swp1", causes=[mapped]).causes
    command = "rocelab qos set leaf1:swp1 map.dscp.26=3"
    assert found == replace(mapped, places=("leaf1:swp1",), fix=command), "for the port as it is"


def test_paths_that_are_missing_are_those_of_a_session_without_prefixes() -> None:
    """Of a switch itself, or of the spine that has not learned them."""
    silent = setting(
        "spine2", "bgp session swp2", "ipv4Unicast prefixes", "swp2", value="0", expected="those of leaf2"
    )
    (found,) = diagnosed([silent], causes=[cause("one-path-only", "leaf1")]).causes
    assert found.places == ("spine2:swp2",)
    line = setting("leaf2", "frr router bgp 7 / neighbor swp2 route-map NEW out", interface="swp2")
    (found,) = diagnosed([silent, line], causes=[cause("one-path-only", "leaf1")]).causes
    assert found.places == ("leaf2:swp2",), "the end at which it is configured"
    assert found.fix.endswith("-c 'no neighbor swp2 route-map NEW out'")
    quiet = replace(line, object="frr router bgp 7 / neighbor swp2 timers 20 60")
    (found,) = diagnosed([silent, quiet], causes=[cause("one-path-only", "leaf1")]).causes
    assert found.places == ("spine2:swp2",), "timers take no path away"
    timer = replace(silent, setting="hold time", value="90.0", expected="9.0")
    (found,) = diagnosed([timer], causes=[cause("one-path-only", "leaf1")]).causes
    assert found.places == ("leaf1",)


def test_a_cause_of_a_node_is_at_the_only_port_whose_setting_differs() -> None:
    differs = setting("leaf1", "port swp1", "dscp_to_priority.26", "swp1", value="0", expected="3")
    mapped = cause("dscp-map-mismatch", "leaf1")
    assert [each.places for each in diagnosed([differs], causes=[mapped]).causes] == [("leaf1:swp1",)]
    other = replace(differs, object="port swp2", interface="swp2")
    assert [each.places for each in diagnosed([differs, other], causes=[mapped]).causes] == [("leaf1",)]


def test_a_cause_of_a_link_is_at_the_only_end_whose_setting_differs() -> None:
    far, near = PEERS["leaf1:swp1"].split(":")
    link = f"leaf1:swp1--{far}:{near}"
    mine = setting("leaf1", "interface swp1", "mtu", "swp1", value="1500", expected="9000")
    other = setting(far, f"interface {near}", "mtu", near, value="1500", expected="9000")
    black_hole = cause("mtu-black-hole", link, 0.8)
    assert named(diagnosed([mine], causes=[black_hole])) == [("mtu-black-hole", ("leaf1:swp1",), 0.8)]
    assert named(diagnosed([other], causes=[black_hole])) == [("mtu-black-hole", (f"{far}:{near}",), 0.8)]
    assert named(diagnosed([mine, other], causes=[black_hole])) == [("mtu-black-hole", (link,), 0.8)]
    of_node = replace(mine, object="route 10.0.0.8/31", interface="")
    assert named(diagnosed([of_node], causes=[black_hole])) == [("mtu-black-hole", (link,), 0.8)]


@pytest.mark.parametrize("line", ["ip ospf area", "isis circuit-type"])
def test_paths_that_several_switches_lack_are_those_of_the_port_whose_line_differs(line: str) -> None:
    """A link is not used in either direction: both of its switches lack paths, one because of its configuration."""
    port = setting("leaf1", f"frr interface swp1 / {line}", "value", "swp1", value="1", expected="0")
    both = replace(cause("one-path-only", "leaf1"), places=("spine2", "leaf1"))
    (found,) = diagnosed([port], causes=[both]).causes
    assert (found.places, found.confidence) == (("leaf1:swp1",), 0.96)
    assert found.fix == remedy(port)


@pytest.mark.parametrize("definition", ["route-map LP permit 10", "ip prefix-list NO seq 5 deny 10.0.0.0/31"])
def test_what_a_node_defines_for_a_port_leaves_the_place_at_the_port(definition: str) -> None:
    """With the plan, the route map and its lines are listed, too: those belong to no port."""
    used = setting("leaf1", "frr router bgp 7 / neighbor swp1 route-map LP in", interface="swp1", against="plan")
    defined = setting("leaf1", f"frr {definition}", against="plan")
    (found,) = diagnosed([used, defined], causes=[cause("one-path-only", "leaf1")]).causes
    assert found.places == ("leaf1:swp1",)
    assert found.fix == "; ".join(remedies([used, defined]))


def test_settings_of_several_kinds_are_one_of_them() -> None:
    found = diagnosed([ROUTE, FORWARDING], "leaf1")
    assert sorted(named(found)) == [("forwarding-differs", ("leaf1",), 0.47), ("route-differs", ("leaf1",), 0.47)]
    assert {each.alternatives for each in found.causes} == {("route-differs",), ("forwarding-differs",)}


def test_trouble_without_a_place_is_less_sure() -> None:
    nearby = Evidence(says="not answered", of="h1", source="ping", value=0, at=1.0)
    assert named(diagnosed([ROUTE], unexplained=[nearby])) == [("route-differs", ("leaf1",), 0.75)]
    assert named(diagnosed([ROUTE], unexplained=[replace(nearby, of="")])) == [("route-differs", ("leaf1",), 0.6)]
    assert diagnosed([SACK], unexplained=[nearby]).outcome is DiagnosisOutcome.UNKNOWN


def test_of_fewer_paths_the_configuration_is_restored_and_no_learned_route() -> None:
    """A manual route would take the place of what BGP learns when it uses more paths again."""
    line = setting("leaf1", "frr router bgp 65001 / maximum-paths", "value", value="1", expected="64", against="plan")
    both = "via fe80::1 dev swp1, via fe80::2 dev swp2"
    routes = [
        setting("leaf1", f"route {prefix} metric 20", "next hops", value="via fe80::1 dev swp1", expected=both)
        for prefix in ("10.0.0.4/31", "10.0.0.6/31")
    ]
    (found,) = diagnosed([line, *routes], causes=[cause("one-path-only", "leaf1")]).causes
    assert found.fix == remedy(line)


def test_settings_of_one_cause_at_two_places_have_the_confidence_and_the_fixes_of_both() -> None:
    """Each is the fault with half of it. That one of them is, and so the cause's name, is as sure as both."""
    other = replace(FILTER, node="leaf2")
    anywhere = Evidence(says="not answered", of="", source="sweep", value=0, at=1.0)
    (found,) = diagnosed([FILTER, other], unexplained=[anywhere]).causes
    assert (found.places, found.confidence, found.alternatives) == (("leaf1:swp3", "leaf2:swp3"), 0.6, ())
    assert found.fix == "; ".join([remedy(FILTER), remedy(other)])
    filters, route = diagnosed([FILTER, other, ROUTE], unexplained=[anywhere]).causes
    assert (filters.cause, filters.confidence, filters.alternatives) == ("filter-differs", 0.4, ("route-differs",))
    assert (route.cause, route.confidence, route.alternatives) == ("route-differs", 0.2, ("filter-differs",))


def test_sessions_that_are_down_are_consequences_of_another_setting_at_either_end() -> None:
    anywhere = Evidence(says="not answered", of="", source="sweep", value=0, at=1.0)
    far, near = PEERS["leaf1:swp1"].split(":")
    down = [
        setting("leaf1", "bgp session swp1", "state", "swp1", value="Active", expected="Established"),
        setting(far, f"bgp session {near}", "state", near, value="Active", expected="Established"),
    ]
    off = setting("leaf1", "sysctl net.ipv6.conf.swp1.disable_ipv6", "value", "swp1", value="1", expected="0")
    assert named(diagnosed([*down, off], unexplained=[anywhere])) == [("forwarding-differs", ("leaf1:swp1",), 0.6)]
    line = setting("leaf1", "frr router bgp 1 / neighbor swp1 passive")
    assert named(diagnosed([*down, line], unexplained=[anywhere])) == [("session-differs", ("leaf1",), 0.6)]
    routes = [
        setting(name, f"route 10.0.0.{number}/31", "next hops", value="dev swp1", expected="2 next hops")
        for number, name in enumerate(("leaf1", "leaf2", far))
    ]
    routes.append(setting(far, "route 10.0.0.0/31", value="absent", expected="present"))
    by_plan = "via fe80::1 dev swp1, via fe80::2 dev swp2"
    fewer = setting("leaf2", "route 10.0.0.6/31", "next hops", value="via fe80::2 dev swp2", expected=by_plan)
    routes.append(fewer)
    (found,) = diagnosed([*down, *routes], unexplained=[anywhere]).causes
    assert (found.cause, set(found.places)) == ("session-differs", {"leaf1:swp1", f"{far}:{near}"})
    (found,) = diagnosed(routes, unexplained=[anywhere]).causes
    assert found.cause == "route-differs"
    route = setting("leaf1", "route 10.0.0.8/32", protocol="boot")
    both = diagnosed([*down, route], unexplained=[anywhere]).causes
    assert {each.cause for each in both} == {"session-differs", "route-differs"}, "link-local packets pass"
    other = replace(line, node="leaf2")
    (found,) = diagnosed([*down, other], unexplained=[anywhere]).causes
    assert set(found.places) == {"leaf1:swp1", f"{far}:{near}", "leaf2"}


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ("router bgp 1 / neighbor swp1 shutdown", "Idle (Admin)"),
        ("router bgp 1 / neighbor swp1 shutdown message drained for repair", "Idle (Admin)"),
        ("router bgp 1 / neighbor FABRIC shutdown", "Idle (Admin)"),
        ("router bgp 1 / bgp shutdown", "Idle (Admin)"),
        ("", "Idle (Admin)"),
    ],
)
def test_a_session_that_an_administrator_shut_is_said_to_be_that(line: str, state: str) -> None:
    far, near = PEERS["leaf1:swp1"].split(":")
    port = "swp1" if "swp1" in line else ""
    shut = [setting("leaf1", f"frr {line}", interface=port)] if line else []
    own = setting("leaf1", "bgp session swp1", "state", "swp1", value=state, expected="Established")
    other = setting(far, f"bgp session {near}", "state", near, value="Active", expected="Established")
    lost = [
        Evidence(says="became Active", of=each, source="bgp", value=1, at=1.0)
        for each in ("leaf1:swp1", f"{far}:{near}")
    ]
    (found,) = diagnosed([other, own, *shut], unexplained=lost).causes
    place = "leaf1" if line and not port else "leaf1:swp1"
    assert (found.cause, found.places, found.confidence) == ("session-shutdown", (place,), 0.93)
    assert "administratively shut down" in found.evidence[0].says
    if line:
        assert (
            found.fix
            == f"rocelab vtysh leaf1 -c 'configure terminal' -c 'router bgp 1' -c 'no {line.rpartition(' / ')[2]}'"
        )
    elsewhere = Evidence(says="not answered", of="", source="sweep", value=0, at=1.0)
    (found,) = diagnosed([other, own, *shut], unexplained=[*lost, elsewhere]).causes
    assert found.confidence < 0.8, "something else is wrong, too"
    beside = diagnosed([other, own, *shut], unexplained=lost, causes=[cause("link-flap", "leaf2:swp9", 0.97)]).causes
    assert [(each.cause, each.confidence) for each in beside] == [("link-flap", 0.97), ("session-shutdown", 0.93)]
    second = replace(own, node="leaf2")
    places = [*lost, replace(lost[0], of="leaf2:swp1")]
    (found,) = diagnosed([other, own, second, *shut], unexplained=places).causes
    assert (set(found.places), found.confidence) == ({place, "leaf2:swp1"}, 0.93), "two sessions are shut"
    failed = replace(own, value="Idle")
    (found,) = diagnosed([other, failed], unexplained=lost).causes
    assert found.cause == "session-differs"


@pytest.mark.parametrize(("mode", "option"), [(1, "xdp"), (2, "xdpgeneric")])
def test_a_program_of_xdp_is_a_filter_of_its_port(mode: int, option: str) -> None:
    program = json.dumps({"mode": mode, "prog": {"id": 27, "name": "drop"}}, sort_keys=True)
    filtering = setting("leaf1", "interface swp3", "xdp", "swp3", value=program, expected="absent")
    (found,) = diagnosed([filtering], f"{PEERS['leaf1:swp3']}--leaf1:swp3").causes
    assert (found.cause, found.places, found.confidence) == ("filter-differs", ("leaf1:swp3",), 0.93)
    assert found.fix == f"rocelab exec leaf1 -- ip link set swp3 {option} off"


@pytest.mark.parametrize("name", ["bgp router-id", "neighbor swp2 description", "bgp log-neighbor-changes"])
def test_a_name_is_no_cause_beside_a_line_that_takes_paths(name: str) -> None:
    takes = replace(setting("spine1", "frr router bgp 7 / neighbor swp1 route-map NEW in", interface="swp1"),
                    touches=("fewer paths or routes at leaf1",))  # fmt: skip
    called = setting("leaf1", f"frr router bgp 8 / {name}", "value", value="9.9.9.9", expected="10.0.0.1")
    (found,) = diagnosed([takes, called]).causes
    assert (found.cause, found.places) == ("session-differs", ("spine1:swp1",))
    lost = Evidence(says="became Idle", of="leaf1:swp1", source="bgp", value=1, at=1.0)
    assert named(diagnosed([called], unexplained=[lost])) == [("session-differs", ("leaf1",), 0.75)]
    (found,) = diagnosed([takes, replace(called, shared=True)]).causes
    assert ("leaf1" in found.places) is (name == "bgp router-id")


@pytest.mark.parametrize(
    ("shut", "by", "fix"),
    [
        (setting("leaf1", "frr interface swp1 / shutdown", interface="swp1"), "by FRR", "no shutdown"),
        (setting("leaf1", "frr interface swp1 vrf red / shutdown", interface="swp1"), "by FRR", "no shutdown"),
        (setting("leaf1", "interface swp1", "up", "swp1", value="no", expected="yes"), "in the kernel", "swp1 up"),
    ],
)
def test_a_link_that_an_administrator_shut_is_at_that_end(shut: DifferingSetting, by: str, fix: str) -> None:
    link = f"leaf1:swp1--{PEERS['leaf1:swp1']}"
    (found,) = diagnosed([shut], causes=[cause("link-flap", link)]).causes
    assert (found.cause, found.places, found.confidence) == ("link-flap", ("leaf1:swp1",), 0.9)
    assert found.title.endswith(by)
    assert fix in found.fix
    far, near = PEERS["leaf1:swp1"].split(":")
    both = [shut, setting(far, f"interface {near}", "up", near, value="no", expected="yes")]
    (found,) = diagnosed(both, causes=[cause("link-flap", link)]).causes
    assert found.places == (link,)


def test_the_fix_of_a_session_that_is_shut_is_its_configuration_alone() -> None:
    """The state of a session at the same port needs no look: it comes up by itself."""
    line = setting("leaf1", "frr router bgp 7 / neighbor swp1 shutdown", interface="swp1")
    (found,) = diagnosed([DOWN, line], unexplained=[ANYWHERE]).causes
    shown = shlex.join(["-c", "configure terminal", "-c", "router bgp 7", "-c", "no neighbor swp1 shutdown"])
    assert found.fix == f"rocelab vtysh leaf1 {shown}"


ANYWHERE = Evidence(says="not answered", of="", source="sweep", value=0, at=1.0)
DOWN = setting("leaf1", "bgp session swp1", "state", "swp1", value="Active", expected="Established")


def test_a_network_that_is_not_advertised_is_a_consequence_of_sessions_that_are_down() -> None:
    """A leaf without sessions advertises nothing. A network statement would not help."""
    silent = setting("leaf1", "route 10.0.0.0/31", "advertised", value="no", expected="yes")
    (found,) = diagnosed([DOWN, silent], unexplained=[ANYWHERE]).causes
    assert (found.cause, found.places, found.confidence) == ("session-differs", ("leaf1:swp1",), 0.6)


@pytest.mark.parametrize(
    "second",
    [
        setting("h1", "route 0.0.0.0/0", value="absent", expected="present: type unicast, protocol static, "
                "next hops via 10.0.0.0 dev eth1"),
        setting("leaf2", "route 10.0.0.8/31", "next hops", value="blackhole", expected="2 next hops"),
    ],
    ids=["a static route", "a blackhole"],
)  # fmt: skip
def test_a_route_that_no_session_brings_does_not_follow_from_one(second: DifferingSetting) -> None:
    found = diagnosed([DOWN, second], unexplained=[ANYWHERE])
    assert {each.cause for each in found.causes} == {"session-differs", "route-differs"}


@pytest.mark.parametrize(
    "other",
    [
        setting("leaf1", "port swp1", "dscp_to_priority.26", "swp1", value="0", expected="3"),
        setting("leaf1", "sysctl net.ipv4.fib_multipath_hash_policy", "value", value="0", expected="1"),
    ],
    ids=["classes", "hash"],
)
def test_a_setting_that_takes_no_session_down_does_not_explain_one(other: DifferingSetting) -> None:
    found = diagnosed([DOWN, other], unexplained=[ANYWHERE])
    assert "session-differs" in {each.cause for each in found.causes}


def test_a_timer_does_not_explain_missing_routes() -> None:
    timer = setting("leaf2", "bgp session swp1", "hold time", "swp1", value="90.0", expected="9.0")
    lost = setting("leaf1", "route 10.0.0.8/31", value="absent", expected="present")
    found = diagnosed([timer, lost], unexplained=[ANYWHERE])
    assert {each.cause for each in found.causes} == {"session-differs", "route-differs"}


def test_a_rule_of_nftables_does_not_hide_a_filter_of_a_port_of_the_same_node() -> None:
    rule = setting("leaf1", "nft ip t forward drop")
    (found,) = diagnosed([rule, FILTER], unexplained=[ANYWHERE]).causes
    assert (set(found.places), found.confidence) == ({"leaf1", "leaf1:swp3"}, 0.6)


@pytest.mark.parametrize(
    ("rule", "action"),
    [
        ('[{"drop": null}]', "delete the rule by its handle"),
        ("hook input policy drop", "delete the chain if it is new"),
    ],
)
def test_a_rule_of_nftables_is_deleted_alone(rule: str, action: str) -> None:
    """Its table may have other rules, like those of Docker's DNS in a container."""
    found = remedy(setting("h1", f"nft ip nat output {rule}"))
    assert found.startswith(action)
    assert found.endswith(": rocelab exec h1 -- nft -a list chain ip nat output")


@pytest.mark.parametrize(
    ("differs", "why", "command"),
    [
        (setting("leaf1", "bgp session swp1", "state", "swp1", value="Idle", expected="Established"),
         "see the reason of the last reset", "rocelab vtysh leaf1 -c 'show bgp neighbors swp1'"),
        (setting("leaf1", "bgp session swp1", "ipv4Unicast prefixes", "swp1", value="0", expected="those of spine1"),
         "look for a route map", "rocelab vtysh leaf1 -c 'show bgp neighbors swp1'"),
        (setting("leaf1", "bgp session swp1", "hold time", "swp1", value="90.0", expected="9.0"),
         "give both ends the hold time of other sessions", "rocelab vtysh leaf1 -c 'show bgp neighbors swp1'"),
        (setting("leaf1", "bfd session swp1 fe80::1", "status", "swp1", kind="bfd session", value="down",
         expected="up"), "see the reason, and use BFD at both ends", "rocelab vtysh leaf1 -c 'show bfd peers'"),
        (setting("leaf1", "bfd session swp1 fe80::1", "status", "swp1", kind="bfd session", value="shutdown",
         expected="up"), "find the line that shuts the session", "rocelab vtysh leaf1 -c 'show running-config'"),
    ],
)  # fmt: skip
def test_the_fix_of_a_session_shows_why_it_is_as_it_is(differs: DifferingSetting, why: str, command: str) -> None:
    """Its state has no command: the configuration of either end decides it."""
    assert remedy(differs).startswith(why)
    assert remedy(differs).endswith(f": {command}")


def test_the_fix_of_a_link_that_is_shut_does_not_show_its_sessions() -> None:
    shut = setting("leaf1", "interface swp1", "up", "swp1", value="no", expected="yes")
    down = setting("leaf1", "bgp session swp1", "state", "swp1", value="Idle", expected="Established")
    far, near = PEERS["leaf1:swp1"].split(":")
    dark = [
        setting(name, f"interface {port}", "carrier", port, value="no", expected="yes", against="plan")
        for name, port in (("leaf1", "swp1"), (far, near))
    ]
    flap = cause("link-flap", f"leaf1:swp1--{PEERS['leaf1:swp1']}")
    (found,) = diagnosed([shut, down, *dark], causes=[flap]).causes
    assert found.fix == "rocelab exec leaf1 -- ip link set swp1 up"


@pytest.mark.parametrize(
    "differs",
    [
        setting("h1", "neighbour 10.0.0.0 eth1;reboot", "mac"),
        setting("h1", "sysctl net.ipv4.ip_forward", "value", value="0", expected="$(reboot)"),
        setting("h1", "port eth1", "queues.3.limit", value="0", expected="1;reboot"),
    ],
    ids=["an object", "a value", "a port's value"],
)
def test_a_recording_puts_no_command_into_a_fix(differs: DifferingSetting) -> None:
    words = list(shlex.shlex(remedy(differs), posix=True, punctuation_chars=True))
    assert not {";", "(", ")"} & {*words}


def test_the_table_names_causes_that_exist() -> None:
    known = {each.name for each in CAUSES}
    assert known >= INFERRED
    for kind in SETTING_KINDS:
        assert kind.same <= known | {"vlan-stp-blocked"}, kind.cause
        assert kind.cause not in known


def test_settings_of_tcp_and_logs_are_no_cause() -> None:
    quiet = ("net.ipv4.tcp_sack", "net.ipv4.conf.all.log_martians")
    for name in quiet:
        assert kind_of(setting("h1", f"sysctl {name}", "value", value="1", expected="0")) is None


def test_a_node_that_answers_no_pings_loses_pings_only() -> None:
    deaf = setting("h1", "sysctl net.ipv4.icmp_echo_ignore_all", "value", value="1", expected="0")
    ping = Evidence(says="not answered", of="h1:eth1", source="ping", value=0, at=1.0)
    assert named(diagnosed([deaf], unexplained=[ping])) == [("echo-differs", ("h1",), 0.75)]
    assert diagnosed([deaf], unexplained=[replace(ping, source="sweep")]).causes == ()
    assert diagnosed([deaf], "h1:eth1").causes == ()


def test_the_hook_of_a_filter_is_no_queue() -> None:
    """It is removed with the filter, so that nothing differs afterwards."""
    hook = setting("leaf1", "qdisc swp3 ffff:fff1", interface="swp3")
    (found,) = diagnosed([hook, FILTER], unexplained=[ANYWHERE]).causes
    assert (found.cause, found.places, found.confidence) == ("filter-differs", ("leaf1:swp3",), 0.6)
    assert found.fix == "rocelab exec leaf1 -- tc qdisc del dev swp3 parent ffff:fff1"
