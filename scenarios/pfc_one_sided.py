"""PFC on one side only: the switch pauses, the hosts go on, and the lossless class loses packets.

Story
    Given  h1, h2 and h3 write to h4, and leaf1 pauses them so that nothing is lost
    When   PFC is off at the hosts: their NICs do not obey
    Then   leaf1 asks as before, nobody stops, the headroom fills, and packets are dropped for want of room
    And    every loss makes a QP go back, or wait for its timeout: how much gets through depends on which it is
    When   PFC is on at both ends
    Then   nothing is lost any more

        h1, h2, h3 --100M each, deaf-- leaf1 --100M-- h4

Numbers
    three offer 200 Mb/s more than h4's link takes: 25 MB/s, which fill any headroom in milliseconds
    SoftRoCE waits 1.07 s for an ACK before it sends again: a QP that lost its last packet stands still for that long
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words, time_of
from lab.scenario.traffic.workload import show_queue, show_rdma

SENDERS: Final = ("h1", "h2", "h3")
INPUTS: Final = ("leaf1:swp3", "leaf1:swp4", "leaf1:swp5")
QUEUE: Final = "leaf1:swp6"
PHASES: Final = ("baseline", "observe", "verify")
LAST_PAUSE: Final = 0.5
"""Seconds: what paused a host before it went deaf runs out after 0.34 s."""
SETTLING: Final = 3.0
"""Seconds: two timeouts of a QP, and what they send again."""


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(1, 60)] = 2.0
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """Obeyed, ignored, obeyed."""
    with stage.writing(*(f"{host}:h4" for host in SENDERS), qps=4):
        with stage.phase("baseline"):
            stage.hold(p.hold)
        with stage.phase("inject"):
            deaf = [stage.inject("pauses-ignored", host) for host in SENDERS]
            stage.hold(LAST_PAUSE)
        with stage.phase("observe"):
            stage.hold(p.hold)
        show_queue(stage, QUEUE)
        show_rdma(stage, "h4")
        stage.linger()
        with stage.phase("fix"):
            for entry in deaf:
                stage.heal(entry)
            stage.hold(SETTLING)
        with stage.phase("verify"):
            stage.hold(p.hold)


def the_switch_asks_and_nobody_stops(rec: Recording, p: Params) -> Verdict:
    """leaf1 sends pauses, the hosts count them as ignored, and none is paused for a microsecond."""
    asked = [rec.port(port).tx_pause(3).during("observe").delta() for port in INPUTS]
    ignored = [rec.delta("rx_prio3_pause_ignored", f"{host}:eth1", "observe") for host in SENDERS]
    paused = sum(rec.port(f"{host}:eth1").paused(3).during("observe").delta() for host in SENDERS)
    return expect(
        sum(asked) > 0 and sum(ignored) > 0 == paused,
        f"pauses sent {in_words(asked)}, ignored {in_words(ignored)}, hosts paused for {paused} us",
    )


def the_lossless_class_loses(rec: Recording, p: Params) -> Verdict:
    """More was sent after the pause than the headroom holds, and only while pauses are ignored."""
    lost = {phase: rec.port(QUEUE).drops(3, "headroom").during(phase).delta() for phase in PHASES}
    sent = rec.delta("queue3_drop_headroom_bytes", QUEUE, "observe")
    told = ", ".join(f"{count} in {phase}" for phase, count in lost.items())
    return expect(
        lost["observe"] > 0 == lost["baseline"] == lost["verify"],
        f"dropped for want of headroom: {told}; {sent} bytes were sent in spite of a pause and found no room",
    )


def packets_are_out_of_sequence(rec: Recording, p: Params) -> Verdict:
    """The receiver's NIC misses what was dropped, and its senders go back; before and after it misses nothing."""
    missed = {phase: rec.rdma("h4").counter("out_of_seq_request").during(phase).delta() for phase in PHASES}
    told = ", ".join(f"{count} in {phase}" for phase, count in missed.items())
    return expect(missed["observe"] > 0 == missed["baseline"] == missed["verify"], f"out_of_seq_request: {told}")


def rate_recovers(rec: Recording, p: Params) -> Verdict:
    """With PFC at both ends the link is full again."""
    before, after = (rec.port(QUEUE).tx_bytes(3).during(each).rate() * 8 / 1e6 for each in ("baseline", "verify"))
    return expect(after > 0.95 * before, f"{before:.1f} Mb/s before, {after:.1f} Mb/s after")


ANSWER: Final = StoryAnswer(
    cause="pfc-one-sided",
    where=("h1", "h2", "h3", "h1:eth1", "h2:eth1", "h3:eth1"),
    level=1,
    workload="h1, h2 and h3 write to h4 with four QPs each",
    hints=(
        "the lossless class loses packets, and h4 gets a fraction of what its link carries",
        "h1, h2 and h3: leaf1 asks them to stop, and they do not",
        "rx_prio3_pause_ignored of h1:eth1, and rx_prio3_pause_duration, which stands at nothing",
        "rocelab qos show h1, or rocelab counters h1 leaf1:swp3 --priority 3",
        "pauses come and are ignored: PFC is off at the hosts' end",
    ),
    sign="hosts count pauses as ignored (rx_prio3_pause_ignored)",
    because="PFC is off at h1, h2 and h3: leaf1 pauses them, they go on, and what finds no headroom is dropped.",
    fix="PFC on at both ends: rocelab qos set h1 h2 h3 pfc.rx=true.",
    prevention="Negotiate or check PFC on both ends of each link (DCBX); alarm on any drop of the lossless class.",
)

SCENARIO = Scenario(
    "pfc-one-sided", "incast.yaml", Params, run,
    (the_switch_asks_and_nobody_stops, the_lossless_class_loses, packets_are_out_of_sequence,
     rate_recovers),
    answer=ANSWER,
)  # fmt: skip
