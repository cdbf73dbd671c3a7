"""Link pause instead of PFC: a slow host asks its switch to stop in a way that no lossless port listens to.

Story
    Given  h4 takes in half of what h1 writes to it, and its NIC pauses leaf1 by PFC: nothing is lost
    When   h4's NIC is set to 802.3x flow control, and sends PAUSE frames (MAC control opcode 0x0001) in place of PFC
    Then   leaf1 counts them and goes on sending: its port has PFC on, and a link has either one or the other
    And    h4's own buffer is full, and its NIC drops packets of the lossless class
    When   the NIC speaks PFC again
    Then   nothing is lost any more

        h1 -- leaf1 --100M--> h4: takes in 50M     <- PAUSE 0x0001, PFC is 0x0101

Numbers
    a PAUSE of 65535 quanta lasts 0.336 s at 100 Mb/s, and one comes every 84 ms: 12 in a second
    where link pause is honoured it is worse: it has no classes, so BGP's and the CNPs' stop too
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, time_of
from lab.scenario.traffic.workload import show_link, show_rdma

LEAF: Final = "leaf1:swp6"
HOST: Final = "h4:eth1"
NIC: Final = ("h4:eth1", "h4:rx-eth1")
EVERY: Final = 65535 * 512 / 100e6 / 4
"""Seconds between two PAUSE frames."""
SETTLING: Final = 3.0
"""Seconds: two timeouts of a QP, and what they send again."""
PHASES: Final = ("baseline", "observe", "verify")


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(1, 60)] = 2.0
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """PFC, PAUSE, PFC."""
    stage.inject("slow-receiver", "h4", rate="50Mbit")
    with stage.writing("h1:h4"):
        with stage.phase("baseline"):
            stage.hold(p.hold)
        with stage.phase("inject"):
            pause = stage.inject("global-pause", "h4")
            silent = stage.inject("port-config", HOST, set="pfc.tx=false")
            stage.hold(0.5)
        with stage.phase("observe"):
            stage.hold(p.hold)
        show_link(stage, HOST)
        show_rdma(stage, "h4")
        stage.linger()
        with stage.phase("fix"):
            stage.heal(silent)
            stage.heal(pause)
            stage.hold(SETTLING)
        with stage.phase("verify"):
            stage.hold(p.hold)


def the_frames_come(rec: Recording, p: Params) -> Verdict:
    """leaf1 counts 802.3x PAUSE frames, as many as are sent, and only while the NIC is set so."""
    came = {phase: rec.delta("rx_global_pause", LEAF, phase) for phase in PHASES}
    sent = rec.phase("observe").seconds / EVERY
    told = ", ".join(f"{count} in {phase}" for phase, count in came.items())
    return expect(
        came["baseline"] == came["verify"] == 0 and abs(came["observe"] - sent) <= 2,
        f"PAUSE frames: {told}; one every {EVERY * 1e3:.0f} ms makes {sent:.1f}",
    )


def nobody_stops(rec: Recording, p: Params) -> Verdict:
    """leaf1 is paused by PFC before and after, and not for a microsecond by PAUSE."""
    paused = {phase: rec.port(LEAF).paused(3).during(phase).delta() / 1e3 for phase in PHASES}
    told = ", ".join(f"{ms:.0f} ms in {phase}" for phase, ms in paused.items())
    return expect(paused["observe"] == 0 < min(paused["baseline"], paused["verify"]), f"leaf1 paused: {told}")


def the_host_loses(rec: Recording, p: Params) -> Verdict:
    """The lossless class loses packets at the NIC, which no switch sees, and nowhere else."""
    at_nic = {phase: sum(rec.port(port).drops(3).during(phase).delta() for port in NIC) for phase in PHASES}
    elsewhere = sum(rec.port(port).drops(3).during("observe").delta() for port in rec.ports if port not in NIC)
    told = ", ".join(f"{count} in {phase}" for phase, count in at_nic.items())
    return expect(
        at_nic["baseline"] == at_nic["verify"] == elsewhere == 0 < at_nic["observe"],
        f"h4's NIC dropped {told}; all others {elsewhere}",
    )


def it_is_as_before(rec: Recording, p: Params) -> Verdict:
    """With PFC at both ends h4 gets what it can take in."""
    before, after = (rec.port(LEAF).tx_bytes(3).during(each).rate() * 8 / 1e6 for each in ("baseline", "verify"))
    return expect(abs(after / before - 1) < 0.02, f"{before:.1f} Mb/s before, {after:.1f} Mb/s after")


ANSWER: Final = StoryAnswer(
    cause="global-pause",
    where=("h4", "h4:eth1"),
    level=2,
    workload="h1 writes to h4, who takes in half of what its link brings",
    hints=(
        "packets of the lossless class are lost, and no switch drops any",
        "h4: its own NIC drops what it has no room for",
        "rx_global_pause and rx_prio3_pause of leaf1:swp6",
        "rocelab capture leaf1:swp6 --seconds 1 -o pause.pcapng, then rocelab dissect",
        "h4 sends MAC control frames of opcode 0x0001, 802.3x PAUSE, where PFC would be 0x0101",
    ),
    sign="a port counts 802.3x PAUSE frames (rx_global_pause) and is not stopped by them",
    because=(
        "h4's NIC is set to 802.3x flow control instead of PFC: a lossless port does not listen to that, "
        "and the NIC overflows."
    ),
    fix="PFC on and link pause off at h4's NIC.",
    prevention="Set flow control of NICs by one tool, on both ends; alarm on any rx_global_pause.",
)

SCENARIO = Scenario(
    "global-pause",
    "incast.yaml",
    Params,
    run,
    (the_frames_come, nobody_stops, the_host_loses, it_is_as_before),
    answer=ANSWER,
)
