"""One leaf's thresholds are 3 KB lower: at the same depth it marks twice as much, and nothing else tells.

Story
    Given  two leaves with the same work: a queue that stands at 43 KB, Kmin 40 KB
    Then   both mark about the same share of their packets
    When   somebody types Kmin and Kmax 3 KB lower at leaf2
    Then   leaf2 marks twice the share of leaf1, at the same depth; no pause, no drop, no link event
    When   leaf2 has the profile of its siblings again
    Then   both mark about the same share

        h1, h2 -- leaf1 -10M- h4     43 KB - 40 KB = 3 KB above Kmin: a quarter of the packets
        h5, h6 -- leaf2 -10M- h8     43 KB - 37 KB = 6 KB above Kmin: half of them

Numbers
    3 KB are two packets, and 2.4 ms of queue at 10 Mb/s (60 ns at 400 Gb/s). The ramp has 12 KB and ends at
    100%, so that each KB above Kmin marks 1/12: 3/12 and 6/12 of all packets. Off by 3 KB is off by a factor of two,
    because the queue stands 3 KB above Kmin: these count, and not the 40 KB below
    what it costs a job: DCQCN's fluid model (Zhu et al., ECN or Delay, CoNEXT 2016) settles where p^3 goes with
    (1/B + 1/(T R))^2 / R^2; with the timer T in charge that is R^-4, so R goes with p^(-3/4). Twice the marks leave
    2^(-3/4) = 59% of the rate, and a collective waits for its slowest flow: the job runs at 60%
    a packet that is not in the queue is on its way there, about 1 ms; when that is half a millisecond more, at one
    leaf and for a while, its queue is 0.6 KB less deep, a twentieth of the ramp. A faster link would make that more
    SoftRoCE heeds no mark: shares of marks are measured, and the 60% worked out of them. The ramp is steep so that a
    second is enough to count; where it is gentler, p is smaller and the ratio is the same
"""

from __future__ import annotations

from math import sqrt
from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, time_of, unknown
from lab.scenario.state_changes import link_changes
from lab.scenario.traffic.workload import circulating

QUEUES: Final = ("leaf1:swp6", "leaf2:swp6")
KMIN: Final = 40_000
KMAX: Final = 52_000
OFF: Final = 3_000
PACKETS: Final = 14
"""Of each host: 28 circulate on a leaf, of which 27 wait; more and smaller ones are a smoother queue."""
SIZE: Final = 1_542
"""Bytes of a message, 1618 of its packet: one that comes meets 26 or 27 of them, 43 KB."""
SETTLING: Final = 0.5
"""Seconds until the programs have started and the queues stand still."""
SIGMAS: Final = 5
DCQCN: Final = -3 / 4
"""The power of the share of marks that a rate goes with."""


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(0.5, 60)] = 3.0
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """Alike, different, alike."""
    stage.set(",".join(QUEUES), "rate=10Mbit", f"ecn.3.kmin={KMIN}B", f"ecn.3.kmax={KMAX}B", "ecn.3.pmax=100%")
    with circulating(stage, "h1:h4", "h2:h4", "h5:h8", "h6:h8", packets=PACKETS, size=SIZE):
        stage.hold(SETTLING)
        with stage.phase("baseline"):
            stage.hold(p.hold)
        with stage.phase("inject"):
            lower = stage.inject(
                "port-config", "leaf2:swp6", set=f"ecn.3.kmin={KMIN - OFF}B ecn.3.kmax={KMAX - OFF}B"
            )
        with stage.phase("observe"):
            stage.hold(p.hold)
        stage.linger()
        with stage.phase("fix"):
            stage.heal(lower)
        with stage.phase("verify"):
            stage.hold(p.hold)


def _shares(rec: Recording, phase: str) -> tuple[list[float], float]:
    """The share of its packets that each leaf marked, and how far they may be apart by chance (binomial)."""
    counts = [(rec.port(port).marked(3), rec.port(port).tx_packets(3)) for port in QUEUES]
    sizes = [sent.during(phase).delta() for _, sent in counts]
    shares = [marked.during(phase).delta() / max(size, 1) for (marked, _), size in zip(counts, sizes, strict=True)]
    variance = sum(share * (1 - share) / max(size, 1) for share, size in zip(shares, sizes, strict=True))
    return shares, SIGMAS * sqrt(variance)


def _healthy(rec: Recording) -> float:
    """By how much the shares differ with one profile: a packet more or less waits at one leaf, for all of a run."""
    return max(abs(one - other) for (one, other), _ in (_shares(rec, phase) for phase in ("baseline", "verify")))


def three_kb_stand_out(rec: Recording, p: Params) -> Verdict:
    """Off by 3 KB the leaves differ by more than they do with one profile, and more than by chance."""
    (one, other), bound = _shares(rec, "observe")
    healthy = _healthy(rec)
    told = f"{other - one:.1%} apart, with one profile {healthy:.1%} at most, by chance {bound:.1%}"
    return expect(other - one > healthy + bound > 0, told)


def three_kb_are_a_quarter(rec: Recording, p: Params) -> Verdict:
    """Off by 3 KB of a ramp of 12, leaf2 marks 3/12 of its packets more, as near as both leaves and chance allow."""
    (one, other), bound = _shares(rec, "observe")
    theory, allowed = OFF / (KMAX - KMIN), bound + _healthy(rec)
    told = f"{one:.1%} and {other:.1%}: {other - one:.1%} more, {theory:.0%} +- {allowed:.1%} by the formula"
    return expect(bound > 0 and abs(other - one - theory) < allowed, told)


def the_job_would_run_at_60(rec: Recording, p: Params) -> Verdict:
    """What DCQCN would leave of the rate is 2^(-3/4), as near as healthy leaves and chance allow."""
    (one, other), bound = _shares(rec, "observe")
    if not one or not other:
        return unknown("a leaf marked nothing")
    left, theory = (other / one) ** DCQCN, 2**DCQCN
    allowed = -DCQCN * theory * (bound + _healthy(rec)) / one
    told = f"({other:.3f} / {one:.3f})^(-3/4) = {left:.0%} of the rate, {theory:.0%} +- {allowed:.0%}"
    return expect(abs(left - theory) < allowed, told)


def at_the_same_depth(rec: Recording, p: Params) -> Verdict:
    """The queues differ by less than 3 KB on average, and are above Kmin."""
    one, other = (float(rec.port(port).depth(3).during("observe").values.mean()) for port in QUEUES)
    return expect(abs(one - other) < OFF and min(one, other) > KMIN, f"{one / 1000:.1f} and {other / 1000:.1f} KB")


def nothing_else_tells(rec: Recording, p: Params) -> Verdict:
    """No pause, no drop, no link that goes down, and the same goodput."""
    paused = sum(rec.port(port).tx_pause(3).during("observe").delta() for port in rec.ports)
    dropped = sum(rec.port(port).drops().during("observe").delta() for port in rec.ports)
    links = link_changes(rec, "observe")
    return expect(
        paused == dropped == 0 and not links, f"{paused} pauses, {dropped} packets dropped, {len(links)} link events"
    )


ANSWER: Final = StoryAnswer(
    cause="ecn-off-by-3kb",
    where=("leaf2:swp6", "leaf2"),
    level=3,
    workload="h1 and h2 send to h4, and h5 and h6 to h8, with 14 packets under way each",
    hints=(
        "nothing is down, lost or paused, and one half of the job is marked twice as much as the other",
        "leaf2's queue towards h8 is as deep as leaf1's towards h4, and marks more",
        "queue3_ecn_marked over tx_prio3_packets, of leaf2:swp6 and leaf1:swp6",
        "rocelab qos show leaf2:swp6, and leaf1:swp6",
        "Kmin and Kmax are 3 KB lower at leaf2: at 43 KB half of the packets are marked instead of a quarter",
    ),
    sign=(
        "two leaves with queues of the same depth both mark, one of them a larger share (rocelab counters "
        "leaf1:swp6 leaf2:swp6)"
    ),
    because=(
        "Kmin and Kmax of leaf2's queue are 3 KB lower than its siblings': where the queue stands, that is "
        "twice the marks."
    ),
    fix="One profile everywhere: rocelab qos set leaf2:swp6 with leaf1's Kmin and Kmax.",
    prevention=(
        "Write thresholds in one place; compare shares of marks at the same depth among siblings, not only states."
    ),
)

SCENARIO = Scenario(
    "ecn-off-by-3kb", "incast.yaml", Params, run,
    (three_kb_stand_out, three_kb_are_a_quarter, the_job_would_run_at_60, at_the_same_depth, nothing_else_tells),
    answer=ANSWER,
)  # fmt: skip
