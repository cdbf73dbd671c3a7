"""A leaf imports another route target: its neighbours tell it everything, and it takes nothing of it over.

Story
    Given  h1 and h2, on two leaves, are in one network: each leaf has the other's host behind its tunnel
    When   leaf2 imports route target 1:10011 into VNI 10010, whose routes have ...:10010
    Then   its BGP sessions stand, and its BGP table has leaf1's route of h1's MAC
    And    its kernel has neither that MAC nor anybody to flood to: h1 and h2 do not reach each other
    And    nothing alarms
    When   leaf2 imports what belongs to the VNI
    Then   MAC and flood list are there again, and the two reach each other

        h1 -- leaf1 ==== VNI 10010 ==x= leaf2 -- h2       import 1:10011, export ...:10010

Numbers
    one VNI of one leaf: leaf1 still has h2 behind its tunnel, and what it sends arrives; the answers do not
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

BROKEN: Final = "leaf2"
VNI: Final = 10010
H2: Final = "10.1.10.3"
VTEP: Final = "10.252.0.1"
REMOTE: Final = "02:1a:00:06:00:01"
"""leaf1's, and h1's MAC."""
LINES: Final = f"router bgp 4200100002; address-family l2vpn evpn; vni {VNI}; route-target import 1:10011"
PHASES: Final = ("baseline", "observe", "verify")


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(0, 60)] = 0.5
    """How long each phase lasts besides its probes."""


def run(stage: Stage, p: Params) -> None:
    """Imported, not imported, imported."""

    def known() -> bool:
        return tunnel_has(stage, BROKEN, VNI, VTEP, {REMOTE, FLOODED})

    with stage.phase("baseline"):
        probe(stage, "h1", "h2", count=2)
        stage.until(known, "leaf2 to have h1 behind its tunnel")
        _look(stage, p)
    with stage.phase("inject"):
        wrong = stage.inject("frr-config", BROKEN, lines=LINES)
        stage.until(lambda: not known(), "leaf2 to lose h1")
    with stage.phase("observe"):
        probe(stage, "h1", "h2")
        _look(stage, p)
    show_routing(stage, BROKEN, f"show bgp l2vpn evpn vni {VNI}")
    stage.linger(lambda: ping_each(stage, "h1", "h2", "h3"))
    with stage.phase("fix"):
        stage.heal(wrong)
        stage.until(known, "leaf2 to have h1 again")
        until_reached(stage, "h1", H2)
    with stage.phase("verify"):
        probe(stage, "h1", "h2")
        _look(stage, p)


def _look(stage: Stage, p: Params) -> None:
    stage.hold(p.hold)
    show_fdb(stage, BROKEN, VNI)
    frr(stage, BROKEN, "show bgp l2vpn evpn route type macip json")


def bgp_has_the_route(rec: Recording, p: Params) -> Verdict:
    """In every phase leaf2's table has a route of h1's MAC."""
    found = [REMOTE in said(rec, phase, "vtysh") for phase in PHASES]
    return expect(all(found), f"a route of {REMOTE} at {BROKEN}: {in_words(found)}")


def the_kernel_has_nothing_of_it(rec: Recording, p: Params) -> Verdict:
    """Meanwhile nothing is behind leaf1's VTEP; before and after, h1 and who is flooded to."""
    behind = {phase: macs_behind(rec, phase, VTEP) for phase in PHASES}
    right = behind["baseline"] >= {REMOTE, FLOODED} <= behind["verify"] and not behind["observe"]
    return expect(right, f"behind {VTEP}: {in_words({phase: sorted(macs) for phase, macs in behind.items()})}")


def the_two_do_not_reach_each_other(rec: Recording, p: Params) -> Verdict:
    """Probes are answered before and after, and not meanwhile."""
    codes = [max(each.exit_code for each in commands(rec, phase, "ping")) for phase in PHASES]
    return expect([code == 0 for code in codes] == [True, False, True], f"ping ended with {in_words(codes)}")


def nothing_alarms(rec: Recording, p: Params) -> Verdict:
    """No link and no session changes."""
    return nothing_changes(rec, "observe")


ANSWER: Final = StoryAnswer(
    cause="evpn-rt-mismatch",
    where=("leaf2",),
    level=3,
    workload="h1 pings h2, of its own network, and h3, of another",
    hints=(
        "h1 does not reach h2, and reaches h3",
        "leaf2: its sessions stand, and its BGP table has h1",
        "what leaf1 and leaf2 have behind their tunnels: bridge fdb show dev vni10010",
        "rocelab vtysh leaf2 -c 'show bgp l2vpn evpn vni 10010', beside leaf1's",
        "leaf2 imports 1:10011 alone into VNI 10010, whose routes have ...:10010",
    ),
    sign="a leaf imports another target into a VNI than its routes have (show bgp l2vpn evpn vni VNI)",
    because=(
        "leaf2 imports route target 1:10011 into VNI 10010: what others tell of it has ...:10010, and its kernel "
        "gets none of it."
    ),
    fix="Import the target that the VNI's routes have, or none by name: FRR derives it.",
    prevention="Derive targets on all leaves; compare what BGP has of each VNI with what the kernel forwards by.",
)

SCENARIO = Scenario(
    "evpn-rt-mismatch", "roce-tenant.yaml", Params, run,
    (bgp_has_the_route, the_kernel_has_nothing_of_it, the_two_do_not_reach_each_other, nothing_alarms),
    answer=ANSWER,
)  # fmt: skip
