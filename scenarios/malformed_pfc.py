"""Malformed PFC: a NIC sends malformed pause frames, and one kind of them pauses its switch nevertheless.

Story
    Given  h1 writes to h4 at the link's rate
    When   h4 sends PFC frames to a unicast address, or with an unknown MAC control opcode
    Then   leaf1 counts them as invalid, and continues to send
    When   h4 sends frames with times for priority 3, and enables no priority
    Then   leaf1 counts them as PFC frames, and continues to send: the vector selects the priorities
    When   h4 sends frames that enable priority 3, with reserved bits of the vector set
    Then   leaf1 stops: a receiver ignores reserved bits and obeys the rest of the frame
    When   h4's firmware is repaired
    Then   the rate is as before

        h1 -- leaf1 --100M--> h4     <- 0x8808, malformed in four ways

Numbers
    the vector has 16 bits, and the upper 8 are reserved: 0xff08 is priority 3 (IEEE 802.1Q clause 36, 802.3 31D)
    each frame asks for 65535 quanta, 0.336 s at 100 Mb/s, and one comes every 84 ms: an obeyed pause never expires
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect, time_of
from lab.scenario.phase_measures import mbits, paused_share
from lab.scenario.shared_checks import rate_recovers
from lab.scenario.three_acts import PhaseParameters
from lab.scenario.traffic.workload import show_pauses

LEAF: Final = "leaf1:swp6"
INVALID: Final = ("address", "opcode")
HARMLESS: Final = (*INVALID, "no-class")
STOPS: Final = "vector"
EVERY: Final = 65535 * 512 / 100e6 / 4
"""Seconds between two frames."""
SETTLING: Final = 1.5
"""Seconds: the last pause of 0.34 s, and the QP's ACK timeout of 1.07 s."""


class Params(PhaseParameters):
    """Shorter phases, because there is one for each kind of frame."""

    hold: Annotated[float, time_of(1, 60)] = 1.0
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """Healthy, malformed in four ways one after the other, repaired."""
    with stage.writing("h1:h4"):
        stage.measure("baseline", p.hold)
        for what in (*HARMLESS, STOPS):
            malformed = stage.inject("malformed-pfc", "h4", what=what)
            stage.measure(what, p.hold)
            show_pauses(stage, LEAF, count=1)
            if what == STOPS:
                stage.linger()
            stage.heal(malformed)
        stage.measure("fix", SETTLING)
        stage.measure("verify", p.hold)


def _counted(rec: Recording, counter: str, phase: str) -> tuple[int, float]:
    """Return a counter's growth at leaf1's port, and how many frames were sent in the phase."""
    return rec.delta(counter, LEAF, phase), rec.phase(phase).seconds / EVERY


def invalid_frames_are_counted(rec: Recording, p: Params) -> Verdict:
    """Each frame with a wrong address or opcode is counted as invalid, and none of them as PFC."""
    counts = {what: _counted(rec, "rx_pfc_invalid", what) for what in INVALID}
    as_pfc = sum(rec.delta("rx_pfc", LEAF, what) for what in INVALID)
    evidence = ", ".join(f"{what} {count} of {sent:.1f}" for what, (count, sent) in counts.items())
    right = as_pfc == 0 and all(abs(count - sent) <= 2 for count, sent in counts.values())
    return expect(right, f"counted as invalid: {evidence}; as PFC: {as_pfc}")


def a_frame_without_priorities_is_pfc(rec: Recording, p: Params) -> Verdict:
    """Frames that enable no priority are counted as PFC frames, and none as invalid."""
    count, sent = _counted(rec, "rx_pfc", "no-class")
    invalid = rec.delta("rx_pfc_invalid", LEAF, "no-class")
    evidence = f"{count} of {sent:.1f} counted as PFC, {invalid} as invalid"
    return expect(invalid == 0 and abs(count - sent) <= 2, evidence)


def three_kinds_pause_nothing(rec: Recording, p: Params) -> Verdict:
    """leaf1 is not paused at all, and h4 receives as much as before."""
    paused = max(paused_share(rec, what, LEAF) for what in HARMLESS)
    rates = {what: mbits(rec, LEAF, what) for what in ("baseline", *HARMLESS)}
    evidence = ", ".join(f"{what} {each:.1f} Mb/s" for what, each in rates.items())
    right = paused == 0 and min(rates.values()) > 0.98 * rates["baseline"] > 0
    return expect(right, f"paused {paused:.1%} of the time; {evidence}")


def reserved_bits_are_ignored(rec: Recording, p: Params) -> Verdict:
    """Frames with reserved bits in the vector pause priority 3 all the time, and none is invalid."""
    share, invalid = paused_share(rec, STOPS, LEAF), rec.delta("rx_pfc_invalid", LEAF, STOPS)
    before, during = (mbits(rec, LEAF, phase) for phase in ("baseline", STOPS))
    evidence = f"paused {share:.0%} of the time, {during:.1f} Mb/s; {invalid} counted as invalid"
    return expect(share > 0.99 and invalid == 0 and during < 0.01 * before, evidence)


ANSWER: Final = StoryAnswer(
    cause="malformed-pfc",
    where=("h4", "h4:eth1"),
    level=3,
    workload="h1 writes to h4",
    hints=(
        "no write from h1 to h4 completes",
        "leaf1:swp6: h4 pauses it all the time",
        "rx_prio3_pause_duration and rx_pfc_invalid of leaf1:swp6",
        "rocelab capture leaf1:swp6 --seconds 1 -o pfc.pcapng, then rocelab dissect",
        "frames of opcode 0x0101 with a class vector of 0xff08: reserved bits are set, and priority 3 stops",
    ),
    sign="a capture shows malformed PFC frames: reserved bits of the class vector are set",
    because="h4's firmware sends PFC frames with reserved bits set. A receiver ignores them and obeys the rest.",
    fix="Repair or replace the firmware of h4's NIC; until then a watchdog on leaf1:swp6 contains the pauses.",
    prevention="Use a PFC watchdog on every host port; test a firmware's pause frames before its rollout.",
)

SCENARIO = Scenario(
    "malformed-pfc", "incast.yaml", Params, run,
    (invalid_frames_are_counted, a_frame_without_priorities_is_pfc, three_kinds_pause_nothing,
     reserved_bits_are_ignored, rate_recovers(LEAF)), answer=ANSWER,
)  # fmt: skip
