"""A leaf imports the wrong route target: BGP has the routes, and the kernel has no entry of them.

Story
    Given  h1 and h2, on two leaves, are in one network: each leaf has the other's host behind its tunnel
    When   leaf2 imports route target 1:10011 into VNI 10010, whose routes have ...:10010
    Then   its BGP sessions are established, and its BGP table has leaf1's route of h1's MAC
    And    its kernel has neither that MAC nor a flood entry: h1 and h2 do not reach each other
    And    no session and no link reports an error
    When   leaf2 imports the VNI's own route target
    Then   the MAC and the flood entry are back, and the hosts reach each other

        h1 -- leaf1 ==== VNI 10010 ==x= leaf2 -- h2       import 1:10011, export ...:10010

Numbers
    one VNI of one leaf: leaf1 still has h2 behind its tunnel, so requests arrive at h2, and its answers do not return
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
    ping_each,
    show_fdb,
    tunnel_has,
    until_reached,
)
from lab.scenario.shared_checks import nothing_alarms
from lab.scenario.three_acts import ProbeParameters, fault, three_acts
from lab.scenario.traffic.workload import probe, said, show_routing

BROKEN: Final = "leaf2"
VNI: Final = 10010
H2: Final = "10.1.10.3"
VTEP: Final = "10.252.0.1"
REMOTE: Final = "02:1a:00:06:00:01"
"""leaf1's, and h1's MAC."""
LINES: Final = f"router bgp 4200100002; address-family l2vpn evpn; vni {VNI}; route-target import 1:10011"


def run(stage: Stage, p: ProbeParameters) -> None:
    """Imported, not imported, imported."""

    def known() -> bool:
        return tunnel_has(stage, BROKEN, VNI, VTEP, {REMOTE, FLOOD_MAC})

    def look(act: str) -> None:
        probe(stage, "h1", "h2", count=2)
        if act != "observe":
            stage.until(known, "leaf2 to have h1 behind its tunnel")
        show_fdb(stage, BROKEN, VNI)
        frr(stage, BROKEN, "show bgp l2vpn evpn route type macip json")

    def healed() -> None:
        stage.until(known, "leaf2 to have h1 again")
        until_reached(stage, "h1", H2)

    three_acts(
        stage, p.hold, fault("frr-config", BROKEN, lines=LINES),
        broken=lambda: stage.until(lambda: not known(), "leaf2 to lose h1"),
        healed=healed,
        look=look,
        show=lambda: show_routing(stage, BROKEN, f"show bgp l2vpn evpn vni {VNI}"),
        again=lambda: ping_each(stage, "h1", "h2", "h3"),
    )  # fmt: skip


def bgp_has_the_route(rec: Recording, p: ProbeParameters) -> Verdict:
    """leaf2's BGP table has a route of h1's MAC in every phase."""
    found = [REMOTE in said(rec, phase, "vtysh") for phase in ACTS]
    return expect(all(found), f"a route of {REMOTE} at {BROKEN}: {in_words(found)}")


def the_kernel_lacks_the_route(rec: Recording, p: ProbeParameters) -> Verdict:
    """leaf2's kernel has h1's MAC and the flood entry before and after the fault, and neither with it."""
    behind = {phase: macs_behind(rec, phase, VTEP) for phase in ACTS}
    right = behind["baseline"] >= {REMOTE, FLOOD_MAC} <= behind["verify"] and not behind["observe"]
    return expect(right, f"behind {VTEP}: {in_words({phase: sorted(macs) for phase, macs in behind.items()})}")


def the_hosts_do_not_reach_each_other(rec: Recording, p: ProbeParameters) -> Verdict:
    """h1 reaches h2 before and after the fault, and not with it."""
    answered = all_reached(rec, "h1")
    return expect(answered == [True, False, True], f"h1 reaches h2: {in_words(answered)}")


ANSWER: Final = StoryAnswer(
    cause="evpn-rt-mismatch",
    where=("leaf2",),
    level=3,
    workload="h1 pings h2, of its own network, and h3, of another",
    hints=(
        "h1 does not reach h2, and reaches h3",
        "leaf2: its sessions are established, and its BGP table has h1",
        "the MACs that leaf1 and leaf2 have behind their tunnels: bridge fdb show dev vni10010",
        "rocelab vtysh leaf2 -c 'show bgp l2vpn evpn vni 10010', beside leaf1's",
        "leaf2 imports only 1:10011 into VNI 10010, whose routes have ...:10010",
    ),
    sign="a leaf imports a route target that differs from the VNI's routes (show bgp l2vpn evpn vni VNI)",
    because="leaf2 imports route target 1:10011 into VNI 10010. Other leaves' routes have ...:10010.",
    fix="Import the route target of the VNI's routes, or configure none: FRR derives it.",
    prevention="Derive route targets on all leaves; compare BGP's routes of each VNI with the kernel's entries.",
)

SCENARIO = Scenario(
    "evpn-rt-mismatch", "roce-tenant.yaml", ProbeParameters, run,
    (bgp_has_the_route, the_kernel_lacks_the_route, the_hosts_do_not_reach_each_other, nothing_alarms),
    answer=ANSWER,
)  # fmt: skip
