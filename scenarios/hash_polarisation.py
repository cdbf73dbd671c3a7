"""Polarised: a leaf hashes addresses alone, all QPs of a pair take one uplink, and its twin stands idle.

Story
    Given  h1 writes to h5 with many QPs: leaf1 hashes their UDP source ports too and uses both uplinks
    When   leaf1 hashes addresses alone
    Then   all QPs of the pair are one flow to it: one uplink carries everything, the other nothing
    And    its routes have both next hops all the time: the RIB does not tell
    When   it hashes ports again
    Then   both uplinks carry

        h1 == leaf1 ===== spine1 == leaf2 == h5
                  +--x--- spine2 ====+

Numbers
    Jain's index of two uplinks is 1 where they carry the same, and 1/2 where one carries all. QPs are drawn: of n the
    share of one uplink has a standard deviation of 1 / (2 sqrt n), with 32 of 8.8%
    RoCEv2 puts one UDP source port into all packets of a QP: that is all the entropy there is. The same happens with
    L4 hashes where two tiers have one seed, in fabrics of three tiers
"""

from __future__ import annotations

import json
from math import sqrt
from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, time_of
from lab.scenario.traffic.workload import RESENT, said, show_link

UPLINKS: Final = ("leaf1:swp1", "leaf1:swp2")
ROUTE: Final = ("ip", "-json", "route", "show", "10.0.0.8/31")
PHASES: Final = ("baseline", "observe", "verify")
QPS: Final = 32
SIGMAS: Final = 5


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(0.5, 60)] = 1.5
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """Spread, polarised, spread."""
    with stage.writing("h1:h5", qps=QPS, size=16384):
        with stage.phase("baseline"):
            stage.hold(p.hold)
        with stage.phase("inject"):
            fault = stage.inject("ecmp-hash", "leaf1", policy="l3")
            stage.hold(RESENT)
        with stage.phase("observe"):
            stage.hold(p.hold)
            stage.run("leaf1", *ROUTE)
        for port in UPLINKS:
            show_link(stage, port)
        stage.run("leaf1", "sysctl", "net.ipv4.fib_multipath_hash_policy")
        stage.linger()
        with stage.phase("fix"):
            stage.heal(fault)
            stage.hold(RESENT)
        with stage.phase("verify"):
            stage.hold(p.hold)


def _sent(rec: Recording, phase: str) -> list[int]:
    return [rec.port(port).tx_bytes(3).during(phase).delta() for port in UPLINKS]


def _jain(values: list[int]) -> float:
    """Jain's index: 1 where all are equal, 1/n where one has everything."""
    return sum(values) ** 2 / (len(values) * sum(value**2 for value in values)) if any(values) else 0.0


def one_uplink_carries_all(rec: Recording, p: Params) -> Verdict:
    """The other sends not a byte of priority 3: Jain's index is 1/2."""
    sent = _sent(rec, "observe")
    told = ", ".join(f"{port} {size / 1e6:.2f} MB" for port, size in zip(UPLINKS, sent, strict=True))
    return expect(min(sent) == 0 < max(sent), f"{told}: Jain's index {_jain(sent):.3f}")


def ports_spread(rec: Recording, p: Params) -> Verdict:
    """Before and after each uplink has its share of the QPs, within what draws of so many allow."""
    bound = SIGMAS / (2 * sqrt(QPS))
    shares = [sent[0] / sum(sent) if any(sent := _sent(rec, phase)) else 0.0 for phase in ("baseline", "verify")]
    told = " and ".join(f"{share:.0%}" for share in shares)
    return expect(all(abs(share - 0.5) < bound for share in shares), f"{told} by {UPLINKS[0]}, 50% +- {bound:.0%}")


def the_rib_does_not_tell(rec: Recording, p: Params) -> Verdict:
    """leaf1 has both next hops to h5 all the while."""
    (route,) = json.loads(said(rec, "observe", "ip"))
    hops = [hop["dev"] for hop in route.get("nexthops", [route])]
    return expect(len(hops) == len(UPLINKS), f"next hops by {' and '.join(hops)}")


ANSWER: Final = StoryAnswer(
    cause="hash-polarisation",
    where=("leaf1",),
    level=2,
    workload="h1 writes to h5 with 32 QPs",
    hints=(
        "32 QPs get no more than one uplink carries",
        "leaf1: one of its uplinks carries everything, the other one nothing",
        "tx_prio3_bytes of leaf1:swp1 and leaf1:swp2",
        "rocelab exec leaf1 -- sysctl net.ipv4.fib_multipath_hash_policy, beside leaf2's",
        "policy 0: leaf1 hashes addresses alone, and all QPs of a pair are one flow to it",
    ),
    sign=(
        "a switch hashes addresses alone, where its siblings hash ports too (sysctl "
        "net.ipv4.fib_multipath_hash_policy)"
    ),
    because=(
        "leaf1 hashes addresses alone: the UDP source port, which is all the entropy that RoCEv2 has, "
        "counts for nothing."
    ),
    fix="Have it hash ports too: net.ipv4.fib_multipath_hash_policy=1.",
    prevention="Hash ports at every tier, each with its own seed; watch Jain's index of uplinks.",
)

SCENARIO = Scenario(
    "hash-polarisation",
    "incast.yaml",
    Params,
    run,
    (one_uplink_carries_all, ports_spread, the_rib_does_not_tell),
    answer=ANSWER,
)
