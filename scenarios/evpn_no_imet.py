"""A leaf advertises no VNI: without its type-3 route no leaf floods to it, and ARP fails.

Story
    Given  h1 and h2, on two leaves, are in one network, and each leaf floods to the other
    When   advertise-all-vni is removed from leaf2's configuration
    Then   leaf1 has no type-3 route of leaf2, and so does not flood to its VTEP
    And    h1's ARP requests for h2 do not arrive: its neighbour entry fails
    And    the underlay works: leaf1 has both paths to leaf2's VTEP, and the sessions are established
    When   the line is configured again
    Then   leaf1 floods to leaf2 again, and h1 reaches h2

        h1 -- leaf1  ARP for h2     (not flooded to leaf2)     leaf2 -- h2

Numbers
    each leaf advertises one type-3 route (inclusive multicast, RFC 7432 section 7.3) for each of its networks
"""

from __future__ import annotations

from typing import Final

from lab.model.overlay.intent import FLOOD_MAC
from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words
from lab.scenario.phase_measures import ACTS
from lab.scenario.probes.overlay_state import (
    all_reached,
    frr,
    macs_behind,
    paths_shown,
    ping_each,
    show_fdb,
    show_paths,
    tunnel_has,
    until_reached,
)
from lab.scenario.state_changes import link_changes, session_changes
from lab.scenario.three_acts import ProbeParameters, fault, three_acts
from lab.scenario.traffic.workload import probe, said, show_routing

BROKEN, SENDS = "leaf2", "leaf1"
VNI: Final = 10010
VTEP, OTHER = "10.252.0.2", "10.252.0.1"
"""leaf2's, and leaf1's."""
H2: Final = "10.1.10.3"
LINES: Final = "router bgp 4200100002; address-family l2vpn evpn; no advertise-all-vni"


def run(stage: Stage, p: ProbeParameters) -> None:
    """Advertised, not advertised, advertised."""

    def flooded() -> bool:
        return tunnel_has(stage, SENDS, VNI, VTEP, {FLOOD_MAC})

    def healed() -> None:
        stage.until(flooded, "leaf1 to flood to leaf2 again")
        stage.until(lambda: tunnel_has(stage, BROKEN, VNI, OTHER, {FLOOD_MAC}), "leaf2 to flood to leaf1 again")
        until_reached(stage, "h1", H2)

    three_acts(
        stage, p.hold, fault("frr-config", BROKEN, lines=LINES),
        broken=lambda: stage.until(lambda: not flooded(), "leaf1 to stop flooding to leaf2"),
        healed=healed,
        look=lambda _: _look(stage),
        show=lambda: show_routing(stage, BROKEN, "show evpn vni"),
        again=lambda: ping_each(stage, "h1", "h2", "h3"),
    )  # fmt: skip


def _look(stage: Stage) -> None:
    """Probe and record, with no ARP entry to begin with."""
    stage.run("h1", "ip", "neigh", "flush", "to", H2)
    probe(stage, "h1", "h2", count=2)
    show_fdb(stage, SENDS, VNI)
    frr(stage, SENDS, "show bgp l2vpn evpn route type multicast json")
    show_paths(stage, SENDS, VTEP)


def the_type_3_route_is_missing(rec: Recording, p: ProbeParameters) -> Verdict:
    """leaf1 has leaf2's type-3 route before and after the fault, and not with it."""
    found = [VTEP in said(rec, phase, "vtysh") for phase in ACTS]
    return expect(found == [True, False, True], f"a type-3 route of {VTEP}: {in_words(found)}")


def the_flood_list_lacks_the_leaf(rec: Recording, p: ProbeParameters) -> Verdict:
    """leaf1's kernel has leaf2's VTEP in its flood list before and after the fault, and not with it."""
    found = [FLOOD_MAC in macs_behind(rec, phase, VTEP) for phase in ACTS]
    return expect(found == [True, False, True], f"flood entry of {VTEP}: {in_words(found)}")


def arp_fails(rec: Recording, p: ProbeParameters) -> Verdict:
    """h1 reaches h2 before and after the fault, and not with it."""
    answered = all_reached(rec, "h1")
    return expect(answered == [True, False, True], f"h1 reaches h2: {in_words(answered)}")


def the_underlay_works(rec: Recording, p: ProbeParameters) -> Verdict:
    """With the fault leaf1 has two paths to leaf2's VTEP, and no session or link changes."""
    paths = paths_shown(rec, "observe")
    links = link_changes(rec, "observe")
    sessions = session_changes(rec, "observe")
    evidence = f"{paths} paths to {VTEP}, {len(links)} link changes, {len(sessions)} session changes"
    return expect(paths == 2 and not links and not sessions, evidence)


ANSWER: Final = StoryAnswer(
    cause="evpn-no-imet",
    where=("leaf2",),
    level=2,
    workload="h1 pings h2, of its own network, and h3, of another",
    hints=(
        "h1 does not reach h2, whose ARP entry fails, and reaches h3",
        "leaf2: no leaf floods to it, although all reach its VTEP",
        "the flood list of leaf1: bridge fdb show dev vni10010, entries of 00:00:00:00:00:00",
        "rocelab vtysh leaf1 -c 'show bgp l2vpn evpn route type multicast'",
        "leaf2's type-3 route is missing: its configuration lacks advertise-all-vni",
    ),
    sign="sessions carry EVPN, and a leaf advertises no type-3 route (show bgp l2vpn evpn route type multicast)",
    because="leaf2 lacks advertise-all-vni. It advertises no VNI, so no leaf floods ARP requests for h2 to it.",
    fix="Configure advertise-all-vni in leaf2's EVPN address family.",
    prevention="Count type-3 routes: each VNI has one for each of its leaves (rocelab status --evpn).",
)

SCENARIO = Scenario(
    "evpn-no-imet", "roce-tenant.yaml", ProbeParameters, run,
    (the_type_3_route_is_missing, the_flood_list_lacks_the_leaf, arp_fails, the_underlay_works),
    answer=ANSWER,
)  # fmt: skip
