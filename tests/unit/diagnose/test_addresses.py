"""Addresses, gateways and neighbours: what is healthy of them, what is wrong, and how exactly it is told where."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from lab.diagnose.cause_engine import diagnose
from lab.diagnose.diagnosis import DiagnosisOutcome
from lab.diagnose.facts import PortFacts, Ran, SweptPair
from lab.diagnose.ip_stacks import StackRoute
from lab.diagnose.run import diagnose_run
from lab.telemetry.read.recording import Recording
from lab.telemetry.store import recording_folder as files
from tests.unit.diagnose import made_facts
from tests.unit.diagnose.made_addresses import (
    GATEWAYS,
    MACS,
    NETWORKS,
    NOBODY,
    SILENCE,
    asked,
    connected,
    default,
    facts,
    sending,
    stacks,
)
from tests.unit.diagnose.made_facts import ADDRESSES, HOSTS, Lanes, first, named
from tests.unit.diagnose.recorded import begun, during

if TYPE_CHECKING:
    from pathlib import Path

    from lab.diagnose.facts import WindowFacts

HOSTS_ENDS = [f"{host}:eth1" for host in HOSTS]
ANSWERED = asked("leaf1:swp3", ADDRESSES["h1"], MACS["h1:eth1"])
LAN = "10.1.10.0/24"


def test_where_all_is_as_it_should_be_nothing_is_wrong() -> None:
    found = diagnose(facts(ANSWERED, asked("h1:eth1", "10.0.0.0", MACS["leaf1:swp3"])))
    assert (found.outcome, found.causes) == (DiagnosisOutcome.HEALTHY, ())


@pytest.mark.parametrize(
    "made",
    [
        facts(ran=(SILENCE,)),
        facts(asked("leaf1:swp3", ADDRESSES["h1"])),
    ],
    ids=["ping", "arp"],
)
def test_silence_without_a_cause_is_unknown(made: WindowFacts) -> None:
    found = diagnose(made)
    assert (found.outcome, found.causes) == (DiagnosisOutcome.UNKNOWN, ())
    assert ADDRESSES["h1"] in found.unexplained[0].says


@pytest.mark.parametrize(
    "words", [("-s", "8972", ADDRESSES["h1"]), ("-s", "56", "192.0.2.1")], ids=["large", "to nobody"]
)
def test_a_ping_that_need_not_be_answered_is_no_sign(words: tuple[str, ...]) -> None:
    assert diagnose(facts(ran=(Ran(1.0, "h5", ("ping", *words), 1, ""),))).outcome is DiagnosisOutcome.HEALTHY


@pytest.mark.parametrize(("small", "large", "is_wrong"), [(0, 1, True), (0, 0, False)])
def test_large_pings_alone_that_are_not_answered_are_unknown(small: int, large: int, *, is_wrong: bool) -> None:
    """A route may have a smaller MTU than each of its links: no sweep by raw frames shows it."""
    ran = tuple(
        Ran(1.0, "h5", ("ping", "-M", "do", "-s", size, ADDRESSES["h1"]), code, "")
        for size, code in (("56", small), ("8952", large))
    )
    found = diagnose(facts(ran=ran))
    assert found.causes == ()
    assert (found.outcome is DiagnosisOutcome.UNKNOWN) is is_wrong
    assert [each.of for each in found.unexplained] == (["h5:eth1"] if is_wrong else [])


def test_of_two_networks_as_long_the_cable_is_named() -> None:
    """Nothing tells which end is right."""
    made = facts(h1={"networks": {"eth1": frozenset({"10.200.0.8/31"})}})
    assert first(made) == ("wrong-address", ("h1:eth1--leaf1:swp3",))


def test_an_interface_that_is_shut_has_no_wrong_address() -> None:
    """The kernel removes its networks and routes."""
    gone = facts(h1={"networks": {}, "gateways": {}, "routes": ()})
    routes = {"networks": {"eth1": NETWORKS["h1"]}, "gateways": {}, "routes": ()}
    shut = replace(gone, down=frozenset({"h1:eth1", "leaf1:swp3"}))
    assert first(gone)[0] == "wrong-address"
    assert first(replace(facts(h1=routes), down=shut.down)) == first(shut)
    assert first(shut) == ("link-flap", ("h1:eth1--leaf1:swp3",))


def test_ends_that_share_a_network_of_one_ip_version_may_differ_in_none_of_the_other() -> None:
    both = {"eth1": frozenset({"10.200.0.8/31", "fd00::/64"})}
    made = facts(h1={"networks": both}, leaf1={"networks": {"swp3": frozenset({"10.0.0.0/31", "fd00::/64"})}})
    assert first(made)[0] == "wrong-address"
    assert (
        diagnose(facts(h1={"networks": {"eth1": NETWORKS["h1"] | {"fd00::/64"}}})).outcome is DiagnosisOutcome.HEALTHY
    )


def test_an_ip_version_that_is_as_usual_does_not_hide_the_odd_length_of_the_other() -> None:
    six = {host: f"fd00:{number}::/64" for number, host in enumerate(HOSTS)}
    changed = {host: {"networks": {"eth1": NETWORKS[host] | {six[host]}}} for host in HOSTS}
    changed["h1"] = {"networks": {"eth1": frozenset({"10.0.0.0/29", six["h1"]})}}
    assert first(made_facts.facts({}, stacks=stacks(changed))) == ("wrong-address", ("h1:eth1",))


def test_a_port_of_a_bridge_is_in_no_network_and_its_cable_has_many_macs() -> None:
    """Its MAC is not known as one: who is behind the cable's other end is anybody of the VLAN."""
    swapped = {**sending("h1", "eth1", "10.0.0.0", NOBODY), "networks": {"eth1": frozenset({"10.1.0.0/24"})}}
    bridged = {name: mac for name, mac in stacks({})["leaf1"].macs.items() if name != "swp3"}
    assert diagnose(facts(leaf1={"macs": bridged}, h1=swapped)).outcome is DiagnosisOutcome.HEALTHY


def test_in_a_network_who_answers_tells_that_an_entry_is_stale() -> None:
    """Of a bridged port no cable does."""
    bridged = {name: mac for name, mac in stacks({})["leaf1"].macs.items() if name != "swp3"}
    entry = sending("h1", "eth1", "10.1.0.9", NOBODY)
    made = facts(asked("h1:eth1", "10.1.0.9", MACS["h2:eth1"]), leaf1={"macs": bridged}, h1=entry)
    assert first(made) == ("stale-neighbour", ("h1:eth1",))


def test_two_switches_that_answer_for_a_gateway_are_no_two_hosts() -> None:
    made = facts(asked("h1:eth1", "10.1.0.1", MACS["leaf1:swp1"], MACS["leaf2:swp1"]))
    assert diagnose(made).outcome is DiagnosisOutcome.HEALTHY


def test_of_hosts_with_one_address_both_are_named_and_neither_is_sure() -> None:
    found = diagnose(facts(asked("h3:eth1", "10.1.0.9", MACS["h1:eth1"], MACS["h2:eth1"])))
    assert named(found) == ("wrong-address", ("h1:eth1", "h2:eth1"))
    assert found.causes[0].confidence < 0.9


def test_a_host_with_several_links_may_be_a_gateway_and_one_with_a_single_link_is_none() -> None:
    """In a network of an overlay, where no switch has an address on the link."""
    made = facts(h1={"gateways": {"eth1": ADDRESSES["h2"]}}, leaf1={"networks": {}})
    assert first(made) == ("wrong-gateway", ("h1:eth1",))
    second = {**made.ports, "h2:eth2": replace(made.ports["h2:eth1"], name="h2:eth2", peer="leaf2:swp9")}
    assert diagnose(replace(made, ports=second)).outcome is DiagnosisOutcome.HEALTHY


def counting_what_nics_receive(made: WindowFacts) -> WindowFacts:
    """The same with a port of its own for what each NIC takes in, as recordings have it."""
    received = {f"{host}:rx-eth1": PortFacts(f"{host}:rx-eth1", "", host=True) for host in HOSTS}
    return replace(made, ports={**made.ports, **received})


@pytest.mark.parametrize("gateway", [ADDRESSES["h5"], GATEWAYS["h5"]], ids=["another host", "another switch"])
def test_a_default_route_to_whoever_is_not_at_the_other_end_of_the_cable_is_wrong(gateway: str) -> None:
    """The received side of a NIC is no second link, by which hosts would pass for routers."""
    made = counting_what_nics_receive(facts(h1={"gateways": {"eth1": gateway}}))
    assert first(made) == ("wrong-gateway", ("h1:eth1",))
    assert diagnose(counting_what_nics_receive(facts())).outcome is DiagnosisOutcome.HEALTHY


def test_most_hosts_may_have_a_gateway_that_only_a_proxy_answers_for() -> None:
    proxied: dict[str, Any] = {host: {"gateways": {"eth1": "198.51.100.1"}} for host in HOSTS}
    assert diagnose(facts(**proxied)).causes == ()
    assert first(facts(h1=proxied["h1"])) == ("wrong-gateway", ("h1:eth1",))
    usual: dict[str, Any] = {**proxied, "h1": {"gateways": {"eth1": GATEWAYS["h5"]}}}
    assert first(facts(**usual)) == ("wrong-gateway", ("h1:eth1",))


def causes_of(made: WindowFacts) -> set[str]:
    return {each.cause for each in diagnose(made).causes}


def test_a_gateway_of_most_hosts_by_which_no_ping_arrives_has_no_proxy() -> None:
    proxied: dict[str, Any] = {host: {"gateways": {"eth1": "198.51.100.1"}} for host in HOSTS}
    lost = tuple(replace(SILENCE, node=host) for host in ("h3", "h4", "h5"))
    assert causes_of(facts(ran=lost, **proxied)) == {"wrong-gateway"}
    assert causes_of(facts(asked("h1:eth1", "198.51.100.1"), **proxied)) >= {"wrong-gateway"}
    assert causes_of(facts(ran=lost[:1], **proxied)) == set()
    assert causes_of(facts(ran=(*lost, replace(lost[0], node="h6", exit_code=0)), **proxied)) == set()


@pytest.mark.parametrize("kind", ["blackhole", "unreachable", "prohibit"])
def test_a_default_route_that_refuses_is_none(kind: str) -> None:
    refusing = default("h1", kind=kind, interfaces=(), gateway="", metric=1)
    found = diagnose(facts(h1={"routes": (connected("h1"), default("h1"), refusing)}))
    assert named(found) == ("static-route", ("h1",))
    assert f"{kind} 0.0.0.0/0" in found.causes[0].evidence[0].says


def test_a_default_route_that_rejects_at_most_hosts_is_for_the_time_without_another() -> None:
    refusing = default("h1", kind="unreachable", interfaces=(), gateway="", metric=4_278_198_272)
    every: dict[str, Any] = {host: {"routes": (connected(host), default(host), refusing)} for host in HOSTS}
    assert diagnose(facts(**every)).causes == ()
    every["h1"] = {"gateways": {}, "routes": (connected("h1"), refusing)}
    assert first(facts(**every)) == ("default-route-lost", ("h1:eth1",))


def test_a_default_route_of_ipv6_that_rejects_is_found_where_others_have_one() -> None:
    usable = StackRoute("::/0", "unicast", ("eth1",), "fe80::1", 100, "ra")
    every: dict[str, Any] = {host: {"routes": (connected(host), default(host), usable)} for host in HOSTS}
    every["h2"] = {"routes": (connected("h2"), default("h2"), usable, replace(usable, kind="prohibit", metric=1))}
    found = diagnose(facts(**every))
    assert named(found) == ("static-route", ("h2",))
    assert "prohibit" in found.causes[0].evidence[0].says


@pytest.mark.parametrize("kind", ["blackhole", "unreachable", "prohibit", "throw"])
def test_a_route_of_a_switch_that_rejects_is_the_cause_of_pings_that_are_lost(kind: str) -> None:
    learned = StackRoute("10.0.0.0/31", "unicast", ("swp1",), "", 20, "bgp")
    rejecting = StackRoute("10.0.0.0/31", kind, protocol="boot")
    lost = facts(ran=(SILENCE,), leaf2={"routes": (learned, rejecting)})
    assert named(diagnose(lost)) == ("static-route", ("leaf2",))
    assert diagnose(lost).causes[0].confidence == 0.9
    swept = replace(
        facts(leaf2={"routes": (learned, rejecting)}), swept_pairs=(SweptPair(1.0, "h5", "h1", 3, 1, None),)
    )
    assert named(diagnose(swept)) == ("static-route", ("leaf2",))
    arrived = replace(swept, swept_pairs=(SweptPair(1.0, "h5", "h1", 3, 3, 0.1),))
    assert diagnose(arrived).causes == ()
    assert diagnose(facts(leaf2={"routes": (learned, rejecting)})).causes == (), "no packet is lost"
    beside = replace(rejecting, prefix="10.0.0.0/24")
    summary = facts(ran=(SILENCE,), leaf2={"routes": (learned, connected("h5"), beside)})
    assert diagnose(summary).causes == (), "the longer routes are used"
    unlearned = StackRoute("0.0.0.0/0", kind, protocol="static")
    assert diagnose(facts(ran=(SILENCE,), leaf2={"routes": (unlearned,)})).causes == ()


def test_a_route_to_some_hosts_that_refuses_is_found_beside_a_right_default_route() -> None:
    refusing = StackRoute("10.0.0.8/29", "blackhole", protocol="boot")
    found = diagnose(facts(h1={"routes": (connected("h1"), default("h1"), refusing)}))
    assert named(found) == ("static-route", ("h1",))
    assert (found.causes[0].evidence[0].value, found.causes[0].evidence[0].source) == (4, "ip route")


def test_hosts_that_reject_each_other_may_be_isolated_by_intent() -> None:
    """Two of eight hosts, as the tenants of a part of a fabric; one that is not rejected in return is a fault."""

    def rejecting(host: str, other: str) -> dict[str, Any]:
        refusing = StackRoute(f"{ADDRESSES[other]}/32", "unreachable", protocol="boot")
        return {"routes": (connected(host), default(host), refusing)}

    isolated: dict[str, Any] = {"h1": rejecting("h1", "h5"), "h5": rejecting("h5", "h1")}
    assert {each.confidence for each in diagnose(facts(**isolated)).causes} == {0.6}
    alone: dict[str, Any] = {"h1": rejecting("h1", "h5"), "h5": rejecting("h5", "h2")}
    assert {each.confidence for each in diagnose(facts(**alone)).causes} == {0.95}


def test_leaves_that_reject_each_other_may_isolate_their_hosts_by_intent() -> None:
    def rejecting(other: str) -> dict[str, Any]:
        return {"routes": (StackRoute(f"{ADDRESSES[other]}/32", "blackhole", protocol="static"),)}

    both: dict[str, Any] = {"leaf1": rejecting("h5"), "leaf2": rejecting("h1")}
    assert {each.confidence for each in diagnose(facts(ran=(SILENCE,), **both)).causes} == {0.6}
    one = diagnose(facts(ran=(SILENCE,), leaf2=both["leaf2"]))
    assert [each.confidence for each in one.causes] == [0.9]


def test_hosts_without_addresses_of_ipv6_need_no_default_route_of_it() -> None:
    """The hosts of a tenant with IPv4 only, beside those of another one."""
    usable = StackRoute("::/0", "unicast", ("eth1",), "fe80::1", 100, "ra")
    every: dict[str, Any] = {
        host: {
            "networks": {"eth1": NETWORKS[host] | {"fd00:1::/64"}},
            "routes": (connected(host), default(host), usable),
        }
        for host in HOSTS[:4]
    }
    assert diagnose(facts(**every)).causes == ()
    every["h2"] = {**every["h2"], "routes": (connected("h2"), default("h2"))}
    assert first(facts(**every)) == ("default-route-lost", ("h2:eth1",))


def test_all_hosts_that_lost_their_default_routes_are_named() -> None:
    """Where switches route each link no sibling has to have one."""
    lost: dict[str, Any] = {host: {"gateways": {}, "routes": (connected(host),)} for host in HOSTS}
    assert first(facts(**lost)) == ("default-route-lost", tuple(HOSTS_ENDS))


def test_a_host_may_have_its_default_route_in_another_table() -> None:
    """Where most hosts have one for each NIC in tables of their own, that of the main table is needed, too."""
    lost: dict[str, Any] = {"gateways": {}, "routes": (connected("h1"),)}
    moved = lost | {"defaults_elsewhere": frozenset({"eth1"})}
    assert [each.cause for each in diagnose(facts(h1=lost)).causes] == ["default-route-lost"]
    assert diagnose(facts(h1=moved)).causes == ()
    refusing = default("h1", kind="unreachable", interfaces=(), gateway="")
    guarded = moved | {"routes": (connected("h1"), refusing)}
    assert diagnose(facts(h1=guarded)).causes == (), "what no rule looks up there has no route by intent"
    assert first(facts(h1=guarded | {"defaults_elsewhere": frozenset()})) == ("static-route", ("h1",))
    unruled = facts(ran=(replace(SILENCE, node="h1", argv=(*SILENCE.argv[:-1], ADDRESSES["h5"])),), h1=moved)
    assert [each.cause for each in diagnose(unruled).causes] == ["default-route-lost"], "no rule looks it up"
    every: dict[str, Any] = {
        host: {"gateways": {}, "routes": (connected(host),), "defaults_elsewhere": frozenset({"eth1"})}
        for host in HOSTS
    }
    assert diagnose(facts(**every)).causes == ()
    others: dict[str, Any] = {host: {"defaults_elsewhere": frozenset({"eth1"})} for host in HOSTS[1:]}
    assert [each.cause for each in diagnose(facts(h1=moved, **others)).causes] == ["default-route-lost"]


def test_in_networks_of_an_overlay_a_host_needs_a_default_route_where_its_siblings_have_one() -> None:
    bridged: dict[str, Any] = {leaf: {"networks": {}} for leaf in ("leaf1", "leaf2")}
    together: dict[str, Any] = {host: {"networks": {"eth1": frozenset({LAN})}} for host in HOSTS}
    lacking = {**together.pop("h1"), "gateways": {}, "routes": (connected("h1"),)}
    assert first(facts(**bridged, **together, h1=lacking)) == ("default-route-lost", ("h1:eth1",))
    nobody: dict[str, Any] = {host: {"gateways": {}, "routes": (connected(host),)} for host in HOSTS}
    assert diagnose(facts(**bridged, **nobody)).outcome is DiagnosisOutcome.HEALTHY


def test_a_network_without_a_gateway_needs_no_default_route() -> None:
    """h1 and h2 are alone in a bridged network, and all others have a router. With one in theirs, they lack it."""
    bridged: dict[str, Any] = {"leaf1": {"networks": {}}}
    alone: dict[str, Any] = {
        host: {"networks": {"eth1": frozenset({LAN, "fe80::/64"})}, "gateways": {}, "routes": (connected(host),)}
        for host in HOSTS[:2]
    }
    assert diagnose(facts(**bridged, **alone)).causes == ()
    routed: dict[str, Any] = {"leaf1": {"networks": {"vlan10": frozenset({LAN})}}}
    assert first(facts(**routed, **alone)) == ("default-route-lost", ("h1:eth1", "h2:eth1"))


def shut(*, admin_up: bool) -> dict[str, Any]:
    """The NIC of h1 is shut, or set up again."""
    return link(MACS["h1:eth1"]) | {"up": admin_up, "admin_up": admin_up}


def causes(recording: Recording) -> list[str]:
    return [each.cause for each in diagnose_run(recording, "observe").causes]


def test_what_a_nic_that_was_shut_has_lost_is_known_though_the_kernel_does_not_tell(tmp_path: Path) -> None:
    """Linux flushes routes by an interface that goes down, and reports that of IPv6 alone."""
    connected_again = route("10.0.0.0/31", "eth1")
    made = recorded(tmp_path / "lost", shut(admin_up=False), shut(admin_up=True), connected_again)
    assert "default-route-lost" in causes(made)
    back = {**route("0.0.0.0/0", "eth1"), "protocol": "boot", "gateway": "10.0.0.0", "metric": 0}
    mended = recorded(tmp_path / "back", shut(admin_up=False), shut(admin_up=True), connected_again, back)
    assert "default-route-lost" not in causes(mended)
    astray = recorded(tmp_path / "astray", {**back, "gateway": "10.0.0.9"})
    assert named(diagnose_run(astray, "observe")) == ("wrong-gateway", ("h1:eth1",))


def test_what_a_switch_swallows_for_it_is_no_filter() -> None:
    """Packets come to leaf1 and leave for nobody: that is the entry's consequence."""
    lanes: Lanes = {"leaf1:swp1": {"rx_packets": 400}, "spine1:swp1": {"tx_packets": 400}}
    stale = stacks({"leaf1": sending("leaf1", "swp3", ADDRESSES["h1"], NOBODY)})
    answered = Ran(1.0, "h5", ("ping", "-n", "-c", "1", ADDRESSES["h1"]), 0, "")
    assert first(made_facts.facts(lanes, ran=(answered,)))[0] == "acl-4791"
    assert first(made_facts.facts(lanes))[0] == "unknown"
    assert [each.cause for each in diagnose(made_facts.facts(lanes, stacks=stale)).causes] == ["stale-neighbour"]


def kernel(here: str, peer: str, address: str, other: str, neighbour: str = "") -> dict[str, Any]:
    """What the kernel of a node said at the beginning: a link, its network, a gateway, and who is there."""
    interface, network = here.partition(":")[2], "10.0.0.0/31"
    return {
        "links": [{"ifname": interface, "address": MACS[here], "flags": ["LOWER_UP"], "mtu": 9000}],
        "routes": [
            {"dst": network, "dev": interface, "protocol": "kernel", "scope": "link", "prefsrc": address},
            {"dst": "fe80::/64", "dev": interface, "protocol": "kernel"},
            {"type": "local", "dst": address, "dev": interface, "table": "local", "protocol": "kernel"},
            *([{"dst": "default", "gateway": other, "dev": interface}] if here in HOSTS_ENDS else []),
        ],
        "neighbours": [
            {"dst": other, "dev": interface, "lladdr": neighbour or MACS[peer], "state": ["REACHABLE"]},
            {"dst": "10.0.0.99", "dev": interface, "lladdr": NOBODY, "state": ["STALE"]},
        ],
    }  # fmt: skip


def recorded(path: Path, *events: dict[str, Any], host: dict[str, Any] | None = None) -> Recording:
    """A quiet second of h1 and leaf1, and what their kernels told before it."""
    made = begun(path)
    state = files.read_json(made.folder.state("before"))
    assert state is not None
    state["h1"] |= host or kernel("h1:eth1", "leaf1:swp3", "10.0.0.1", "10.0.0.0")
    state["leaf1"] |= kernel("leaf1:swp3", "h1:eth1", "10.0.0.0", "10.0.0.1")
    own = {"dst": "10.0.0.8/31", "dev": "eth1", "protocol": "kernel", "scope": "link", "prefsrc": ADDRESSES["h5"]}
    state["h5"] |= {"routes": [own]}
    files.write_json(made.folder.state("before"), state)
    for told in events:
        made.event(made.ns, **told)
    during(made, "observe", lambda _: None)
    return Recording.open(made.finished())


def neighbour(node: str, mac: str, state: str = "reachable") -> dict[str, Any]:
    """The kernel tells of what leaf1 or h1 knows the other by."""
    interface, address = ("swp3", "10.0.0.1") if node == "leaf1" else ("eth1", "10.0.0.0")
    return {"source": "kernel", "kind": "neighbour", "node": node, "interface": interface, "address": address,
            "mac": mac, "state": state}  # fmt: skip


def route(prefix: str, *interfaces: str) -> dict[str, Any]:
    """The kernel of h1 tells of a network on its link, or that it is gone."""
    return {"source": "kernel", "kind": "route", "node": "h1", "prefix": prefix, "interfaces": list(interfaces),
            "type": "unicast", "protocol": "kernel", "table": 254, "gone": not interfaces}  # fmt: skip


def link(mac: str) -> dict[str, Any]:
    """The NIC of h1 has a MAC address."""
    return {
        "source": "kernel",
        "kind": "link",
        "node": "h1",
        "interface": "eth1",
        "up": True,
        "mtu": 9000,
        "mac": mac,
    }


REPLACED = [link(NOBODY), neighbour("leaf1", NOBODY)]


@pytest.mark.parametrize(
    ("events", "answer"),
    [
        ([], ("unchecked", ())),
        ([neighbour("leaf1", NOBODY, "permanent")], ("stale-neighbour", ("leaf1:swp3",))),
        ([neighbour("leaf1", NOBODY, "stale")], ("unchecked", ())),
        ([neighbour("leaf1", NOBODY, "noarp")], ("stale-neighbour", ("leaf1:swp3",))),
        ([neighbour("leaf1", MACS["leaf1:swp3"], "noarp")], ("unchecked", ())),
        ([neighbour("leaf1", "33:33:00:00:00:16", "noarp") | {"address": "ff02::16"}], ("unchecked", ())),
        ([neighbour("leaf1", "ff:ff:ff:ff:ff:ff", "noarp") | {"address": "10.0.0.255"}], ("unchecked", ())),
        ([neighbour("leaf1", NOBODY), neighbour("leaf1", "", "failed")], ("unchecked", ())),
        ([neighbour("h1", NOBODY)], ("stale-neighbour", ("h1:eth1",))),
        (REPLACED[:1], ("stale-neighbour", ("leaf1:swp3",))),
        (REPLACED, ("unchecked", ())),
        ([route("10.0.0.0/31"), route("10.200.0.8/31", "eth1")], ("wrong-address", ("h1:eth1--leaf1:swp3",))),
        ([route("10.0.0.0/31")], ("wrong-address", ("h1:eth1",))),
        ([link(MACS["h1:eth1"]) | {"master": "br0"}, route("10.0.0.0/31", "br0")], ("unchecked", ())),
        ([link(MACS["h1:eth1"]) | {"master": ""}, route("10.0.0.0/31", "br0")], ("wrong-address", ("h1:eth1",))),
        (
            [link(MACS["h1:eth1"]) | {"master": "br0"}, link(MACS["h1:eth1"]) | {"master": ""}, route("10.0.0.0/31")],
            ("wrong-address", ("h1:eth1",)),
        ),
        ([route("10.200.0.8/31", "eth1") | {"table": 1001}], ("unchecked", ())),
        ([route("10.0.0.0/31") | {"table": 1001}, route("10.200.0.8/31", "eth1")], ("unchecked", ())),
    ],
)
def test_what_the_kernel_told_last_counts(
    tmp_path: Path, events: list[dict[str, Any]], answer: tuple[str, tuple[str, ...]]
) -> None:
    assert named(diagnose_run(recorded(tmp_path / "run", *events), "observe")) == answer


def test_a_gateway_is_looked_for_among_the_addresses_of_switches(tmp_path: Path) -> None:
    host = kernel("h1:eth1", "leaf1:swp3", "10.0.0.1", "10.0.0.0")
    host["routes"][-1]["gateway"] = "10.0.0.77"
    found = diagnose_run(recorded(tmp_path / "run", host=host), "observe")
    assert named(found) == ("wrong-gateway", ("h1:eth1",))
    assert "10.0.0.77" in found.causes[0].evidence[0].says


def test_answers_by_arp_are_of_the_window(tmp_path: Path) -> None:
    made = begun(tmp_path / "run")
    during(made, "before", lambda _: None)
    made.phase("observe")
    note = {"kind": "note", "text": "asked", "node": "leaf1", "port": "swp3", "address": "10.0.0.1", "answers": []}
    files.append_line(made.folder.notes, {"ns": made.ns, **note})
    during(made, "observe", lambda _: None)
    recording = Recording.open(made.finished())
    assert diagnose_run(recording, "before").outcome is DiagnosisOutcome.UNCHECKED
    found = diagnose_run(recording, "observe")
    assert (found.outcome, found.unexplained[0].of) == (DiagnosisOutcome.UNKNOWN, "leaf1:swp3")
