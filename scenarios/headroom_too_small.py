"""Headroom that is too small: the cables are longer than planned for, and only full load shows it.

Story
    Given  h1, h2 and h3 write to h4, and leaf1 pauses them so that nothing is lost
    When   their cables get longer by 2 ms: a pause takes that long to arrive, and so do the packets in flight
    Then   one writer alone loses nothing, because leaf1 has no reason to pause it
    But    three writers lose packets of the lossless class, because the headroom is full
    When   the headroom is computed again for the real cables
    Then   nothing is lost, and more headroom is used than was configured before

        h1, h2, h3 --100M, 2 ms-- leaf1 --100M-- h4

Numbers
    headroom = two largest frames and a PFC frame + rate x (2 x delay + reaction), IEEE 802.1Q's annex on PFC buffers
    no delay   18.8 KB: two frames of 9042 bytes, and 50 us of reaction in virtual time
    2 ms       50 KB more: 4 ms at 100 Mb/s
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.model.qos.headroom import headroom_needed
from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words, time_of
from lab.scenario.phase_measures import growth, listed
from lab.scenario.three_acts import PhaseParameters
from lab.scenario.traffic.patterns import incast
from lab.scenario.traffic.workload import probe, show_queue

SENDERS: Final = ("h1", "h2", "h3")
RECEIVER: Final = "h4"
INPUTS: Final = ("leaf1:swp3", "leaf1:swp4", "leaf1:swp5")
QUEUE: Final = "leaf1:swp6"
LOADS: Final = ("baseline", "alone", "observe", "verify")
SETTLING: Final = 3.0
"""Seconds: two ACK timeouts of a QP, and the retransmissions after them."""


class Params(PhaseParameters):
    """The length of the cables."""

    delay: Annotated[float, time_of(1e-3, 10e-3)] = 2e-3
    """How much longer the cables get, as one-way delay."""


def run(stage: Stage, p: Params) -> None:
    """Short cables, long cables with one writer and with three, headroom for long cables."""
    writers = incast(SENDERS, RECEIVER)
    with stage.writing(*writers):
        stage.measure("baseline", p.hold)
    with stage.phase("inject"):
        for host in SENDERS:
            stage.inject("link-delay", f"{host}--leaf1", delay=f"{p.delay * 1e6:.0f}us")
    with stage.writing(writers[0]):
        stage.measure("alone", p.hold)
    with stage.writing(*writers):
        stage.measure("observe", p.hold)
        show_queue(stage, QUEUE)
        probe(stage, "h1", "h2", count=3)
        stage.linger()
        with stage.phase("fix"):
            port = stage.fabric.qos["leaf1"].ports["swp3"]
            enough = headroom_needed(port.rate, port.mtu, p.delay, port.reaction)
            stage.set(",".join(INPUTS), f"buffer.groups.3.headroom={enough}")
            stage.hold(SETTLING)
        stage.measure("verify", p.hold)


def losses(rec: Recording) -> list[int]:
    """Return how many packets leaf1 dropped in each phase because the headroom was full."""
    return growth(rec, QUEUE, "queue3_drop_headroom_packets", LOADS)


def full_load_loses(rec: Recording, p: Params) -> Verdict:
    """Long cables lose packets when leaf1 has to pause three writers. One writer alone is not paused."""
    before, alone, during, _ = lost = losses(rec)
    pauses = rec.port(INPUTS[0]).tx_pause(3).during("alone").delta()
    evidence = f"packets dropped because the headroom was full: {listed(lost, LOADS)}"
    return expect(during > 0 == before == alone == pauses, evidence)


def the_inputs_count_the_drops(rec: Recording, p: Params) -> Verdict:
    """The drops of the queue to h4 equal those of the three input ports' priority groups."""
    lost = losses(rec)[2]
    groups = {port: rec.delta("pg3_drop_packets", port, "observe") for port in INPUTS}
    return expect(sum(groups.values()) == lost > 0, f"{lost} packets dropped; by input: {in_words(groups)}")


def computed_headroom_suffices(rec: Recording, p: Params) -> Verdict:
    """With headroom for the real cables nothing is lost, and more of it is used than was configured before."""
    port = rec.qos()["leaf1"].ports["swp3"]
    small, enough = port.groups[3].headroom, headroom_needed(port.rate, port.mtu, p.delay, port.reaction)
    most = max(rec.port(each).counter("pg3_headroom_bytes").during("verify").max for each in INPUTS)
    lost = losses(rec)[-1]
    evidence = f"{lost} packets lost; {most} of {enough} bytes used, {small} configured before"
    return expect(lost == 0 and small < most <= enough, evidence)


ANSWER: Final = StoryAnswer(
    cause="headroom-too-small",
    where=("leaf1", "leaf1:swp3", "leaf1:swp4", "leaf1:swp5", "h1--leaf1", "h2--leaf1", "h3--leaf1"),
    level=2,
    workload="h1, h2 and h3 write to h4",
    hints=(
        "the lossless class loses packets, although leaf1 pauses its hosts and they obey",
        "leaf1, at the three input ports leaf1:swp3 to swp5",
        "pg3_drop_packets of leaf1:swp3, and queue3_drop_headroom_packets of leaf1:swp6",
        "rocelab exec h1 -- ping -c 3 10.0.0.3, and rocelab qos show leaf1:swp3",
        "a cable of 2 ms: 4 ms at 100 Mb/s are 50 KB in flight after a pause, and the headroom holds 19 KB",
    ),
    sign="hosts obey pauses, and a port still drops for lack of headroom: its cable takes milliseconds (ping)",
    because="leaf1's headroom fits short cables. These take 2 ms, and the packets in flight at a pause do not fit.",
    fix="Compute the headroom for the real cable: two frames and rate x (2 x delay + reaction).",
    prevention="Measure cables when they are installed, and derive headroom; alarm on drops of the lossless class.",
)

SCENARIO = Scenario(
    "headroom-too-small", "incast.yaml", Params, run,
    (full_load_loses, the_inputs_count_the_drops, computed_headroom_suffices), answer=ANSWER,
)  # fmt: skip
