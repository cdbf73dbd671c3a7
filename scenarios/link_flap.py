"""A link flaps: each time its BGP session is lost and re-established, and packets are retransmitted.

Story
    Given  h1 writes to h5 and h2 to h6, over both spines
    When   the link between leaf1 and spine1 goes down and comes back, several times
    Then   both ends see it, and leaf1's BGP session over it is lost and established each time
    And    packets queued for the link are lost: h5 and h6 send NAKs, or their senders time out
    When   the optic has been replaced
    Then   no link changes, and nothing is retransmitted

        h1, h2 -- leaf1 ~~~~ spine1 == leaf2 -- h5, h6
                      +==== spine2 ====+

Numbers
    a session takes 1 to 3 s to return: bgpd connects once a second. QPs move to the other uplink at once
    a QP that lost its last packets waits for its ACK timeout of 1.07 s
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, between, expect
from lab.scenario.phase_measures import ACTS, rdma_growth
from lab.scenario.state_changes import link_changes, session_changes
from lab.scenario.three_acts import PhaseParameters
from lab.scenario.traffic.workload import show_queue, show_rdma, show_routing

END: Final = "leaf1:swp1"
FAR: Final = "spine1:swp1"
ROUTE: Final = ("ip", "route", "show", "10.0.0.8/31")
SETTLING: Final = 1.5
"""Seconds: longer than the QP's ACK timeout of 1.07 s."""


class Params(PhaseParameters):
    """The number of flaps. The link is down for ``hold`` seconds each time."""

    flaps: Annotated[int, between(1, 20)] = 2
    """How often the link goes down."""


def run(stage: Stage, p: Params) -> None:
    """Stable, flapping, stable."""

    def both_paths() -> bool:
        return stage.fabric.namespace("leaf1").run(ROUTE).stdout.count("nexthop") > 1

    def flap() -> None:
        down = stage.inject("link-down", END)
        stage.hold(p.hold)
        stage.heal(down)
        stage.until(both_paths, "leaf1 to have both paths again")
        stage.hold(1)  # sessions are polled once a second

    with stage.writing("h1:h5", "h2:h6", qps=8):
        stage.measure("baseline", p.hold)
        with stage.phase("observe"):
            for _ in range(p.flaps):
                flap()
        show_routing(stage, "leaf1", "show bgp summary")
        show_queue(stage, END)
        show_rdma(stage, "h5")
        stage.linger(flap)
        stage.measure("fix", SETTLING)
        stage.measure("verify", p.hold)


def _losses(ups: list[bool]) -> int:
    """Return how often a state that is up at first was lost."""
    return sum(now < before for before, now in pairwise([True, *ups]))


def the_link_flaps(rec: Recording, p: Params) -> Verdict:
    """The kernel reports at both ends that the link went down and came back, as often as it happened."""
    states: dict[str, list[bool]] = {END: [], FAR: []}
    for event in rec.events(source="kernel", kind="link", during="observe"):
        states.get(f"{event.node}:{event.interface}", []).append(bool(event.data["up"]))
    evidence = ", ".join(f"{end} went down {_losses(ups)} times" for end, ups in states.items())
    return expect(all(ups[-1:] == [True] and _losses(ups) == p.flaps for ups in states.values()), evidence)


def the_session_flaps(rec: Recording, p: Params) -> Verdict:
    """leaf1's BGP session over the link is lost and established again each time."""
    events = rec.events(source="routing", kind="bgp", during="observe")
    states = [str(event.data["state"]) for event in events if f"{event.node}:{event.interface}" == END]
    lost = _losses([state == "Established" for state in states])
    return expect(lost == p.flaps and states[-1:] == ["Established"], f"lost {lost} times; {', then '.join(states)}")


def packets_are_retransmitted(rec: Recording, p: Params) -> Verdict:
    """While the link flaps, lost packets cause NAKs or timeouts; before it, nothing does."""
    before, during, _ = _retransmissions(rec)
    flushed = rec.port(END).drops(3, "flush").during("observe").delta()
    evidence = f"{before} out of sequence or timed out before, {during} with the fault; {flushed} lost in the queue"
    return expect(before == 0 < during, evidence)


def _retransmissions(rec: Recording) -> list[int]:
    """Return, by act, the packets out of sequence at receivers plus the retries of senders."""
    counts = [rdma_growth(rec, host, "out_of_seq_request") for host in ("h5", "h6")]
    counts += [rdma_growth(rec, host, "completer_retry_err") for host in ("h1", "h2")]
    return [sum(act) for act in zip(*counts, strict=True)]


def stable_again(rec: Recording, p: Params) -> Verdict:
    """After the repair no link or session changes, and nothing is retransmitted."""
    links, sessions = link_changes(rec, "verify"), session_changes(rec, "verify")
    again = _retransmissions(rec)[ACTS.index("verify")]
    evidence = f"{len(links)} links and {len(sessions)} sessions changed; {again} out of sequence or timed out"
    return expect(not links and not sessions and again == 0, evidence)


ANSWER: Final = StoryAnswer(
    cause="link-flap",
    where=("leaf1--spine1", "leaf1:swp1", "spine1:swp1"),
    level=1,
    workload="h1 writes to h5 and h2 to h6, with eight QPs each",
    hints=(
        "every few seconds QPs time out or retransmit, and then they work for a while",
        "one uplink of leaf1",
        "queue3_drop_flush_packets of leaf1:swp1; the uptime of its BGP session",
        "rocelab vtysh leaf1 -c 'show bgp summary', repeatedly, and rocelab exec leaf1 -- ip -d link show swp1",
        "the link to spine1 goes down and comes back, and its session restarts each time",
    ),
    sign="a link goes down and comes back, and a BGP session with it (rocelab vtysh leaf1 -c 'show bgp summary')",
    because="The link between leaf1 and spine1 flaps. Packets queued for it are lost, and its BGP session restarts.",
    fix="Take the link out of service, and replace its optic or cable.",
    prevention="Dampen flapping links, detect them with BFD, and alarm on counts of carrier changes.",
)

SCENARIO = Scenario(
    "link-flap", "incast.yaml", Params, run,
    (the_link_flaps, the_session_flaps, packets_are_retransmitted, stable_again), answer=ANSWER,
)  # fmt: skip
