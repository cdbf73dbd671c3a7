"""Hash polarisation: a leaf hashes addresses only, so all QPs of a pair use one uplink and the other is idle.

Story
    Given  h1 writes to h5 with many QPs: leaf1 also hashes their UDP source ports and uses both uplinks
    When   leaf1 hashes addresses only
    Then   it treats all QPs of the pair as one flow: one uplink carries everything, the other nothing
    And    its route has both next hops all the time, so the RIB does not show the fault
    When   it hashes ports again
    Then   both uplinks carry traffic

        h1 == leaf1 ===== spine1 == leaf2 == h5
                  +--x--- spine2 ====+

Numbers
    Jain's index of two uplinks is 1 where they carry the same, and 1/2 where one carries all. The share of n QPs on
    one uplink has a standard deviation of 1 / (2 sqrt n), 8.8% for 32 QPs
    RoCEv2 uses one UDP source port for all packets of a QP, which is its only entropy. The same happens with L4
    hashes in a fabric of three tiers where two tiers have the same seed
"""

from __future__ import annotations

import json
from math import sqrt
from typing import Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect
from lab.scenario.phase_measures import jain
from lab.scenario.three_acts import PhaseParameters, fault, three_acts
from lab.scenario.traffic.workload import RESENT, said, show_link

UPLINKS: Final = ("leaf1:swp1", "leaf1:swp2")
ROUTE: Final = ("ip", "-json", "route", "show", "10.0.0.8/31")
QPS: Final = 32
SIGMAS: Final = 5


def run(stage: Stage, p: PhaseParameters) -> None:
    """Spread, polarised, spread."""

    def look(_: str) -> None:
        stage.run("leaf1", *ROUTE)

    def show() -> None:
        for port in UPLINKS:
            show_link(stage, port)
        stage.run("leaf1", "sysctl", "net.ipv4.fib_multipath_hash_policy")

    addresses = fault("ecmp-hash", "leaf1", policy="l3")
    with stage.writing("h1:h5", qps=QPS, size=16384):
        three_acts(stage, p.hold, addresses, broken=RESENT, healed=RESENT, look=look, show=show)


def _sent(rec: Recording, phase: str) -> list[int]:
    return [rec.port(port).tx_bytes(3).during(phase).delta() for port in UPLINKS]


def one_uplink_carries_all(rec: Recording, p: PhaseParameters) -> Verdict:
    """The other uplink sends no byte of priority 3: Jain's index is 1/2."""
    sent = _sent(rec, "observe")
    evidence = ", ".join(f"{port} {size / 1e6:.2f} MB" for port, size in zip(UPLINKS, sent, strict=True))
    return expect(min(sent) == 0 < max(sent), f"{evidence}: Jain's index {jain(sent):.3f}")


def ports_spread(rec: Recording, p: PhaseParameters) -> Verdict:
    """Before and after the fault each uplink carries its share of the QPs, within 5 sigma."""
    bound = SIGMAS / (2 * sqrt(QPS))
    shares = [sent[0] / sum(sent) if any(sent := _sent(rec, phase)) else 0.0 for phase in ("baseline", "verify")]
    evidence = f"{UPLINKS[0]}: " + " and ".join(f"{share:.0%}" for share in shares)
    return expect(all(abs(share - 0.5) < bound for share in shares), f"{evidence}, 50% +- {bound:.0%}")


def the_rib_has_both_next_hops(rec: Recording, p: PhaseParameters) -> Verdict:
    """leaf1's route to h5 has both next hops with the fault."""
    (route,) = json.loads(said(rec, "observe", "ip"))
    hops = [hop["dev"] for hop in route.get("nexthops", [route])]
    return expect(len(hops) == len(UPLINKS), f"{len(hops)} next hops")


ANSWER: Final = StoryAnswer(
    cause="hash-polarisation",
    where=("leaf1",),
    level=2,
    workload="h1 writes to h5 with 32 QPs",
    hints=(
        "32 QPs together get no more than the rate of one uplink",
        "leaf1: one of its uplinks carries everything, and the other one nothing",
        "tx_prio3_bytes of leaf1:swp1 and leaf1:swp2",
        "rocelab exec leaf1 -- sysctl net.ipv4.fib_multipath_hash_policy, beside leaf2's",
        "policy 0: leaf1 hashes addresses only, and treats all QPs of a pair as one flow",
    ),
    sign="a switch hashes addresses only, and the others hash ports too (sysctl net.ipv4.fib_multipath_hash_policy)",
    because="leaf1 hashes addresses only, and ignores the UDP source port, RoCEv2's only entropy.",
    fix="Hash ports too: net.ipv4.fib_multipath_hash_policy=1.",
    prevention="Hash ports at every tier, each with its own seed; monitor Jain's index of uplinks.",
)

SCENARIO = Scenario(
    "hash-polarisation", "incast.yaml", PhaseParameters, run,
    (one_uplink_carries_all, ports_spread, the_rib_has_both_next_hops), answer=ANSWER,
)  # fmt: skip
