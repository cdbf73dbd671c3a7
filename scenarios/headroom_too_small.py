"""Headroom that is too small: the cable is longer than it was worked out for, and full load alone shows it.

Story
    Given  h1, h2 and h3 write to h4, and leaf1 pauses them so that nothing is lost
    When   their cables get longer by 2 ms: a pause takes that long to arrive, and so does what is under way
    Then   one writer alone loses nothing, for nobody has to be paused
    But    three lose packets of the lossless class, for want of headroom
    When   the headroom is worked out again, with the cable as it is
    Then   nothing is lost any more, and the headroom holds more than there was of it before

        h1, h2, h3 --100M, 2 ms-- leaf1 --100M-- h4

Numbers
    headroom = two largest frames and a PFC frame + rate x (2 x delay + reaction), IEEE 802.1Q's annex on PFC buffers
    no delay   18.8 KB: two frames of 9042 bytes, and 50 us of reaction in virtual time
    2 ms       50 KB more: 4 ms at 100 Mb/s
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.model.qos.headroom import headroom_needed
from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, time_of
from lab.scenario.traffic.workload import probe, show_queue

SENDERS: Final = ("h1", "h2", "h3")
INPUTS: Final = ("leaf1:swp3", "leaf1:swp4", "leaf1:swp5")
QUEUE: Final = "leaf1:swp6"
LOADS: Final = ("baseline", "alone", "observe", "verify")
SETTLING: Final = 3.0
"""Seconds: two timeouts of a QP, and what they send again."""


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(1, 60)] = 2.0
    """How long each phase lasts."""
    delay: Annotated[float, time_of(1e-3, 10e-3)] = 2e-3
    """How much longer the cables take, one way."""


def run(stage: Stage, p: Params) -> None:
    """Short cables, long ones with little load and with all of it, headroom for long ones."""
    with stage.writing(*(f"{host}:h4" for host in SENDERS)), stage.phase("baseline"):
        stage.hold(p.hold)
    with stage.phase("inject"):
        for host in SENDERS:
            stage.inject("link-delay", f"{host}--leaf1", delay=f"{p.delay * 1e6:.0f}us")
    with stage.writing("h1:h4"), stage.phase("alone"):
        stage.hold(p.hold)
    with stage.writing(*(f"{host}:h4" for host in SENDERS)):
        with stage.phase("observe"):
            stage.hold(p.hold)
        show_queue(stage, QUEUE)
        probe(stage, "h1", "h2", count=3)
        stage.linger()
        with stage.phase("fix"):
            port = stage.fabric.qos["leaf1"].ports["swp3"]
            enough = headroom_needed(port.rate, port.mtu, p.delay, port.reaction)
            stage.set(",".join(INPUTS), f"buffer.groups.3.headroom={enough}")
            stage.hold(SETTLING)
        with stage.phase("verify"):
            stage.hold(p.hold)


def losses(rec: Recording) -> dict[str, int]:
    """Packets that leaf1 dropped because the headroom was full, by phase."""
    return {phase: rec.port(QUEUE).drops(3, "headroom").during(phase).delta() for phase in LOADS}


def full_load_loses(rec: Recording, p: Params) -> Verdict:
    """Long cables lose packets once leaf1 has to pause, and neither before nor while one writes alone."""
    lost = losses(rec)
    asked = rec.port(INPUTS[0]).tx_pause(3).during("alone").delta()
    told = ", ".join(f"{count} in {phase}" for phase, count in lost.items())
    return expect(
        lost["observe"] > 0 == lost["baseline"] == lost["alone"] == asked, f"dropped for want of headroom: {told}"
    )


def there_was_no_room_where_they_came_in(rec: Recording, p: Params) -> Verdict:
    """What the queue to h4 lost is what the groups of the three ports had no room for, to a packet."""
    lost = losses(rec)["observe"]
    groups = {port: rec.delta("pg3_drop_packets", port, "observe") for port in INPUTS}
    told = ", ".join(f"{port} {count}" for port, count in groups.items())
    return expect(sum(groups.values()) == lost > 0, f"{lost} packets dropped; had no room: {told}")


def enough_is_what_the_arithmetic_says(rec: Recording, p: Params) -> Verdict:
    """With headroom for the cable as it is nothing is lost, and more is taken up than there was before."""
    port = rec.qos()["leaf1"].ports["swp3"]
    small, enough = port.groups[3].headroom, headroom_needed(port.rate, port.mtu, p.delay, port.reaction)
    most = max(rec.port(each).counter("pg3_headroom_bytes").during("verify").max for each in INPUTS)
    lost = losses(rec)["verify"]
    told = f"{lost} packets lost with {enough} bytes, of which {most} were seen taken; before there were {small}"
    return expect(lost == 0 and small < most <= enough, told)


ANSWER: Final = StoryAnswer(
    cause="headroom-too-small",
    where=("leaf1", "leaf1:swp3", "leaf1:swp4", "leaf1:swp5", "h1--leaf1", "h2--leaf1", "h3--leaf1"),
    level=2,
    workload="h1, h2 and h3 write to h4",
    hints=(
        "the lossless class loses packets, though leaf1 pauses its hosts and they obey",
        "leaf1, where the three come in: leaf1:swp3 to swp5",
        "pg3_drop_packets of leaf1:swp3, and queue3_drop_headroom_packets of leaf1:swp6",
        "rocelab exec h1 -- ping -c 3 10.0.0.3, and rocelab qos show leaf1:swp3",
        "a cable of 2 ms: 4 ms at 100 Mb/s are 50 KB on the way when a pause is sent, and the headroom holds 19",
    ),
    sign="pauses are sent and obeyed, and still a port has no room: its cable takes milliseconds (ping a neighbour)",
    because=(
        "leaf1's headroom was worked out for short cables; these take 2 ms, and what is under way at a "
        "pause does not fit."
    ),
    fix="Work it out again for the cable as it is: two frames and rate x (2 x delay + reaction).",
    prevention=(
        "Measure cables when they are laid and work headroom out of that; alarm on any drop of the lossless class."
    ),
)

SCENARIO = Scenario(
    "headroom-too-small", "incast.yaml", Params, run,
    (full_load_loses, there_was_no_room_where_they_came_in, enough_is_what_the_arithmetic_says),
    answer=ANSWER,
)  # fmt: skip
