"""A leaf has another VNI for a network: both sides tell their routes, and neither takes the other's over.

Story
    Given  h1 and h2, on two leaves, are in one network, whose VNI is 10010; h3 is in another of the tenant
    When   leaf2 has VNI 10011 for it, a digit off
    Then   its type-3 route is there as before, in BGP of all, with VNI 10011 and a target made of it
    And    leaf1 has nothing behind its tunnel any more, and leaf2 nothing behind its own: h1 does not reach h2
    And    h2 reaches h3: between networks packets go by the tenant's VNI, which is right
    And    nothing alarms
    When   leaf2 has VNI 10010 again
    Then   the two reach each other

        h1 -- leaf1 == VNI 10010     10011 == leaf2 -- h2         leaf2 == VNI 50010 == leaf3 -- h3

Numbers
    a route target is made of the VNI (RFC 8365 section 5.1.2.1): who has another imports none of them
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words, time_of
from lab.scenario.probes.overlay_state import (
    FLOODED,
    frr,
    macs_behind,
    nothing_changes,
    ping_each,
    show_fdb,
    tunnel_has,
    until_reached,
)
from lab.scenario.traffic.workload import commands, probe, said, show_routing

BROKEN, OTHER = "leaf2", "leaf1"
VNI, WRONG = 10010, 10011
VTEP: Final = "10.252.0.2"
"""leaf2's."""
H2, H3 = "10.1.10.3", "10.1.20.2"
SHOW: Final = "show bgp l2vpn evpn route type multicast"
PHASES: Final = ("baseline", "observe", "verify")


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(0, 60)] = 0.5
    """How long each phase lasts besides its probes."""


def run(stage: Stage, p: Params) -> None:
    """The same VNI, another, the same."""

    def flooded() -> bool:
        return tunnel_has(stage, OTHER, VNI, VTEP, {FLOODED})

    with stage.phase("baseline"):
        _look(stage, p)
    with stage.phase("inject"):
        wrong = stage.inject("tunnel-vni", BROKEN, of=VNI, vni=WRONG)
        stage.until(lambda: not flooded() and _told(stage), "leaf1 to hear of VNI 10011")
    with stage.phase("observe"):
        _look(stage, p)
    show_routing(stage, BROKEN, "show evpn vni")
    stage.linger(lambda: ping_each(stage, "h1", "h2", "h3"))
    with stage.phase("fix"):
        stage.heal(wrong)
        stage.until(lambda: flooded() and not _told(stage), "leaf1 to flood to leaf2 again")
        stage.until(lambda: tunnel_has(stage, BROKEN, VNI, "10.252.0.1", {FLOODED}), "leaf2 to flood to leaf1")
        until_reached(stage, "h1", H2)
        until_reached(stage, "h2", H3)
    with stage.phase("verify"):
        _look(stage, p)


def _told(stage: Stage) -> bool:
    """Whether leaf1 has heard of the wrong VNI; to wait for, and not recorded."""
    words = stage.fabric.router(OTHER).vtysh(SHOW)
    return f":{WRONG}" in stage.fabric.namespace(OTHER).run(words, check=False).stdout


def _look(stage: Stage, p: Params) -> None:
    stage.hold(p.hold)
    stage.run("h1", "ip", "neigh", "flush", "to", H2)
    probe(stage, "h1", "h2", count=2)
    probe(stage, "h2", "h3", count=2)
    show_fdb(stage, OTHER, VNI)
    frr(stage, OTHER, SHOW)


def the_route_has_another_vni(rec: Recording, p: Params) -> Verdict:
    """leaf1 has leaf2's type-3 route in every phase: with VNI 10011 meanwhile, with 10010 before and after."""
    shown = [said(rec, phase, "vtysh") for phase in PHASES]
    vtep = all(VTEP in each for each in shown)
    wrong = [f":{WRONG}" in each for each in shown]
    return expect(vtep and wrong == [False, True, False], f"a route target of {WRONG}: {in_words(wrong)}")


def nobody_takes_it_over(rec: Recording, p: Params) -> Verdict:
    """leaf1 floods to leaf2 before and after, and has nothing behind it meanwhile."""
    behind = [macs_behind(rec, phase, VTEP) for phase in PHASES]
    right = FLOODED in behind[0] and FLOODED in behind[2] and not behind[1]
    return expect(right, f"behind {VTEP}: {in_words([sorted(macs) for macs in behind])}")


def the_network_is_cut_in_two(rec: Recording, p: Params) -> Verdict:
    """h1 reaches h2 before and after; h2 reaches h3, of another network, always."""
    codes = {host: [_code(rec, phase, host) for phase in PHASES] for host in ("h1", "h2")}
    right = [code == 0 for code in codes["h1"]] == [True, False, True] and not any(codes["h2"])
    return expect(right, f"ping ended with: h1 to h2 {in_words(codes['h1'])}, h2 to h3 {in_words(codes['h2'])}")


def _code(rec: Recording, phase: str, host: str) -> int:
    return max((each.exit_code for each in commands(rec, phase, "ping") if each.node == host), default=1)


def nothing_alarms(rec: Recording, p: Params) -> Verdict:
    """No session changes, and no link of the underlay."""
    return nothing_changes(rec, "observe")


ANSWER: Final = StoryAnswer(
    cause="evpn-vni-mismatch",
    where=("leaf2",),
    level=3,
    workload="h1 pings h2, of its own network, and h3, of another",
    hints=(
        "h1 does not reach h2, and h2 reaches h3",
        "leaf1 and leaf2: their sessions stand, and neither has anybody to flood to in the network",
        "the route targets of their type-3 routes: rocelab vtysh leaf1 -c 'show bgp l2vpn evpn route type multicast'",
        "rocelab vtysh leaf2 -c 'show evpn vni', beside leaf1's; ip -d link show type vxlan in both",
        "leaf2 has VNI 10011 where leaf1 has 10010",
    ),
    sign="a leaf has another VNI for a network than the others (show evpn vni)",
    because="leaf2's tunnel of the network has VNI 10011, those of others 10010: nobody imports what others export.",
    fix="VNI 10010 on leaf2's tunnel, made anew: the kernel changes no VNI of one that is there.",
    prevention="Make VNIs of VLANs by one rule; compare the VNIs of all leaves that have a network.",
)

SCENARIO = Scenario(
    "evpn-vni-mismatch", "roce-tenant.yaml", Params, run,
    (the_route_has_another_vni, nobody_takes_it_over, the_network_is_cut_in_two, nothing_alarms),
    answer=ANSWER,
)  # fmt: skip
