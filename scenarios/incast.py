"""Incast: three hosts write to a fourth, and PFC has to stop them, for nothing may be lost.

Story
    Given  a lossless fabric, with ECN and PFC on priority 3
    When   h1 writes to h4 alone
    Then   nothing is marked: the queue never reaches Kmin
    When   h2 and h3 join in
    Then   leaf1 marks above Kmin and pauses all three, each gets a third, and nothing is lost
    And    what each of them has to send takes three times as long as it takes one alone

        h1 --100M--+
        h2 --100M--+ leaf1 --100M-- h4      <- the queue is leaf1:swp6's, the pauses are leaf1:swp3 to swp5's
        h3 --100M--+

Numbers
    three offer 300 Mb/s to a link of 100: 200 Mb/s too much, 25 MB/s. From an empty queue that is
    Kmin   40 KB after 1.6 ms, Kmax 160 KB after 6.4 ms, and 118 KB for each port, its share of the pool, after 14 ms
    SoftRoCE does not slow down for marks, so it is PFC that divides the link: by port, so each host gets 33 Mb/s
    100 messages of 64 KiB are 6.55 MB: 0.535 s at the 98 Mb/s of payload that a link carries, 1.605 s for three
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import (
    Parameters,
    Recording,
    Scenario,
    Stage,
    StoryAnswer,
    Verdict,
    between,
    expect,
    time_of,
    unknown,
)
from lab.scenario.traffic import patterns
from lab.scenario.traffic.finite_transfers import transfer
from lab.scenario.traffic.workload import show_link, show_queue

SENDERS: Final = ("h1", "h2", "h3")
RECEIVER: Final = "h4"
QUEUE: Final = "leaf1:swp6"
INPUTS: Final = ("leaf1:swp3", "leaf1:swp4", "leaf1:swp5")
RATE: Final = 100e6
LEAST_SHARE: Final = 0.9
"""Of the link in payload: 9000-byte frames leave 98% to RDMA, and beginnings and ends are in the phase."""
BLUR: Final = 0.05
"""Of how long a job takes: when it begins is seen 20 ms late at most, and ends are apart by a message of each."""


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(0.5, 60)] = 2.0
    """How long the two phases of endless traffic last."""
    messages: Annotated[int, between(20, 10_000)] = 100
    """How many of 64 KiB a host has to send, where what is asked is how long that takes."""


def run(stage: Stage, p: Params) -> None:
    """One, then three: what comes to an end, and what does not."""
    writers = patterns.incast(SENDERS, RECEIVER)
    with stage.phase("job-alone"):
        transfer(stage, writers[0], messages=p.messages)
    with stage.phase("job-incast"):
        transfer(stage, *writers, messages=p.messages)
    with stage.writing(writers[0]), stage.phase("alone"):
        stage.hold(p.hold)
    with stage.writing(*writers):
        with stage.phase("incast"):
            stage.hold(p.hold)
        show_queue(stage, QUEUE)
        show_link(stage, QUEUE)
        stage.linger()


def quiet_alone(rec: Recording, p: Params) -> Verdict:
    """One writer fills its own link and no queue: nothing is marked or paused."""
    marked = rec.port(QUEUE).marked(3).during("alone").delta()
    paused = sum(rec.port(port).tx_pause(3).during("alone").delta() for port in INPUTS)
    return expect(marked == paused == 0, f"{marked} packets marked, {paused} pauses sent")


def marks_and_pauses(rec: Recording, p: Params) -> Verdict:
    """With three the queue passes Kmin and every sender is paused."""
    marked = rec.port(QUEUE).marked(3).during("incast").delta()
    paused = {port: rec.port(port).tx_pause(3).during("incast").delta() for port in INPUTS}
    told = ", ".join(f"{port} {count}" for port, count in paused.items())
    return expect(marked > 0 and all(paused.values()), f"{marked} packets marked; pauses sent: {told}")


def lossless(rec: Recording, p: Params) -> Verdict:
    """No port drops anything of the lossless class."""
    lost = {port: rec.port(port).drops(3).during("incast").delta() for port in rec.ports}
    return expect(not any(lost.values()), f"{sum(lost.values())} packets dropped at {len(lost)} ports")


def the_link_is_full(rec: Recording, p: Params) -> Verdict:
    """The receiver's link carries what it can."""
    rate = rec.port(QUEUE).tx_bytes(3).during("incast").rate() * 8
    return expect(rate > LEAST_SHARE * RATE, f"{rate / 1e6:.1f} Mb/s of {RATE / 1e6:.0f}")


def fair(rec: Recording, p: Params) -> Verdict:
    """PFC divides by port: each host gets the same (Jain's index of their rates)."""
    rates = [rec.port(f"{host}:eth1").tx_bytes(3).during("incast").rate() for host in SENDERS]
    index = sum(rates) ** 2 / (len(rates) * sum(rate**2 for rate in rates)) if any(rates) else 0.0
    shares = ", ".join(f"{host} {rate * 8 / 1e6:.1f} Mb/s" for host, rate in zip(SENDERS, rates, strict=True))
    return expect(index > 0.98, f"Jain's index {index:.3f}: {shares}")


def three_take_three_times_as_long(rec: Recording, p: Params) -> Verdict:
    """The link that all share carries what each has to send, one after the other or by turns."""
    alone, three = rec.transfers("job-alone"), rec.transfers("job-incast")
    if len(alone) != 1 or len(three) != len(SENDERS):
        return unknown(f"{len(alone)} and {len(three)} transfers came to an end")
    lasted = (max(each.end_ns for each in three) - min(each.ns for each in three)) / 1e9
    times = lasted / alone[0].seconds
    right = abs(times / len(SENDERS) - 1) < BLUR
    return expect(right, f"{alone[0].seconds:.3f} s alone, {lasted:.3f} s for all: {times:.2f} times")


ANSWER: Final = StoryAnswer(
    cause="capacity",
    where=("leaf1:swp6", "h4", "leaf1"),
    level=1,
    workload="h1, h2 and h3 write to h4",
    hints=(
        "three hosts get a third of their links each, and are paused",
        "h4's link, which all three share: leaf1:swp6",
        "tx_prio3_bytes and queue3_ecn_marked of leaf1:swp6, tx_prio3_pause of leaf1:swp3 to swp5",
        "rocelab congestion",
        "one full link, shared fairly, and nothing lost: there is nothing to mend, only too little of it",
    ),
    sign=(
        "whoever is slow shares one full link in equal parts, and no device differs from its siblings "
        "(rocelab counters)"
    ),
    because=(
        "Three links write into one: h4's link is full, ECN marks, PFC stops the hosts, and each has its "
        "third. No fault."
    ),
    fix="Nothing to mend: fewer senders at a time, a faster link, or a congestion control that heeds the marks.",
    prevention=(
        "Plan receivers' links for the patterns of the job; schedule incasts apart; admit no more than "
        "the link carries."
    ),
)

SCENARIO = Scenario(
    "incast",
    "incast.yaml",
    Params,
    run,
    (quiet_alone, marks_and_pauses, lossless, the_link_is_full, fair, three_take_three_times_as_long),
    captures=("h4:eth1",),
    answer=ANSWER,
)
