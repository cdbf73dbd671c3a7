"""Rehashed: an idle link goes down, and flows that never used it change their paths and are retransmitted.

Story
    Given  h1 writes to h3 with four QPs over leaf1's four paths, and one path has 100 ms more delay
    When   a link goes down that carries none of them
    Then   leaf1 divides its hash among the remaining links, and half of all flows move
    And    half of the moved flows never used the lost link
    And    packets of a flow that leaves the long path overtake earlier ones: h3 sends NAKs, and h1 retransmits
    When   leaf1 has a resilient next-hop group, and loses the same link
    Then   only the flows of that link move, a quarter, and no packet is out of sequence

        h1 == leaf1 --x-- spine1 ---+
                  +==100ms spine2 ==+
                  +======= spine3 ==+= leaf2 == h3
                  +======= spine4 ==+

Numbers
    one of N next hops is lost. A hash modulo their number moves (N-1)/N of all flows, 3/4. Linux divides the hash
    into regions (RFC 2992): losing the first or the last moves 1/2, 1/N that used it and (N-2)/2N of the others
    a resilient group moves only the 1/N that used it: 1/4
    of 1024 flows the share that moves is within 5 sqrt(1/4 / 1024) = 8% of that, which is 5 sigma
    a QP has 12 Mb/s of the link's 50, so that 37 packets of 4 KB are on the long path
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect, time_of
from lab.scenario.phase_measures import rdma_growth
from lab.scenario.probes.ecmp import draw, is_share, moved, moves_shown, show_ways, source_ports, way_of, ways
from lab.scenario.probes.overlay_state import paths_to
from lab.scenario.three_acts import PhaseParameters
from lab.scenario.traffic.workload import RESENT, show_rdma

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.faults.ledger import Entry

PAIR: Final = "h1:h3"
CAME, LOST, LONG = "leaf1:swp5", "leaf1:swp1", "leaf1:swp2"
SPINES: Final = ("spine1", "spine2", "spine3", "spine4")
QPS: Final = 4
SURVEY: Final = range(0xC000, 0xC000 + 1024)
"""Source ports of possible flows: SoftRoCE uses ports from 0xC000."""
SETTLING: Final = 1.5
"""Seconds: longer than the QP's ACK timeout of 1.07 s."""


class Params(PhaseParameters):
    """The length of the long path."""

    longer: Annotated[float, time_of(0.02, 0.2)] = 0.1
    """The additional delay of the path over spine2."""


def run(stage: Stage, p: Params) -> None:
    """Four paths, three, four in a resilient group, three."""
    with stage.writing(PAIR, qps=QPS):
        ports = source_ports(stage, "h1", QPS)
        drawn = _draw(stage, ports, leaving=True)
        longer = stage.inject("link-delay", LONG, delay=p.longer)
        stage.hold(RESENT)
        with stage.holding("baseline", p.hold):
            show_ways(stage, PAIR, CAME, SURVEY)
        with _lost(stage, p, "observe"):
            show_rdma(stage, "h3")
            stage.linger()
        with stage.phase("fix"):
            stage.heal(longer, drawn)
            stage.inject("static-route", "leaf1", to="h3", via=",".join(SPINES), buckets=128)
            stage.run("leaf1", "ip", "nexthop", "show")
            _draw(stage, ports, leaving=False)
            stage.inject("link-delay", LONG, delay=p.longer)
            stage.hold(RESENT)
        with stage.holding("resilient", p.hold):
            show_ways(stage, PAIR, CAME, SURVEY)
        with _lost(stage, p, "verify"):
            pass


@contextmanager
def _lost(stage: Stage, p: Params, phase: str) -> Iterator[None]:
    """The link goes down in this phase, and comes back after the block."""
    with stage.phase(phase):
        down = stage.inject("link-down", LOST)
        stage.hold(SETTLING + p.hold)
        show_ways(stage, PAIR, CAME, SURVEY)
    yield
    stage.heal(down)
    stage.until(lambda: paths_to(stage, "leaf1", "10.0.0.4/31") == len(SPINES), "leaf1 to have its four paths again")


def _draw(stage: Stage, ports: list[int], *, leaving: bool) -> Entry:
    """Choose a hash with no QP on the link and one on the long path, for which its port has room.

    With ``leaving`` that QP also leaves the long path when the link goes down.
    """

    def fits() -> bool:
        now = ways(stage, PAIR, CAME, ports)
        alone = way_of(LOST) not in now.values() and list(now.values()).count(way_of(LONG)) == 1
        return alone and (not leaving or _leaves(stage, now))

    return draw(stage, "leaf1", fits)


def _leaves(stage: Stage, now: Mapping[int, str]) -> bool:
    """Return whether the QP on the long path would have another path of the three remaining ones."""
    remaining = stage.inject("static-route", "leaf1", to="h3", via=",".join(SPINES[1:]))
    then = ways(stage, PAIR, CAME, now)
    stage.heal(remaining)
    return any(now[port] == way_of(LONG) for port in moved(now, then))


def _effect(rec: Recording, before: str, after: str) -> tuple[list[int], str]:
    """Return the packets on the link before, and those out of sequence before and after, with the evidence."""
    late = rdma_growth(rec, "h3", "out_of_seq_request", (before, after))
    counts = [rec.port(LOST).tx_packets(3).during(before).delta(), *late]
    return counts, f"{counts[0]} packets used {LOST} before; out_of_seq_request grew by {late[0]}, then by {late[1]}"


def _moves(rec: Recording, before: str, after: str) -> tuple[set[int], set[int], str]:
    """Return the flows that moved, those that used the lost link, and the evidence."""
    went, affected = moves_shown(rec, before, after, SURVEY, LOST)
    share = len(went) / len(SURVEY)
    return went, affected, f"{len(went)} of {len(SURVEY)} flows move, {share:.0%}; {len(affected)} used the lost link"


def half_of_all_flows_move(rec: Recording, p: Params) -> Verdict:
    """With regions of the hash, the quarter that used the link moves, and another quarter too."""
    went, affected, evidence = _moves(rec, "baseline", "observe")
    right = affected < went and is_share(affected, 1 / 4, SURVEY) and is_share(went, 1 / 2, SURVEY)
    return expect(right, f"{evidence}; 50% expected with regions of the hash, 75% modulo, at least 25%")


def unrelated_flows_retransmit(rec: Recording, p: Params) -> Verdict:
    """The link carries none of their packets, and packets are out of sequence when it goes down."""
    (used, before, after), evidence = _effect(rec, "baseline", "observe")
    return expect(used == before == 0 < after, evidence)


def only_affected_flows_move(rec: Recording, p: Params) -> Verdict:
    """With a resilient group the flows that move are those that used the link."""
    went, affected, evidence = _moves(rec, "resilient", "verify")
    return expect(went == affected and is_share(went, 1 / 4, SURVEY), evidence)


def nothing_is_out_of_sequence(rec: Recording, p: Params) -> Verdict:
    """With a resilient group the loss of a link does not affect QPs that did not use it."""
    counts, evidence = _effect(rec, "resilient", "verify")
    return expect(not any(counts), evidence)


ANSWER: Final = StoryAnswer(
    cause="rehash-on-failure",
    where=("leaf1--spine1", "leaf1"),
    level=3,
    workload="h1 writes to h3 with four QPs",
    hints=(
        "QPs retransmitted once, and have worked since then",
        "leaf1: one of its uplinks went down, and none of these QPs had used it",
        "out_of_seq_request of h3, and the time when swp1 of leaf1 went down",
        "rocelab exec leaf1 -- ip route get, with a QP's source port, before and after the link is back",
        "flows of the other three uplinks have another path than before: the hash is divided again",
    ),
    sign="receivers see packets out of sequence just as a link goes down that carried none of them",
    because="leaf1 lost an idle uplink and divided its hash among the other three. Unrelated flows moved to paths"
    " with another delay, and their packets overtook each other.",
    fix="Use a resilient next-hop group, in which only the flows of the lost link move.",
    prevention="Use resilient hashing on every switch with equal paths; check retransmissions when a link changes.",
)

SCENARIO = Scenario(
    "rehash-on-failure", "four-spines.yaml", Params, run,
    (half_of_all_flows_move, unrelated_flows_retransmit, only_affected_flows_move, nothing_is_out_of_sequence),
    answer=ANSWER,
)  # fmt: skip
