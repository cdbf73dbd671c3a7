"""Rehashed: an idle link goes down, and flows that were never on it change their ways and are sent again.

Story
    Given  h1 writes to h3 with four QPs over leaf1's four ways, of which one is longer by 100 ms, as if a queue
           stood there
    When   one goes down that carries none of them
    Then   leaf1 divides the hash anew among those that are left: half of all flows move, and half of these had
           nothing to do with the link
    And    one that leaves the long way overtakes itself: h3 sees them out of sequence, and h1 sends again
    When   leaf1 has a resilient next-hop group, and loses the same link
    Then   only what was on it moves, a quarter, and nothing is out of sequence

        h1 == leaf1 --x-- spine1 ---+
                  +==100ms spine2 ==+
                  +======= spine3 ==+= leaf2 == h3
                  +======= spine4 ==+

Numbers
    of N next hops one goes. A hash modulo their number moves (N-1)/N of all flows, 3/4. Linux divides the hash into
    regions (RFC 2992): losing the first or the last moves 1/2, 1/N that were on it and (N-2)/2N of the others. A
    resilient group moves 1/N, which must: 1/4
    of 1024 flows the share that moves is within 5 sqrt(1/4 / 1024) = 8% of that, which is 5 sigma
    a QP has 12 Mb/s of the link's 50, so that 37 packets of 4 KB are on the long way
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, time_of
from lab.scenario.probes.ecmp import draw, is_share, moved, moves_shown, show_ways, source_ports, way_of, ways
from lab.scenario.probes.overlay_state import paths_to
from lab.scenario.traffic.workload import RESENT, show_rdma

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.faults.ledger import Entry

PAIR: Final = "h1:h3"
CAME: Final = "leaf1:swp5"
LOST: Final = "leaf1:swp1"
LONG: Final = "leaf1:swp2"
SPINES: Final = ("spine1", "spine2", "spine3", "spine4")
QPS: Final = 4
SURVEY: Final = range(0xC000, 0xC000 + 1024)
"""Source ports of flows that there might be: SoftRoCE takes them from 0xC000 on."""
SETTLING: Final = 1.5
"""Seconds: a QP whose last packet was overtaken waits for 1.07 s."""


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(1, 60)] = 1.5
    """How long each phase lasts."""
    longer: Annotated[float, time_of(0.02, 0.2)] = 0.1
    """By how much the way over spine2 is longer than the others."""


def run(stage: Stage, p: Params) -> None:
    """Four ways, three, four by buckets, three."""
    with stage.writing(PAIR, qps=QPS):
        ports = source_ports(stage, "h1", QPS)
        drawn = _draw(stage, ports, leaving=True)
        longer = stage.inject("link-delay", LONG, delay=p.longer)
        stage.hold(RESENT)
        with stage.phase("baseline"):
            stage.hold(p.hold)
            show_ways(stage, PAIR, CAME, SURVEY)
        with _lost(stage, p, "observe"):
            show_rdma(stage, "h3")
            stage.linger()
        with stage.phase("fix"):
            stage.heal(longer)
            stage.heal(drawn)
            stage.inject("static-route", "leaf1", to="h3", via=",".join(SPINES), buckets=128)
            stage.run("leaf1", "ip", "nexthop", "show")
            _draw(stage, ports, leaving=False)
            stage.inject("link-delay", LONG, delay=p.longer)
            stage.hold(RESENT)
        with stage.phase("resilient"):
            stage.hold(p.hold)
            show_ways(stage, PAIR, CAME, SURVEY)
        with _lost(stage, p, "verify"):
            pass


@contextmanager
def _lost(stage: Stage, p: Params, phase: str) -> Iterator[None]:
    """The link goes down in this phase, and comes back behind the block."""
    with stage.phase(phase):
        down = stage.inject("link-down", LOST)
        stage.hold(SETTLING + p.hold)
        show_ways(stage, PAIR, CAME, SURVEY)
    yield
    stage.heal(down)
    stage.until(lambda: paths_to(stage, "leaf1", "10.0.0.4/31") == len(SPINES), "leaf1 to have its four paths again")


def _draw(stage: Stage, ports: list[int], *, leaving: bool) -> Entry:
    """A hash with no QP on the link, and one, for which its port has room, on the long way, perhaps leaving it."""

    def fits() -> bool:
        now = ways(stage, PAIR, CAME, ports)
        alone = way_of(LOST) not in now.values() and list(now.values()).count(way_of(LONG)) == 1
        return alone and (not leaving or _leaves(stage, now))

    return draw(stage, "leaf1", fits)


def _leaves(stage: Stage, now: Mapping[int, str]) -> bool:
    """Whether the QP on the long way would be on another one of the three that are left."""
    left = stage.inject("static-route", "leaf1", to="h3", via=",".join(SPINES[1:]))
    then = ways(stage, PAIR, CAME, now)
    stage.heal(left)
    return any(now[port] == way_of(LONG) for port in moved(now, then))


def _sent_again(rec: Recording, before: str, after: str) -> tuple[int, list[int]]:
    """Packets that the link had of the QPs, and how many came out of sequence before and after it went."""
    on_it = rec.port(LOST).tx_packets(3).during(before).delta()
    return on_it, [rec.rdma("h3").counter("out_of_seq_request").during(each).delta() for each in (before, after)]


def half_of_all_flows_move(rec: Recording, p: Params) -> Verdict:
    """Regions of the hash: a quarter had to, and as many did not."""
    went, had_to = moves_shown(rec, "baseline", "observe", SURVEY, LOST)
    told = f"{len(went)} of {len(SURVEY)} flows move, {len(went) / len(SURVEY):.0%}, and {len(had_to)} had to"
    right = had_to < went and is_share(had_to, 1 / 4, SURVEY) and is_share(went, 1 / 2, SURVEY)
    return expect(right, f"{told}; by regions of the hash 50%, modulo 75%, at least 25%")


def flows_beside_the_link_are_sent_again(rec: Recording, p: Params) -> Verdict:
    """It carried not one of their packets, and they come out of sequence when it goes."""
    on_it, (before, after) = _sent_again(rec, "baseline", "observe")
    told = f"{on_it} packets by {LOST} before; out_of_seq_request grew by {before}, then by {after}"
    return expect(on_it == before == 0 < after, told)


def buckets_move_what_must(rec: Recording, p: Params) -> Verdict:
    """With a resilient group the flows that move are those that were on the link."""
    went, had_to = moves_shown(rec, "resilient", "verify", SURVEY, LOST)
    told = f"{len(went)} of {len(SURVEY)} flows move, {len(went) / len(SURVEY):.0%}, and {len(had_to)} had to"
    return expect(went == had_to and is_share(went, 1 / 4, SURVEY), told)


def nothing_is_out_of_sequence(rec: Recording, p: Params) -> Verdict:
    """With a resilient group the QPs do not notice that a link is gone that they were not on."""
    on_it, (before, after) = _sent_again(rec, "resilient", "verify")
    told = f"{on_it} packets by {LOST} before; out_of_seq_request grew by {before}, then by {after}"
    return expect(on_it == before == after == 0, told)


ANSWER: Final = StoryAnswer(
    cause="rehash-on-failure",
    where=("leaf1--spine1", "leaf1"),
    level=3,
    workload="h1 writes to h3 with four QPs",
    hints=(
        "QPs went back and sent again once, and all is well since",
        "leaf1: one of its uplinks went down, and not one of these QPs had been on it",
        "out_of_seq_request of h3, and when swp1 of leaf1 went down",
        "rocelab exec leaf1 -- ip route get, with a QP's source port, before and after the link is back",
        "flows of the other three uplinks have another one than before: the hash is divided anew",
    ),
    sign="receivers saw packets out of sequence just as a link went down that had carried none of them",
    because="leaf1 lost an idle uplink, and divided its hash among the three that were left: flows that had nothing"
    " to do with it moved to ways of another length, and overtook themselves.",
    fix="a resilient next-hop group, in which only the flows of the lost link move.",
    prevention="Resilient hashing on every switch with equal paths; look at retransmissions whenever a link changes.",
)

SCENARIO = Scenario(
    "rehash-on-failure", "four-spines.yaml", Params, run,
    (half_of_all_flows_move, flows_beside_the_link_are_sent_again,
     buckets_move_what_must, nothing_is_out_of_sequence), answer=ANSWER,
)  # fmt: skip
