"""One path only: a leaf uses one of its two uplinks, and the other one stands idle.

Story
    Given  h1 writes to h5 with many QPs: leaf1 spreads them over both spines
    When   leaf1 has maximum-paths 1
    Then   its RIB has one next hop for h5 instead of two, and one uplink carries all
    And    the other is up, its BGP session stands, and it carries nothing: nothing alarms
    When   leaf1 takes all equal paths again
    Then   both uplinks carry

        h1 -- leaf1 ===== spine1 == leaf2 -- h5
                  +--x--- spine2 ====+

Numbers
    with n QPs, each hashed onto one of two uplinks, both are used but for 2 of 2^n draws: with 16, 1 in 32768
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, time_of
from lab.scenario.state_changes import link_changes, session_changes
from lab.scenario.traffic.workload import RESENT, said, show_link, show_routing

UPLINKS: Final = ("leaf1:swp1", "leaf1:swp2")
ROUTE: Final = ("ip", "-json", "route", "show", "10.0.0.8/31")
PHASES: Final = ("baseline", "observe", "verify")


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(0.5, 60)] = 1.5
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """Two, one, two."""

    def paths(count: int) -> bool:
        return len(_next_hops(stage.fabric.namespace("leaf1").run(ROUTE).stdout)) == count

    with stage.writing("h1:h5", qps=16):
        with stage.phase("baseline"):
            stage.hold(p.hold)
            stage.run("leaf1", *ROUTE)
        with stage.phase("inject"):
            fault = stage.inject("one-path", "leaf1")
            stage.until(lambda: paths(1), "leaf1 to have one path to h5")
            stage.hold(RESENT)
        with stage.phase("observe"):
            stage.hold(p.hold)
            stage.run("leaf1", *ROUTE)
        for port in UPLINKS:
            show_link(stage, port)
        show_routing(stage, "leaf1", "show bgp summary")
        stage.linger()
        with stage.phase("fix"):
            stage.heal(fault)
            stage.until(lambda: paths(2), "leaf1 to have two paths to h5")
            stage.hold(RESENT)
        with stage.phase("verify"):
            stage.hold(p.hold)
            stage.run("leaf1", *ROUTE)


def _next_hops(shown: str) -> list[Any]:
    """The next hops of the route in ``ip -json route show``; of a single one it has no list."""
    routes = json.loads(shown or "[]")
    return [hop for route in routes for hop in route.get("nexthops", [route])]


def the_rib_has_one(rec: Recording, p: Params) -> Verdict:
    """Two next hops before and after, one meanwhile."""
    counts = [len(_next_hops(said(rec, phase, "ip"))) for phase in PHASES]
    return expect(counts == [2, 1, 2], f"{counts[0]}, then {counts[1]}, then {counts[2]} next hops for h5")


def one_uplink_is_idle(rec: Recording, p: Params) -> Verdict:
    """It carries nothing of priority 3 meanwhile, and before and after it does."""
    sent = {phase: sorted(rec.port(port).tx_bytes(3).during(phase).delta() for port in UPLINKS) for phase in PHASES}
    told = "; ".join(f"{phase}: {low / 1e6:.1f} and {high / 1e6:.1f} MB" for phase, (low, high) in sent.items())
    idle = [low == 0 < high for low, high in sent.values()]
    return expect(idle == [False, True, False] and sent["observe"][1] > 0, told)


def nothing_alarms(rec: Recording, p: Params) -> Verdict:
    """No link goes down, no session is lost, nothing is dropped."""
    links = link_changes(rec, "observe")
    sessions = session_changes(rec, "observe")
    dropped = sum(rec.port(port).drops().during("observe").delta() for port in rec.ports)
    told = f"{len(links)} link events, {len(sessions)} changes of sessions, {dropped} packets dropped"
    return expect(not links and not sessions and dropped == 0, told)


ANSWER: Final = StoryAnswer(
    cause="one-path-only",
    where=("leaf1",),
    level=1,
    workload="h1 writes to h5 with 16 QPs",
    hints=(
        "16 QPs get no more than one uplink carries",
        "leaf1: one of its uplinks carries everything, the other one nothing",
        "tx_prio3_bytes of leaf1:swp1 and leaf1:swp2",
        "rocelab exec leaf1 -- ip route show 10.0.0.8/31, beside that of leaf2 for 10.0.0.0/31",
        "one next hop where there are two equal ones: maximum-paths is 1",
    ),
    sign="a route has one next hop, though sessions over both uplinks are up (ip route show)",
    because="leaf1 has maximum-paths 1: it takes one of two equal paths, and the other uplink stands idle.",
    fix="maximum-paths as on its siblings.",
    prevention="Count next hops on every leaf after each change; alarm where an uplink is up and idle.",
)

SCENARIO = Scenario(
    "one-path-only", "incast.yaml", Params, run, (the_rib_has_one, one_uplink_is_idle, nothing_alarms), answer=ANSWER
)
