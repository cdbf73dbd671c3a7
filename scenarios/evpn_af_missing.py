"""A leaf's sessions lack the EVPN address family: the underlay works, and the overlay does not.

Story
    Given  h1 and h2, on two leaves, are in one network, and h3 is of the same tenant
    When   leaf2 stops activating l2vpn evpn on its sessions, which are reset
    Then   the sessions are established for IPv4 and IPv6, and leaf1 has both paths to leaf2's VTEP
    And    no session carries EVPN: leaf1 has no MAC behind leaf2's VTEP, and h1 does not reach h2
    And    h1 reaches h3 as before
    When   the address family is activated
    Then   h1 reaches h2

        h1 -- leaf1 === spine1,2 === leaf2 -- h2       BGP: ipv4 and ipv6 unicast, no l2vpn evpn
                              +===== leaf3 -- h3

Numbers
    address families are capabilities (RFC 4760): a session that changes them is reset, which takes a second
"""

from __future__ import annotations

import json
from typing import Final

from lab.model.overlay.intent import FLOOD_MAC
from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words
from lab.scenario.phase_measures import ACTS
from lab.scenario.probes.overlay_state import (
    frr,
    hosts_reached,
    macs_behind,
    paths_shown,
    paths_to,
    ping_each,
    show_fdb,
    show_paths,
    tunnel_has,
    until_reached,
)
from lab.scenario.three_acts import ProbeParameters, fault, three_acts
from lab.scenario.traffic.workload import probe, said, show_routing

BROKEN, SEES = "leaf2", "leaf1"
VNI: Final = 10010
VTEP, OTHER = "10.252.0.2", "10.252.0.1"
"""leaf2's, and leaf1's."""
LINES: Final = "router bgp 4200100002; address-family l2vpn evpn; no neighbor FABRIC activate"
H2, H3 = "10.1.10.3", "10.1.20.2"
SESSIONS: Final = 2


def run(stage: Stage, p: ProbeParameters) -> None:
    """Activated, not activated, activated."""
    first = _came_up(stage)

    def known() -> bool:
        return tunnel_has(stage, SEES, VNI, VTEP, {FLOOD_MAC})

    def routed() -> bool:
        return paths_to(stage, SEES, VTEP) == SESSIONS

    def broken() -> None:
        stage.until(lambda: _came_up(stage) == first + SESSIONS, "leaf2's sessions to be established again")
        stage.until(lambda: routed() and not known(), "leaf1 to have both paths to leaf2, and no flood entry")

    def healed() -> None:
        stage.until(lambda: _came_up(stage) == first + 2 * SESSIONS, "leaf2's sessions to be established once more")
        stage.until(known, "leaf1 to flood to leaf2 again")
        stage.until(lambda: tunnel_has(stage, BROKEN, VNI, OTHER, {FLOOD_MAC}), "leaf2 to flood to leaf1 again")
        stage.until(routed, "leaf1 to have both paths to leaf2 again")
        until_reached(stage, "h1", H2, H3)

    three_acts(
        stage, p.hold, fault("frr-config", BROKEN, lines=LINES), broken=broken, healed=healed,
        look=lambda _: _look(stage),
        show=lambda: show_routing(stage, BROKEN, "show bgp summary"),
        again=lambda: ping_each(stage, "h1", "h2", "h3"),
    )  # fmt: skip


def _came_up(stage: Stage) -> int:
    """How many times leaf2's established sessions have been established so far."""
    words = stage.fabric.router(BROKEN).vtysh("show bgp ipv4 unicast summary json")
    peers = json.loads(stage.fabric.namespace(BROKEN).run(words).stdout)["peers"].values()
    return sum(int(peer["connectionsEstablished"]) for peer in peers if peer["state"] == "Established")


def _look(stage: Stage) -> None:
    for host in ("h2", "h3"):
        probe(stage, "h1", host, count=2)
    show_fdb(stage, SEES, VNI)
    show_paths(stage, SEES, VTEP)
    frr(stage, BROKEN, "show bgp summary json")


def _established(rec: Recording, phase: str, family: str) -> int:
    """The number of leaf2's sessions that are established for an address family."""
    peers = json.loads(said(rec, phase, "vtysh")).get(family, {}).get("peers", {})
    return sum(peer.get("state") == "Established" for peer in peers.values())


def sessions_lack_the_family(rec: Recording, p: ProbeParameters) -> Verdict:
    """All sessions are established for IPv4 in every phase; with the fault none is for EVPN."""
    counts = [[_established(rec, phase, family) for phase in ACTS] for family in ("ipv4Unicast", "l2VpnEvpn")]
    evidence = f"sessions of {BROKEN} with IPv4 {in_words(counts[0])}, with EVPN {in_words(counts[1])}"
    return expect(counts == [[SESSIONS] * 3, [SESSIONS, 0, SESSIONS]], evidence)


def the_overlay_is_down(rec: Recording, p: ProbeParameters) -> Verdict:
    """With the fault leaf1 has no MAC behind leaf2's VTEP and h2 is not reached; h3 always is."""
    behind = [bool(macs_behind(rec, phase, VTEP)) for phase in ACTS]
    reached = hosts_reached(rec, "h1")
    right = behind == [True, False, True] and reached == [[True, True], [False, True], [True, True]]
    return expect(right, f"MACs behind {VTEP}: {in_words(behind)}; h2 and h3 are reached: {in_words(reached)}")


def the_underlay_works(rec: Recording, p: ProbeParameters) -> Verdict:
    """leaf1 has both paths to leaf2's VTEP in every phase."""
    paths = [paths_shown(rec, phase) for phase in ACTS]
    return expect(paths == [SESSIONS] * 3, f"{in_words(paths)} paths to {VTEP}")


ANSWER: Final = StoryAnswer(
    cause="evpn-af-missing",
    where=("leaf2",),
    level=1,
    workload="h1 pings h2, of its own network, and h3, of another",
    hints=(
        "h1 does not reach h2, and reaches h3",
        "leaf2: it is missing in the overlay, and the underlay has both paths to it",
        "the number of leaf2's sessions for each address family",
        "rocelab vtysh leaf2 -c 'show bgp summary', beside leaf1's",
        "its sessions are established for IPv4 and IPv6, and L2VPN EVPN is not activated on any",
    ),
    sign="sessions are established for IPv4 and lack L2VPN EVPN (show bgp summary)",
    because="leaf2 does not activate l2vpn evpn on its sessions. They carry the routes of the underlay only.",
    fix="Configure neighbor FABRIC activate in leaf2's EVPN address family.",
    prevention="Alarm on address families, and not only on sessions; use one template for all leaves.",
)

SCENARIO = Scenario(
    "evpn-af-missing", "roce-tenant.yaml", ProbeParameters, run,
    (sessions_lack_the_family, the_overlay_is_down, the_underlay_works),
    answer=ANSWER,
)  # fmt: skip
