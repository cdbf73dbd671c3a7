"""Cables in each other's port: what neighbours, ARP and counters say of them, and what looks like it and is not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lab.diagnose.cause_engine import diagnose
from lab.diagnose.diagnosis import DiagnosisOutcome
from lab.diagnose.symptoms.crossed_cables import crossed_cables, still_crossed
from tests.unit.diagnose import made_facts
from tests.unit.diagnose.made_addresses import MACS, asked, facts, stacks
from tests.unit.diagnose.made_facts import ADDRESSES, first

if TYPE_CHECKING:
    from lab.diagnose.facts import WindowFacts

UPLINKS = {"leaf1:swp1": "spine2:swp1", "leaf1:swp2": "spine1:swp1"}
"""The other ends of leaf1's uplinks when their cables are swapped there."""


def met(*pairs: tuple[str, str], of: tuple[str, ...] = ()) -> WindowFacts:
    """Facts in which each of two ports has the MAC of the other as its neighbour; one-sided for ports in ``of``."""
    found = {node: dict(stack.neighbours) for node, stack in stacks({}).items()}
    for one, other in (*pairs, *((other, one) for one, other in pairs)):
        node, _, interface = one.partition(":")
        if one not in of:
            found[node][interface, "169.254.0.1"] = MACS[other]
    return made_facts.facts({}, stacks=stacks({node: {"neighbours": known} for node, known in found.items()}))


def seen(made: WindowFacts) -> dict[str, str]:
    return {each.port: each.other_end for each in crossed_cables(made)}


def test_swapped_uplinks_are_seen_by_the_macs_of_neighbours_and_are_no_fault() -> None:
    made = met(*UPLINKS.items())
    assert seen(made) == UPLINKS
    assert diagnose(made).outcome is DiagnosisOutcome.HEALTHY


def test_one_neighbour_entry_alone_is_stale() -> None:
    """The entry of the other end names the planned port, so that the cable is in it."""
    made = met(("leaf1:swp1", "spine2:swp1"), of=("spine2:swp1",))
    assert seen(made) == {}
    assert first(made) == ("stale-neighbour", ("leaf1:swp1",))


def test_cables_that_lead_to_another_switch_are_not_swapped_at_one() -> None:
    assert seen(met(("leaf1:swp3", "h5:eth1"))) == {}


def test_a_mac_of_two_ports_says_nothing() -> None:
    made = met(*UPLINKS.items())
    twin = replace(made.stacks["spine2"], macs={**made.stacks["spine2"].macs, "swp1": MACS["spine1:swp1"]})
    assert seen(replace(made, stacks={**made.stacks, "spine2": twin})) == {}


def test_both_ports_of_swapped_hosts_are_named() -> None:
    made = facts(
        asked("leaf1:swp4", ADDRESSES["h1"], MACS["h1:eth1"]), asked("leaf1:swp3", ADDRESSES["h2"], MACS["h2:eth1"])
    )
    assert first(made) == ("cable-swapped", ("leaf1:swp3", "leaf1:swp4"))
    assert seen(made) == {"leaf1:swp3": "h2:eth1", "leaf1:swp4": "h1:eth1"}


def test_a_host_that_answers_in_a_bridge_is_where_it_should_be() -> None:
    """Any port of a VLAN's bridge reaches all of its hosts."""
    networks = {"swp5": frozenset({"10.0.0.4/31"})}
    made = facts(asked("leaf1:swp4", ADDRESSES["h1"], MACS["h1:eth1"]), leaf1={"networks": networks})
    assert seen(made) == {}


COUNTED = {
    "h1:eth1": {"tx_packets": 40, "rx_packets": 7}, "leaf1:swp4": {"rx_packets": 40, "tx_packets": 7},
    "h2:eth1": {"tx_packets": 4, "rx_packets": 19}, "leaf1:swp3": {"rx_packets": 4, "tx_packets": 19},
}  # fmt: skip
"""Packets at both ends of swapped cables."""


def test_counters_that_match_crosswise_name_the_cause_without_arp() -> None:
    made = made_facts.facts(COUNTED)
    assert first(made) == ("cable-swapped", ("leaf1:swp3", "leaf1:swp4"))
    assert "received the 40 packets that h1:eth1 sent" in str(diagnose(made).causes[0].evidence)


def test_counters_that_differ_otherwise_are_losses() -> None:
    lossy = {**COUNTED, "leaf1:swp4": {"rx_packets": 31, "tx_packets": 7}}
    assert seen(made_facts.facts(lossy)) == {}
    planned = {
        "h1:eth1": COUNTED["h1:eth1"], "leaf1:swp3": COUNTED["leaf1:swp4"],
        "h2:eth1": COUNTED["h2:eth1"], "leaf1:swp4": COUNTED["leaf1:swp3"],
    }  # fmt: skip
    assert seen(made_facts.facts(planned)) == {}


def at_end(made: WindowFacts, end: float) -> WindowFacts:
    return replace(made, end=end)


def test_cables_that_are_as_planned_in_a_later_window_are_not_swapped_any_more() -> None:
    crossed = at_end(facts(
        asked("leaf1:swp4", ADDRESSES["h1"], MACS["h1:eth1"]), asked("leaf1:swp3", ADDRESSES["h2"], MACS["h2:eth1"])
    ), 5.0)  # fmt: skip
    answered = replace(asked("leaf1:swp3", ADDRESSES["h1"], MACS["h1:eth1"]), seconds=9.0)
    counted = {
        "h2:eth1": {"tx_packets": 40, "rx_packets": 70}, "leaf1:swp4": {"rx_packets": 40, "tx_packets": 70},
    }  # fmt: skip
    quiet = at_end(facts(), 10.0)
    assert {each.port for each in still_crossed([crossed])} == {"leaf1:swp3", "leaf1:swp4"}
    assert {each.port for each in still_crossed([crossed, quiet])} == {"leaf1:swp3", "leaf1:swp4"}
    assert [each.port for each in still_crossed([crossed, at_end(facts(answered), 10.0)])] == ["leaf1:swp4"]
    assert [each.port for each in still_crossed([crossed, at_end(made_facts.facts(counted), 10.0)])] == ["leaf1:swp3"]
    assert {each.port for each in still_crossed([at_end(facts(answered), 1.0), crossed])} == {"leaf1:swp4"}
