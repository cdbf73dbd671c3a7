"""Incast: three hosts write to a fourth, and PFC pauses them so that nothing is lost.

Story
    Given  a lossless fabric, with ECN and PFC on priority 3
    When   h1 writes to h4 alone
    Then   no packet is marked, because the queue never reaches Kmin
    When   h2 and h3 also write to h4
    Then   leaf1 marks packets above Kmin and pauses all three, each gets a third, and nothing is lost
    And    a transfer of each host takes three times as long as one host's transfer alone

        h1 --100M--+
        h2 --100M--+ leaf1 --100M-- h4      <- the queue is at leaf1:swp6, the pauses at leaf1:swp3 to swp5
        h3 --100M--+

Numbers
    three hosts offer 300 Mb/s to a link of 100: the queue grows by 200 Mb/s, 25 MB/s. From an empty queue it reaches
    Kmin (40 KB) after 1.6 ms, Kmax (160 KB) after 6.4 ms, and each port's share of the pool (118 KB) after 14 ms
    SoftRoCE does not slow down for marks, so PFC divides the link: by port, so each host gets 33 Mb/s
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
    in_words,
    time_of,
    unknown,
)
from lab.scenario.phase_measures import dropped, growth, jain, mbits
from lab.scenario.traffic import patterns
from lab.scenario.traffic.finite_transfers import transfer
from lab.scenario.traffic.workload import show_link, show_queue

SENDERS: Final = ("h1", "h2", "h3")
RECEIVER: Final = "h4"
QUEUE: Final = "leaf1:swp6"
INPUTS: Final = ("leaf1:swp3", "leaf1:swp4", "leaf1:swp5")
RATE: Final = 100
"""Mb/s of a link."""
LEAST_SHARE: Final = 0.9
"""The least share of the link for payload: 9000-byte frames leave 98%, and transfers begin and end in the phase."""
TOLERANCE: Final = 0.05
"""Of a transfer's duration: starts are seen up to 20 ms late, and ends differ by a message of each host."""


class Params(Parameters):
    """The length of transfers."""

    hold: Annotated[float, time_of(0.5, 60)] = 2.0
    """How long the two phases of continuous traffic last."""
    messages: Annotated[int, between(20, 10_000)] = 100
    """The number of 64 KiB messages in each host's finite transfer."""


def run(stage: Stage, p: Params) -> None:
    """One host, then three: finite transfers, and continuous ones."""
    writers = patterns.incast(SENDERS, RECEIVER)
    with stage.phase("job-alone"):
        transfer(stage, writers[0], messages=p.messages)
    with stage.phase("job-incast"):
        transfer(stage, *writers, messages=p.messages)
    with stage.writing(writers[0]):
        stage.measure("alone", p.hold)
    with stage.writing(*writers):
        stage.measure("incast", p.hold)
        show_queue(stage, QUEUE)
        show_link(stage, QUEUE)
        stage.linger()


def quiet_alone(rec: Recording, p: Params) -> Verdict:
    """One writer fills its link, and no packet is marked and no pause is sent."""
    (marked,) = growth(rec, QUEUE, "queue3_ecn_marked", ["alone"])
    (paused,) = growth(rec, INPUTS, "tx_prio3_pause", ["alone"])
    return expect(marked == paused == 0, f"{marked} packets marked, {paused} pauses sent")


def marks_and_pauses(rec: Recording, p: Params) -> Verdict:
    """With three writers the queue exceeds Kmin, and every writer is paused."""
    marked = rec.port(QUEUE).marked(3).during("incast").delta()
    paused = {port: rec.port(port).tx_pause(3).during("incast").delta() for port in INPUTS}
    return expect(marked > 0 and all(paused.values()), f"{marked} packets marked; pauses sent: {in_words(paused)}")


def lossless(rec: Recording, p: Params) -> Verdict:
    """No port drops a packet of the lossless class."""
    lost = dropped(rec, "incast")
    return expect(lost == 0, f"{lost} packets dropped at {len(rec.ports)} ports")


def the_link_is_full(rec: Recording, p: Params) -> Verdict:
    """The receiver's link is fully used."""
    rate = mbits(rec, QUEUE, "incast")
    return expect(rate > LEAST_SHARE * RATE, f"{rate:.1f} Mb/s of {RATE}")


def fair(rec: Recording, p: Params) -> Verdict:
    """PFC divides the link by port: each host gets the same (Jain's index of their rates)."""
    rates = {host: mbits(rec, f"{host}:eth1", "incast") for host in SENDERS}
    index = jain(list(rates.values()))
    evidence = ", ".join(f"{host} {rate:.1f} Mb/s" for host, rate in rates.items())
    return expect(index > 0.98, f"Jain's index {index:.3f}: {evidence}")


def three_take_three_times_as_long(rec: Recording, p: Params) -> Verdict:
    """The shared link carries all transfers in the sum of their times."""
    alone, three = rec.transfers("job-alone"), rec.transfers("job-incast")
    if len(alone) != 1 or len(three) != len(SENDERS):
        return unknown(f"{len(alone)} and {len(three)} transfers completed")
    lasted = (max(each.end_ns for each in three) - min(each.ns for each in three)) / 1e9
    times = lasted / alone[0].seconds
    right = abs(times / len(SENDERS) - 1) < TOLERANCE
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
        "one full link, shared fairly, and nothing lost: no fault, only too little capacity",
    ),
    sign="all slow flows share one full link in equal parts, and no device differs from others (rocelab counters)",
    because="Three links write into one. h4's link is full, PFC pauses the hosts, and each gets a third: no fault.",
    fix="Repair nothing: use fewer senders at a time, a faster link, or congestion control that reacts to marks.",
    prevention="Size receivers' links for the job's patterns, and schedule incasts at different times.",
)

SCENARIO = Scenario(
    "incast", "incast.yaml", Params, run,
    (quiet_alone, marks_and_pauses, lossless, the_link_is_full, fair, three_take_three_times_as_long),
    captures=("h4:eth1",), answer=ANSWER,
)  # fmt: skip
