"""One leaf's thresholds are 3 KB lower: it marks twice the share at the same depth, with no other symptom.

Story
    Given  two leaves with the same load: a queue of 43 KB, and a Kmin of 40 KB
    Then   both mark about the same share of their packets
    When   Kmin and Kmax of leaf2 are set 3 KB lower
    Then   leaf2 marks twice the share of leaf1 at the same depth; no pause, no drop, no link event
    When   leaf2 has the same profile as leaf1
    Then   both mark about the same share

        h1, h2 -- leaf1 -10M- h4     43 KB - 40 KB = 3 KB above Kmin: a quarter of the packets
        h5, h6 -- leaf2 -10M- h8     43 KB - 37 KB = 6 KB above Kmin: half of the packets

Numbers
    3 KB are two packets, or 2.4 ms of queueing at 10 Mb/s (60 ns at 400 Gb/s). The ramp is 12 KB wide and ends at
    100%, so each KB above Kmin adds 1/12: 3/12 and 6/12 of all packets. The error is a factor of two because the
    queue is only 3 KB above Kmin
    cost for a job: in DCQCN's fluid model (Zhu et al., ECN or Delay, CoNEXT 2016) p^3 is proportional to
    (1/B + 1/(T R))^2 / R^2. Where the timer T dominates that is R^-4, so R is proportional to p^(-3/4). Twice the
    marks leave 2^(-3/4) = 59% of the rate, and a collective waits for its slowest flow: the job runs at 60%
    packets that are not queued are in flight, for about 1 ms. If that is 0.5 ms more on one leaf for a while, its
    queue is 0.6 KB less deep, a twentieth of the ramp. A faster link would increase this error
    SoftRoCE ignores marks: shares of marks are measured, and the 60% computed from them. The ramp is steep, so that
    a second yields enough marks; with a gentler ramp p is smaller and the ratio is the same
"""

from __future__ import annotations

from math import sqrt
from typing import Annotated, Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect, time_of, unknown
from lab.scenario.phase_measures import dropped
from lab.scenario.state_changes import link_changes
from lab.scenario.three_acts import PhaseParameters, fault, three_acts
from lab.scenario.traffic.workload import circulating

QUEUES: Final = ("leaf1:swp6", "leaf2:swp6")
KMIN: Final = 40_000
KMAX: Final = 52_000
OFF: Final = 3_000
PACKETS: Final = 14
"""In flight for each host: 28 on a leaf, 27 of them queued. More and smaller packets make a smoother queue."""
SIZE: Final = 1_542
"""Bytes of a message, 1618 of its packet: an arriving packet finds 26 or 27 queued, 43 KB."""
SETTLING: Final = 0.5
"""Seconds until the programs have started and the queues are steady."""
SIGMAS: Final = 5
DCQCN: Final = -3 / 4
"""The exponent by which a rate depends on the share of marks."""


class Params(PhaseParameters):
    """Longer phases, for enough marks."""

    hold: Annotated[float, time_of(0.5, 60)] = 3.0
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """Alike, different, alike."""
    stage.set(",".join(QUEUES), "rate=10Mbit", f"ecn.3.kmin={KMIN}B", f"ecn.3.kmax={KMAX}B", "ecn.3.pmax=100%")
    with circulating(stage, "h1:h4", "h2:h4", "h5:h8", "h6:h8", packets=PACKETS, size=SIZE):
        stage.hold(SETTLING)
        lower = fault("port-config", "leaf2:swp6", set=f"ecn.3.kmin={KMIN - OFF}B ecn.3.kmax={KMAX - OFF}B")
        three_acts(stage, p.hold, lower)


def _shares(rec: Recording, phase: str) -> tuple[list[float], float]:
    """The share of its packets that each leaf marked, and the difference that chance allows (binomial)."""
    counts = [(rec.port(port).marked(3), rec.port(port).tx_packets(3)) for port in QUEUES]
    sizes = [sent.during(phase).delta() for _, sent in counts]
    shares = [marked.during(phase).delta() / max(size, 1) for (marked, _), size in zip(counts, sizes, strict=True)]
    variance = sum(share * (1 - share) / max(size, 1) for share, size in zip(shares, sizes, strict=True))
    return shares, SIGMAS * sqrt(variance)


def _healthy(rec: Recording) -> float:
    """The difference with one profile: one leaf may have a packet more or less in its queue for a whole run."""
    return max(abs(one - other) for (one, other), _ in (_shares(rec, phase) for phase in ("baseline", "verify")))


def three_kb_are_visible(rec: Recording, p: Params) -> Verdict:
    """With the fault the leaves differ by more than they do with one profile, and more than by chance."""
    (one, other), bound = _shares(rec, "observe")
    healthy = _healthy(rec)
    evidence = f"difference {other - one:.1%}; with one profile at most {healthy:.1%}, by chance {bound:.1%}"
    return expect(other - one > healthy + bound > 0, evidence)


def three_kb_are_a_quarter(rec: Recording, p: Params) -> Verdict:
    """With 3 KB of a 12 KB ramp leaf2 marks 3/12 of its packets more, as near as healthy leaves and chance allow."""
    (one, other), bound = _shares(rec, "observe")
    theory, allowed = OFF / (KMAX - KMIN), bound + _healthy(rec)
    evidence = f"{one:.1%} and {other:.1%}: {other - one:.1%} more, {theory:.0%} +- {allowed:.1%} by the formula"
    return expect(bound > 0 and abs(other - one - theory) < allowed, evidence)


def the_job_would_run_at_60(rec: Recording, p: Params) -> Verdict:
    """DCQCN would leave 2^(-3/4) of the rate, as near as healthy leaves and chance allow."""
    (one, other), bound = _shares(rec, "observe")
    if not one or not other:
        return unknown("a leaf marked nothing")
    left, theory = (other / one) ** DCQCN, 2**DCQCN
    allowed = -DCQCN * theory * (bound + _healthy(rec)) / one
    evidence = f"({other:.3f} / {one:.3f})^(-3/4) = {left:.0%} of the rate, {theory:.0%} +- {allowed:.0%}"
    return expect(abs(left - theory) < allowed, evidence)


def at_the_same_depth(rec: Recording, p: Params) -> Verdict:
    """The queues differ by less than 3 KB on average, and are above Kmin."""
    one, other = (float(rec.port(port).depth(3).during("observe").values.mean()) for port in QUEUES)
    return expect(
        abs(one - other) < OFF and min(one, other) > KMIN,
        f"on average {one / 1000:.1f} and {other / 1000:.1f} KB queued",
    )


def there_is_no_other_symptom(rec: Recording, p: Params) -> Verdict:
    """No pause, no drop, and no link that goes down."""
    paused = sum(rec.port(port).tx_pause(3).during("observe").delta() for port in rec.ports)
    lost = dropped(rec, "observe", priority=None)
    links = link_changes(rec, "observe")
    return expect(
        paused == lost == 0 and not links, f"{paused} pauses, {lost} packets dropped, {len(links)} link events"
    )


ANSWER: Final = StoryAnswer(
    cause="ecn-off-by-3kb",
    where=("leaf2:swp6", "leaf2"),
    level=3,
    workload="h1 and h2 write to h4, and h5 and h6 to h8, with 14 packets in flight each",
    hints=(
        "nothing is down, lost or paused, and flows through one leaf are marked twice as often",
        "leaf2's queue towards h8 is as deep as leaf1's towards h4, and marks more packets",
        "queue3_ecn_marked over tx_prio3_packets, of leaf2:swp6 and leaf1:swp6",
        "rocelab qos show leaf2:swp6, and leaf1:swp6",
        "Kmin and Kmax are 3 KB lower at leaf2: at 43 KB half of the packets are marked instead of a quarter",
    ),
    sign=("of two queues of the same depth one marks a larger share (rocelab counters leaf1:swp6 leaf2:swp6)"),
    because=(
        "Kmin and Kmax of leaf2's queue are 3 KB lower than on other leaves. At this depth that doubles the marks."
    ),
    fix="Use one profile everywhere: rocelab qos set leaf2:swp6 with leaf1's Kmin and Kmax.",
    prevention=(
        "Define thresholds in one place; compare the shares of marks at the same depth, and not only port states."
    ),
)

SCENARIO = Scenario(
    "ecn-off-by-3kb", "incast.yaml", Params, run,
    (three_kb_are_visible, three_kb_are_a_quarter, the_job_would_run_at_60, at_the_same_depth,
     there_is_no_other_symptom),
    answer=ANSWER,
)  # fmt: skip
