"""Two large flows share one uplink: each pair gets half of its rate, and the other uplink is idle.

Story
    Given  h1 writes to h5 and h2 to h6, with one QP each, and leaf1's hash places them on different uplinks
    When   leaf1 has another hash seed, and both QPs are on the same uplink
    Then   each pair gets half of its rate, with no fault: two routes, two sessions, one idle uplink
    When   each pair has 32 QPs instead of one, with the same seed
    Then   both uplinks carry traffic, and the pairs together get more than the rate of one link

        h1 --+      +== spine1 ==+
             leaf1 =+            += leaf2 -- h5, h6
        h2 --+      +-- spine2 --+     idle

Numbers
    two flows on two uplinks collide with probability 1/2; on n uplinks with 1/n
    of 64 QPs the busier uplink has at most 1/2 + 5/(2 sqrt 64) = 81% (5 sigma), so both pairs together get
    1/0.81 = 1.23 links or more
    the path of a QP depends on its UDP source port alone, which SoftRoCE derives from the QP numbers of both ends
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect
from lab.scenario.phase_measures import ACTS, mbits
from lab.scenario.probes.ecmp import draw, source_ports, ways
from lab.scenario.three_acts import PhaseParameters
from lab.scenario.traffic.workload import RESENT

if TYPE_CHECKING:
    from lab.faults.ledger import Entry

PAIRS: Final = ("h1:h5", "h2:h6")
INPUTS: Final = ("leaf1:swp3", "leaf1:swp4")
UPLINKS: Final = ("leaf1:swp1", "leaf1:swp2")
RECEIVERS: Final = ("leaf2:swp3", "leaf2:swp4")
QPS: Final = 32
SIGMAS: Final = 5


def run(stage: Stage, p: PhaseParameters) -> None:
    """Two uplinks, one uplink, many QPs."""
    with stage.writing(*PAIRS):
        ports = [source_ports(stage, pair.partition(":")[0], qps=1) for pair in PAIRS]
        apart = _draw(stage, ports, uplinks=2)
        stage.hold(RESENT)
        stage.measure("baseline", p.hold)
        with stage.phase("inject"):
            stage.heal(apart)
            _draw(stage, ports, uplinks=1)
            stage.hold(RESENT)
        stage.measure("observe", p.hold)
        stage.linger()
    with stage.writing(*PAIRS, qps=QPS, size=16384):
        stage.measure("verify", p.hold)


def _draw(stage: Stage, ports: list[list[int]], uplinks: int) -> Entry:
    """Try seeds of leaf1's hash until its kernel places both flows on so many ``uplinks``."""

    def fits() -> bool:
        flows = zip(PAIRS, INPUTS, ports, strict=True)
        return len({way for flow in flows for way in ways(stage, *flow).values()}) == uplinks

    return draw(stage, "leaf1", fits)


def _rates(rec: Recording, phase: str) -> list[float]:
    """The rate of each pair in Mb/s."""
    return [mbits(rec, port, phase) for port in RECEIVERS]


def each_gets_half(rec: Recording, p: PhaseParameters) -> Verdict:
    """On one uplink each pair gets half of the rate that it has on its own uplink."""
    apart, together = _rates(rec, "baseline"), _rates(rec, "observe")
    evidence = " and ".join(f"{before:.1f} then {now:.1f} Mb/s" for before, now in zip(apart, together, strict=True))
    halves = all(abs(now - before / 2) < before / 20 for before, now in zip(apart, together, strict=True))
    return expect(min(apart) > 0 and halves, evidence)


def one_uplink_is_idle(rec: Recording, p: PhaseParameters) -> Verdict:
    """Before, both uplinks carry traffic; with the collision one carries all of it."""
    apart, together = (
        sorted(rec.port(port).tx_bytes(3).during(phase).delta() for port in UPLINKS) for phase in ACTS[:2]
    )
    evidence = (
        f"{apart[0] / 1e6:.1f} and {apart[1] / 1e6:.1f} MB, then {together[0] / 1e6:.1f} and {together[1] / 1e6:.1f}"
    )
    return expect(apart[0] > 0 == together[0] and together[1] > 0, evidence)


def many_qps_spread(rec: Recording, p: PhaseParameters) -> Verdict:
    """With many QPs the pairs get more than one link's rate, by the factor that the worst placement leaves."""
    least = 1 / (0.5 + SIGMAS / (2 * sqrt(len(PAIRS) * QPS)))
    together, many = sum(_rates(rec, "observe")), sum(_rates(rec, "verify"))
    return expect(
        many > least * together > 0,
        f"{many:.1f} Mb/s with {QPS} QPs each, {together:.1f} with one; at least {least:.2f} times expected",
    )


ANSWER: Final = StoryAnswer(
    cause="elephant-collision",
    where=("leaf1", "leaf1:swp1", "leaf1:swp2"),
    level=3,
    workload="h1 writes to h5 and h2 to h6, with one QP each",
    hints=(
        "each pair gets half of its link's rate, and nothing is down",
        "leaf1: one of its uplinks is full, and the other one is idle",
        "tx_prio3_bytes of leaf1:swp1 and leaf1:swp2",
        "rocelab path h1 h5 and h2 h6, or ip route get on leaf1 with each QP's source port",
        "two next hops, ports are hashed, and both QPs have the same one by chance",
    ),
    sign="two pairs with one QP each share an uplink beside an idle one; routes and hash are right (rocelab path)",
    because="Two QPs, two uplinks, and a hash that places both QPs on the same one, with probability 1/2.",
    fix="Use more QPs for each pair, or assign a path to each: with the same seed 32 QPs use both uplinks.",
    prevention="Use several QPs for each pair, or assigned paths; monitor Jain's index of uplinks.",
)

SCENARIO = Scenario(
    "elephant-collision", "incast.yaml", PhaseParameters, run,
    (each_gets_half, one_uplink_is_idle, many_qps_spread), answer=ANSWER,
)  # fmt: skip
