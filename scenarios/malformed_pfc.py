"""Malformed PFC: a NIC sends pause frames that are wrong, and one kind of them stops its switch all the same.

Story
    Given  h1 writes to h4 as fast as the link carries
    When   h4 sends PFC frames to a unicast address, or with an opcode that MAC control has not
    Then   leaf1 counts them as invalid, and goes on
    When   h4 sends frames with times for priority 3, and enables no priority
    Then   leaf1 takes them for PFC frames, which they are, and goes on: the vector says whom they are for
    When   h4 sends frames that enable priority 3, with reserved bits of the vector set
    Then   leaf1 stops: reserved bits are ignored, and the rest of the frame is as good as any
    When   h4's firmware is mended
    Then   everything goes on as before

        h1 -- leaf1 --100M--> h4     <- 0x8808, wrong in four ways

Numbers
    the vector has 16 bits, of which the upper 8 are reserved: 0xff08 is priority 3 (IEEE 802.1Q clause 36, 802.3 31D)
    each asks for 65535 quanta, 0.336 s at 100 Mb/s, and one comes every 84 ms: a pause that is obeyed never runs out
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, time_of
from lab.scenario.traffic.workload import show_pauses

LEAF: Final = "leaf1:swp6"
INVALID: Final = ("address", "opcode")
HARMLESS: Final = (*INVALID, "no-class")
STOPS: Final = "vector"
EVERY: Final = 65535 * 512 / 100e6 / 4
"""Seconds between two frames."""
SETTLING: Final = 1.5
"""Seconds: the last pause of 0.34 s, and a QP's timeout of 1.07 s."""


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(1, 60)] = 1.0
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """Healthy, wrong in four ways one after the other, mended."""
    with stage.writing("h1:h4"):
        with stage.phase("baseline"):
            stage.hold(p.hold)
        for what in (*HARMLESS, STOPS):
            wrong = stage.inject("malformed-pfc", "h4", what=what)
            with stage.phase(what):
                stage.hold(p.hold)
            show_pauses(stage, LEAF, count=1)
            if what == STOPS:
                stage.linger()
            stage.heal(wrong)
        with stage.phase("fix"):
            stage.hold(SETTLING)
        with stage.phase("verify"):
            stage.hold(p.hold)


def counted(rec: Recording, counter: str, phase: str) -> tuple[int, float]:
    """By how much a counter of leaf1's port grew, and how many frames were sent meanwhile."""
    return rec.delta(counter, LEAF, phase), rec.phase(phase).seconds / EVERY


def rate(rec: Recording, phase: str) -> float:
    """What leaf1 sends to h4, in Mb/s."""
    return rec.port(LEAF).tx_bytes(3).during(phase).rate() * 8 / 1e6


def invalid_ones_are_counted(rec: Recording, p: Params) -> Verdict:
    """Each frame with a wrong address or opcode is counted as invalid, and none of them as PFC."""
    came = {what: counted(rec, "rx_pfc_invalid", what) for what in INVALID}
    taken = sum(rec.delta("rx_pfc", LEAF, what) for what in INVALID)
    told = ", ".join(f"{what} {count} of {sent:.1f}" for what, (count, sent) in came.items())
    right = taken == 0 and all(abs(count - sent) <= 2 for count, sent in came.values())
    return expect(right, f"counted as invalid: {told}; as PFC: {taken}")


def a_frame_for_nobody_is_pfc(rec: Recording, p: Params) -> Verdict:
    """Frames that enable no priority are PFC frames, and none is invalid."""
    count, sent = counted(rec, "rx_pfc", "no-class")
    invalid = rec.delta("rx_pfc_invalid", LEAF, "no-class")
    return expect(
        invalid == 0 and abs(count - sent) <= 2, f"{count} of {sent:.1f} counted as PFC, {invalid} as invalid"
    )


def three_kinds_stop_nobody(rec: Recording, p: Params) -> Verdict:
    """leaf1 is not paused for a microsecond, and h4 gets what it got."""
    paused = sum(rec.port(LEAF).paused(3).during(what).delta() for what in HARMLESS)
    rates = {what: rate(rec, what) for what in ("baseline", *HARMLESS)}
    told = ", ".join(f"{what} {each:.1f} Mb/s" for what, each in rates.items())
    return expect(paused == 0 and min(rates.values()) > 0.98 * rates["baseline"] > 0, f"paused {paused} us; {told}")


def reserved_bits_hide_a_pause(rec: Recording, p: Params) -> Verdict:
    """Frames whose vector has reserved bits pause priority 3 all the time, and are not invalid."""
    phase = rec.phase("vector")
    share = rec.port(LEAF).paused(3).during(phase).delta() / 1e6 / phase.seconds
    invalid = rec.delta("rx_pfc_invalid", LEAF, phase)
    told = f"paused {share:.0%} of the time, {rate(rec, 'vector'):.1f} Mb/s; {invalid} counted as invalid"
    return expect(share > 0.99 and invalid == 0 and rate(rec, "vector") < 0.01 * rate(rec, "baseline"), told)


def rate_recovers(rec: Recording, p: Params) -> Verdict:
    """Mended, h4 gets what it got."""
    before, after = (rate(rec, phase) for phase in ("baseline", "verify"))
    return expect(after > 0.98 * before > 0, f"{before:.1f} Mb/s before, {after:.1f} Mb/s after")


ANSWER: Final = StoryAnswer(
    cause="malformed-pfc",
    where=("h4", "h4:eth1"),
    level=3,
    workload="h1 writes to h4",
    hints=(
        "h1 gets nothing through to h4",
        "leaf1:swp6: it is paused all of the time, by h4",
        "rx_prio3_pause_duration and rx_pfc_invalid of leaf1:swp6",
        "rocelab capture leaf1:swp6 --seconds 1 -o pfc.pcapng, then rocelab dissect",
        "frames of opcode 0x0101 with a class vector of 0xff08: reserved bits are set, priority 3 stops",
    ),
    sign="a capture shows PFC frames that are not as they should be: reserved bits of the class vector are set",
    because=(
        "h4's firmware sends PFC frames with reserved bits set; a receiver ignores those bits and obeys the rest."
    ),
    fix="Mend or replace h4's NIC firmware; until then a watchdog on leaf1:swp6 contains it.",
    prevention="A PFC watchdog on every port to a host; test a firmware's pause frames before it is rolled out.",
)

SCENARIO = Scenario(
    "malformed-pfc", "incast.yaml", Params, run,
    (invalid_ones_are_counted, a_frame_for_nobody_is_pfc, three_kinds_stop_nobody, reserved_bits_hide_a_pause,
     rate_recovers),
    answer=ANSWER,
)  # fmt: skip
