"""One path only: a leaf uses one of its two uplinks, and the other one is idle.

Story
    Given  h1 writes to h5 with many QPs: leaf1 spreads them over both spines
    When   leaf1 has maximum-paths 1
    Then   its RIB has one next hop for h5 instead of two, and one uplink carries everything
    And    the other uplink is up, with an established BGP session, and carries nothing: no alarm
    When   leaf1 uses all equal paths again
    Then   both uplinks carry traffic

        h1 -- leaf1 ===== spine1 == leaf2 -- h5
                  +--x--- spine2 ====+

Numbers
    n QPs, each hashed onto one of two uplinks, use both with a probability of 1 - 2/2^n: all but 1 in 32768 for 16
"""

from __future__ import annotations

import json
from typing import Any, Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect
from lab.scenario.phase_measures import ACTS
from lab.scenario.shared_checks import nothing_alarms
from lab.scenario.three_acts import PhaseParameters, fault, three_acts
from lab.scenario.traffic.workload import RESENT, said, show_link, show_routing

UPLINKS: Final = ("leaf1:swp1", "leaf1:swp2")
ROUTE: Final = ("ip", "-json", "route", "show", "10.0.0.8/31")


def run(stage: Stage, p: PhaseParameters) -> None:
    """Two, one, two."""

    def wait_for(count: int) -> None:
        route = stage.fabric.namespace("leaf1").run
        stage.until(lambda: len(_next_hops(route(ROUTE).stdout)) == count, f"leaf1 to have {count} paths to h5")
        stage.hold(RESENT)

    def look(_: str) -> None:
        stage.run("leaf1", *ROUTE)

    def show() -> None:
        for port in UPLINKS:
            show_link(stage, port)
        show_routing(stage, "leaf1", "show bgp summary")

    with stage.writing("h1:h5", qps=16):
        three_acts(
            stage, p.hold, fault("one-path", "leaf1"), look=look, show=show,
            broken=lambda: wait_for(1), healed=lambda: wait_for(2),
        )  # fmt: skip


def _next_hops(shown: str) -> list[Any]:
    """The next hops in the output of ``ip -json route show``, which has no list for a single one."""
    routes = json.loads(shown or "[]")
    return [hop for route in routes for hop in route.get("nexthops", [route])]


def the_rib_has_one_next_hop(rec: Recording, p: PhaseParameters) -> Verdict:
    """The route has two next hops before and after the fault, and one with it."""
    counts = [len(_next_hops(said(rec, phase, "ip"))) for phase in ACTS]
    return expect(counts == [2, 1, 2], f"{counts[0]}, then {counts[1]}, then {counts[2]} next hops for h5")


def one_uplink_is_idle(rec: Recording, p: PhaseParameters) -> Verdict:
    """With the fault it carries nothing of priority 3; before and after it does."""
    sent = {phase: sorted(rec.port(port).tx_bytes(3).during(phase).delta() for port in UPLINKS) for phase in ACTS}
    evidence = "; ".join(f"{phase}: {low / 1e6:.1f} and {high / 1e6:.1f} MB" for phase, (low, high) in sent.items())
    idle = [low == 0 < high for low, high in sent.values()]
    return expect(idle == [False, True, False] and sent["observe"][1] > 0, evidence)


ANSWER: Final = StoryAnswer(
    cause="one-path-only",
    where=("leaf1",),
    level=1,
    workload="h1 writes to h5 with 16 QPs",
    hints=(
        "16 QPs together get no more than the rate of one uplink",
        "leaf1: one of its uplinks carries everything, and the other one nothing",
        "tx_prio3_bytes of leaf1:swp1 and leaf1:swp2",
        "rocelab exec leaf1 -- ip route show 10.0.0.8/31, beside that of leaf2 for 10.0.0.0/31",
        "one next hop, although two have the same cost: maximum-paths is 1",
    ),
    sign="a route has one next hop, although sessions over both uplinks are up (ip route show)",
    because="leaf1 has maximum-paths 1. It uses one of two equal paths, and the other uplink is idle.",
    fix="Configure maximum-paths as on the other leaves.",
    prevention="Count next hops on every leaf after each change; alarm where an uplink is up and idle.",
)

SCENARIO = Scenario(
    "one-path-only", "incast.yaml", PhaseParameters, run,
    (the_rib_has_one_next_hop, one_uplink_is_idle, nothing_alarms), answer=ANSWER,
)  # fmt: skip
