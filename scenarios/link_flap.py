"""A link flaps: each time a session is lost and made again, and what was on the way is sent again.

Story
    Given  h1 writes to h5 and h2 to h6, over both spines
    When   the link between leaf1 and spine1 goes down and comes back, several times
    Then   both of its ends see it, and leaf1's BGP session over it is lost and established each time
    And    what waited for the link is lost: h5 and h6 ask for it again, or their senders time out
    When   the optic has been changed
    Then   no link changes, and nothing is sent again

        h1, h2 -- leaf1 ~~~~ spine1 == leaf2 -- h5, h6
                      +==== spine2 ====+

Numbers
    a session needs 1 to 3 s to come back: a bgpd tries once a second. QPs move to the other uplink at once; one
    whose last packets were lost waits for 1.07 s
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, between, expect, time_of
from lab.scenario.state_changes import link_changes, session_changes
from lab.scenario.traffic.workload import show_queue, show_rdma, show_routing

END: Final = ("leaf1", "swp1")
FAR: Final = ("spine1", "swp1")
ROUTE: Final = ("ip", "route", "show", "10.0.0.8/31")
SETTLING: Final = 1.5
"""Seconds: a QP whose last packet was lost waits for 1.07 s."""


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(1, 60)] = 1.5
    """How long the link is down each time, and how long it is watched before and after."""
    flaps: Annotated[int, between(1, 20)] = 2
    """How often it goes down."""


def run(stage: Stage, p: Params) -> None:
    """Steady, flapping, steady."""

    def both_ways() -> bool:
        return stage.fabric.namespace(END[0]).run(ROUTE).stdout.count("nexthop") > 1

    def flap() -> None:
        down = stage.inject("link-down", ":".join(END))
        stage.hold(p.hold)
        stage.heal(down)
        stage.until(both_ways, "leaf1 to have both paths again")
        stage.hold(1)  # sessions are looked at once a second

    with stage.writing("h1:h5", "h2:h6", qps=8):
        with stage.phase("baseline"):
            stage.hold(p.hold)
        with stage.phase("observe"):
            for _ in range(p.flaps):
                flap()
        show_routing(stage, END[0], "show bgp summary")
        show_queue(stage, ":".join(END))
        show_rdma(stage, "h5")
        stage.linger(flap)
        with stage.phase("fix"):
            stage.hold(SETTLING)
        with stage.phase("verify"):
            stage.hold(p.hold)


def the_link_goes_and_comes(rec: Recording, p: Params) -> Verdict:
    """The kernel tells at either end, as often as it happened."""
    told = {
        ":".join(end): [
            bool(event.data["up"])
            for event in rec.events(source="kernel", kind="link", node=end[0], interface=end[1], during="observe")
        ]
        for end in (END, FAR)
    }
    downs = {end: sum(now < before for before, now in pairwise([True, *ups])) for end, ups in told.items()}
    right = all(ups and ups[-1] and downs[end] == p.flaps for end, ups in told.items())
    return expect(right, ", ".join(f"{end} went down {count} times" for end, count in downs.items()))


def the_session_flaps(rec: Recording, p: Params) -> Verdict:
    """leaf1's session over the link is lost and established again each time."""
    states = [
        event.data["state"]
        for event in rec.events(source="routing", kind="bgp", node=END[0], interface=END[1], during="observe")
    ]
    lost = sum(now != "Established" == before for before, now in pairwise(["Established", *states]))
    return expect(lost == p.flaps and states[-1:] == ["Established"], f"lost {lost} times; {', then '.join(states)}")


def packets_are_sent_again(rec: Recording, p: Params) -> Verdict:
    """Not before, and meanwhile: what waited for the link is asked for again, or times out."""
    again = [_sent_again(rec, phase) for phase in ("baseline", "observe")]
    flushed = rec.port(":".join(END)).drops(3, "flush").during("observe").delta()
    told = f"out of sequence or timed out: {again[0]} before, {again[1]} meanwhile; {flushed} waited for the link"
    return expect(again[0] == 0 < again[1], told)


def _sent_again(rec: Recording, phase: str) -> int:
    """Packets that came out of sequence, and times that a sender heard so or waited too long."""
    late = sum(rec.rdma(host).counter("out_of_seq_request").during(phase).delta() for host in ("h5", "h6"))
    return late + sum(rec.rdma(host).counter("completer_retry_err").during(phase).delta() for host in ("h1", "h2"))


def steady_again(rec: Recording, p: Params) -> Verdict:
    """Nothing goes down any more, and nothing is sent again."""
    links = link_changes(rec, "verify")
    sessions = session_changes(rec, "verify")
    again = _sent_again(rec, "verify")
    told = f"{len(links)} link events, {len(sessions)} changes of sessions, out of sequence or timed out: {again}"
    return expect(not links and not sessions and again == 0, told)


ANSWER: Final = StoryAnswer(
    cause="link-flap",
    where=("leaf1--spine1", "leaf1:swp1", "spine1:swp1"),
    level=1,
    workload="h1 writes to h5 and h2 to h6, with eight QPs each",
    hints=(
        "every few seconds QPs time out or send again, and then it is well for a while",
        "one uplink of leaf1",
        "queue3_drop_flush_packets of leaf1:swp1; how long its BGP session has been up",
        "rocelab vtysh leaf1 -c 'show bgp summary', some times, and rocelab exec leaf1 -- ip -d link show swp1",
        "the link to spine1 goes down and comes back, and each time its session begins anew",
    ),
    sign="a link goes down and comes back, and a BGP session with it (rocelab vtysh leaf1 -c 'show bgp summary')",
    because=(
        "The link between leaf1 and spine1 flaps: what waits for it is lost each time, and its BGP session "
        "begins anew."
    ),
    fix="Take the link out, and replace optic or cable.",
    prevention="Dampen links that flap, have BFD see them soon, and alarm on counts of carrier changes.",
)

SCENARIO = Scenario(
    "link-flap", "incast.yaml", Params, run,
    (the_link_goes_and_comes, the_session_flaps, packets_are_sent_again, steady_again),
    answer=ANSWER,
)  # fmt: skip
