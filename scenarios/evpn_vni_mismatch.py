"""A leaf has another VNI for a network: both sides advertise routes, and neither imports the other's.

Story
    Given  h1 and h2, on two leaves, are in one network with VNI 10010; h3 is in another network of the tenant
    When   leaf2 has VNI 10011 for the first network
    Then   its type-3 route is in every BGP table as before, with VNI 10011 and the route target of that VNI
    And    leaf1 and leaf2 have nothing behind their tunnels: h1 does not reach h2
    And    h2 reaches h3: routed traffic uses the tenant's VNI, which is right
    And    no session and no link reports an error
    When   leaf2 has VNI 10010 again
    Then   h1 reaches h2

        h1 -- leaf1 == VNI 10010     10011 == leaf2 -- h2         leaf2 == VNI 50010 == leaf3 -- h3

Numbers
    a route target is derived from the VNI (RFC 8365 section 5.1.2.1): a leaf with another VNI imports no such route
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

BROKEN, OTHER = "leaf2", "leaf1"
VNI, WRONG = 10010, 10011
VTEP: Final = "10.252.0.2"
"""leaf2's."""
H2, H3 = "10.1.10.3", "10.1.20.2"
SHOW: Final = "show bgp l2vpn evpn route type multicast"


def run(stage: Stage, p: ProbeParameters) -> None:
    """The same VNI, another, the same."""

    def flooded() -> bool:
        return tunnel_has(stage, OTHER, VNI, VTEP, {FLOOD_MAC})

    def healed() -> None:
        stage.until(lambda: flooded() and not _has_wrong_route(stage), "leaf1 to flood to leaf2 again")
        stage.until(lambda: tunnel_has(stage, BROKEN, VNI, "10.252.0.1", {FLOOD_MAC}), "leaf2 to flood to leaf1")
        until_reached(stage, "h1", H2)
        until_reached(stage, "h2", H3)

    three_acts(
        stage, p.hold, fault("tunnel-vni", BROKEN, of=VNI, vni=WRONG),
        broken=lambda: stage.until(
            lambda: not flooded() and _has_wrong_route(stage), "leaf1 to have a route of VNI 10011"
        ),
        healed=healed,
        look=lambda _: _look(stage),
        show=lambda: show_routing(stage, BROKEN, "show evpn vni"),
        again=lambda: ping_each(stage, "h1", "h2", "h3"),
    )  # fmt: skip


def _has_wrong_route(stage: Stage) -> bool:
    """Whether leaf1 has a route of the wrong VNI; not recorded."""
    words = stage.fabric.router(OTHER).vtysh(SHOW)
    return f":{WRONG}" in stage.fabric.namespace(OTHER).run(words, check=False).stdout


def _look(stage: Stage) -> None:
    stage.run("h1", "ip", "neigh", "flush", "to", H2)
    probe(stage, "h1", "h2", count=2)
    probe(stage, "h2", "h3", count=2)
    show_fdb(stage, OTHER, VNI)
    frr(stage, OTHER, SHOW)


def the_route_has_another_vni(rec: Recording, p: ProbeParameters) -> Verdict:
    """leaf1 has leaf2's type-3 route in every phase: with VNI 10011 in observe, with 10010 otherwise."""
    shown = [said(rec, phase, "vtysh") for phase in ACTS]
    vtep = all(VTEP in each for each in shown)
    wrong = [f":{WRONG}" in each for each in shown]
    return expect(vtep and wrong == [False, True, False], f"a route target of {WRONG}: {in_words(wrong)}")


def the_route_is_not_imported(rec: Recording, p: ProbeParameters) -> Verdict:
    """leaf1 floods to leaf2 before and after the fault, and has nothing behind its VTEP with it."""
    behind = [macs_behind(rec, phase, VTEP) for phase in ACTS]
    right = FLOOD_MAC in behind[0] and FLOOD_MAC in behind[2] and not behind[1]
    return expect(right, f"behind {VTEP}: {in_words([sorted(macs) for macs in behind])}")


def the_network_is_split(rec: Recording, p: ProbeParameters) -> Verdict:
    """h1 does not reach h2 with the fault; h2 reaches h3, of another network, always."""
    bridged, routed = all_reached(rec, "h1"), all_reached(rec, "h2")
    evidence = f"h1 reaches h2: {in_words(bridged)}; h2 reaches h3: {in_words(routed)}"
    return expect(bridged == [True, False, True] and all(routed), evidence)


ANSWER: Final = StoryAnswer(
    cause="evpn-vni-mismatch",
    where=("leaf2",),
    level=3,
    workload="h1 pings h2, of its own network, and h3, of another",
    hints=(
        "h1 does not reach h2, and h2 reaches h3",
        "leaf1 and leaf2: their sessions are established, and neither has a flood entry in the network",
        "the route targets of their type-3 routes: rocelab vtysh leaf1 -c 'show bgp l2vpn evpn route type multicast'",
        "rocelab vtysh leaf2 -c 'show evpn vni', beside leaf1's; ip -d link show type vxlan in both",
        "leaf2 has VNI 10011 where leaf1 has 10010",
    ),
    sign="a leaf has another VNI for a network than the other leaves (show evpn vni)",
    because="leaf2's tunnel has VNI 10011, and those of other leaves 10010: neither side imports the other's routes.",
    fix="Recreate leaf2's tunnel with VNI 10010: the kernel cannot change the VNI of an existing tunnel.",
    prevention="Derive VNIs from VLANs by one rule; compare the VNIs of all leaves of a network.",
)

SCENARIO = Scenario(
    "evpn-vni-mismatch", "roce-tenant.yaml", ProbeParameters, run,
    (the_route_has_another_vni, the_route_is_not_imported, the_network_is_split, nothing_alarms),
    answer=ANSWER,
)  # fmt: skip
