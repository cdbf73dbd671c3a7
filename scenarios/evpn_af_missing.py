"""A leaf's sessions lack the address family of EVPN: the underlay is fine, and the overlay is dark.

Story
    Given  h1 and h2, on two leaves, are in one network, and h3 is of the same tenant
    When   leaf2 does not activate l2vpn evpn on its sessions, which come up anew
    Then   they are established, for IPv4 and IPv6, and leaf1 has both paths to leaf2's VTEP
    And    none of them carries EVPN: leaf1 has nothing behind leaf2's VTEP, and h1 does not reach h2
    And    h1 reaches h3 as before
    When   the family is activated
    Then   h1 reaches h2

        h1 -- leaf1 === spine1,2 === leaf2 -- h2       BGP: ipv4 and ipv6 unicast, no l2vpn evpn
                              +===== leaf3 -- h3

Numbers
    a change of families is a new capability (RFC 4760): a session that changes it is reset, and takes a second
"""

from __future__ import annotations

import json
from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words, time_of
from lab.scenario.probes.overlay_state import (
    FLOODED,
    frr,
    macs_behind,
    paths_shown,
    paths_to,
    ping_each,
    show_fdb,
    show_paths,
    tunnel_has,
    until_reached,
)
from lab.scenario.traffic.workload import commands, probe, said, show_routing

BROKEN, SEES = "leaf2", "leaf1"
VNI: Final = 10010
VTEP, OTHER = "10.252.0.2", "10.252.0.1"
"""leaf2's, and leaf1's."""
LINES: Final = "router bgp 4200100002; address-family l2vpn evpn; no neighbor FABRIC activate"
H2, H3 = "10.1.10.3", "10.1.20.2"
SESSIONS: Final = 2
PHASES: Final = ("baseline", "observe", "verify")


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(0, 60)] = 0.5
    """How long each phase lasts besides its probes."""


def run(stage: Stage, p: Params) -> None:
    """Activated, not activated, activated."""

    def told() -> bool:
        return tunnel_has(stage, SEES, VNI, VTEP, {FLOODED})

    def reached() -> bool:
        return paths_to(stage, SEES, VTEP) == SESSIONS

    with stage.phase("baseline"):
        _look(stage, p)
    with stage.phase("inject"):
        before = _came_up(stage)
        missing = stage.inject("frr-config", BROKEN, lines=LINES)
        stage.until(lambda: _came_up(stage) == before + SESSIONS, "leaf2's sessions to come up anew")
        stage.until(lambda: reached() and not told(), "leaf1 to have both paths to leaf2, and no flood")
    with stage.phase("observe"):
        _look(stage, p)
    show_routing(stage, BROKEN, "show bgp summary")
    stage.linger(lambda: ping_each(stage, "h1", "h2", "h3"))
    with stage.phase("fix"):
        stage.heal(missing)
        stage.until(lambda: _came_up(stage) == before + 2 * SESSIONS, "leaf2's sessions to come up once more")
        stage.until(told, "leaf1 to hear of leaf2 again")
        stage.until(lambda: tunnel_has(stage, BROKEN, VNI, OTHER, {FLOODED}), "leaf2 to hear of leaf1 again")
        stage.until(reached, "leaf1 to have both paths to leaf2 again")
        until_reached(stage, "h1", H2, H3)
    with stage.phase("verify"):
        _look(stage, p)


def _came_up(stage: Stage) -> int:
    """How often the sessions of leaf2 that stand now have come up so far."""
    words = stage.fabric.router(BROKEN).vtysh("show bgp ipv4 unicast summary json")
    peers = json.loads(stage.fabric.namespace(BROKEN).run(words).stdout)["peers"].values()
    return sum(int(peer["connectionsEstablished"]) for peer in peers if peer["state"] == "Established")


def _look(stage: Stage, p: Params) -> None:
    stage.hold(p.hold)
    for host in ("h2", "h3"):
        probe(stage, "h1", host, count=2)
    show_fdb(stage, SEES, VNI)
    show_paths(stage, SEES, VTEP)
    frr(stage, BROKEN, "show bgp summary json")


def _established(rec: Recording, phase: str, family: str) -> int:
    """How many of leaf2's sessions carry a family."""
    peers = json.loads(said(rec, phase, "vtysh")).get(family, {}).get("peers", {})
    return sum(peer.get("state") == "Established" for peer in peers.values())


def sessions_lack_the_family(rec: Recording, p: Params) -> Verdict:
    """All are established for IPv4 in every phase, and for EVPN all but meanwhile."""
    counts = [[_established(rec, phase, family) for phase in PHASES] for family in ("ipv4Unicast", "l2VpnEvpn")]
    told = f"sessions of {BROKEN} with IPv4 {in_words(counts[0])}, with EVPN {in_words(counts[1])}"
    return expect(counts == [[SESSIONS] * 3, [SESSIONS, 0, SESSIONS]], told)


def the_overlay_is_dark(rec: Recording, p: Params) -> Verdict:
    """Nothing is behind leaf2's VTEP meanwhile, and h2 is not reached; h3 always is."""
    behind = [bool(macs_behind(rec, phase, VTEP)) for phase in PHASES]
    codes = [[each.exit_code for each in commands(rec, phase, "ping")] for phase in PHASES]
    reached = [[code == 0 for code in two] for two in codes]
    right = behind == [True, False, True] and reached == [[True, True], [False, True], [True, True]]
    return expect(right, f"something behind {VTEP}: {in_words(behind)}; h2 and h3 are reached: {in_words(reached)}")


def the_underlay_is_fine(rec: Recording, p: Params) -> Verdict:
    """leaf1 has as many paths to leaf2's VTEP in every phase."""
    paths = [paths_shown(rec, phase) for phase in PHASES]
    return expect(paths == [SESSIONS] * 3, f"{in_words(paths)} paths to {VTEP}")


ANSWER: Final = StoryAnswer(
    cause="evpn-af-missing",
    where=("leaf2",),
    level=1,
    workload="h1 pings h2, of its own network, and h3, of another",
    hints=(
        "h1 does not reach h2, and reaches h3",
        "leaf2: nothing of it is in the overlay, and the underlay has both paths to it",
        "how many sessions leaf2 has for each address family",
        "rocelab vtysh leaf2 -c 'show bgp summary', beside leaf1's",
        "its sessions stand for IPv4 and IPv6, and none has L2VPN EVPN: it is not activated",
    ),
    sign="sessions are established for IPv4 and lack L2VPN EVPN (show bgp summary)",
    because="leaf2 does not activate l2vpn evpn on its sessions: they carry the underlay and nothing of the overlay.",
    fix="neighbor FABRIC activate in leaf2's address family of EVPN.",
    prevention="Alarm by address family and not by session; one template for all leaves.",
)

SCENARIO = Scenario(
    "evpn-af-missing", "roce-tenant.yaml", Params, run,
    (sessions_lack_the_family, the_overlay_is_dark, the_underlay_is_fine),
    answer=ANSWER,
)  # fmt: skip
