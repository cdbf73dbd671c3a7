"""A PFC watchdog that restores too soon: it detects the same storm again and again, and pauses spread each time.

Story
    Given  a storm is over 0.2 s after the last pause at leaf1, and after 10 ms at leaf2
    When   h4's NIC, at leaf1, sends a pause of 0.34 s every 0.4 s: a storm with gaps
    Then   leaf1 detects it once and drops packets for h4, and h6, which writes to h3, keeps its rate
    When   h8's NIC does the same at leaf2
    Then   leaf2 takes each gap for the end, so the counters of storms detected and restored grow together
    And    each time it pauses the spines first, and h2, which writes to h7, loses some of its rate
    When   leaf2 waits as long as leaf1
    Then   it detects the storm once more, which continues, and h2 has its rate

        h5 -> h4  <- pauses, leaf1 waits 0.2 s        h6 -> h3 not involved
        h1 -> h8  <- pauses, leaf2 waits 10 ms        h2 -> h7 not involved

Numbers
    a pause of 65535 quanta lasts 0.336 s at 100 Mb/s; with one each 0.4 s a port sends for 64 ms of them: 16%
    a storm is detected after 0.2 s of a pause, and restored 0.336 + 0.010 - 0.2 = 0.146 s later: once in 0.4 s at
    most, because a pause without queued packets is no storm, and QPs with dropped packets retransmit after 1.07 s
    the spines are paused until the storm is detected: 0.2 s of 0.4, at most 50%
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect, time_of
from lab.scenario.three_acts import PhaseParameters
from lab.scenario.watchdog_drill import StormyLeaf, two_storms
from lab.units import quanta_to_seconds
from lab.wire.craft.packet_values import MAX_QUANTA

RIGHT: Final = StormyLeaf(
    ("h5:h4", "h6:h3"), ("leaf1:swp3", "leaf1:swp4", "leaf1:swp5", "leaf1:swp6"), "leaf1:swp6", "leaf1:swp5",
    ("spine1:swp1", "spine2:swp1"),
)  # fmt: skip
WRONG: Final = StormyLeaf(
    ("h1:h8", "h2:h7"), ("leaf2:swp3", "leaf2:swp4", "leaf2:swp5", "leaf2:swp6"), "leaf2:swp6", "leaf2:swp5",
    ("spine1:swp2", "spine2:swp2"),
)  # fmt: skip
EVERY: Final = 0.4
"""Seconds from one pause of the NIC to the next."""
DETECTION, TOO_SOON = 0.2, 0.010
"""Seconds until a storm is detected; from the end of a pause until it is restored, at leaf2."""
PAUSE: Final = quanta_to_seconds(MAX_QUANTA, 100_000_000)
TICK: Final = 0.005
"""Seconds by which a port's timer may be late."""
SETTLING: Final = 3.0
"""Seconds: QPs with dropped packets retransmit after 1.07, and the storm is detected 0.6 after that at most."""


class Params(PhaseParameters):
    """The length of the storm."""

    loops: Annotated[float, time_of(2, 60)] = 4.0
    """How long the storm at leaf2 is observed."""


def run(stage: Stage, p: Params) -> None:
    """A storm with gaps where the watchdog waits, one where it does not, and the longer wait for both."""
    drift = f"pfc.watchdog.restoration={TOO_SOON:g}s"
    two_storms(stage, RIGHT, WRONG, drift, hold=p.hold, observed=p.loops, settling=SETTLING, every=EVERY)


def _counts(rec: Recording, leaf: StormyLeaf, first: str, last: str) -> tuple[int, int]:
    """Return how many storms were detected and restored, from the start of a phase to the end of another."""
    return leaf.count(rec, "queue3_storms", first, last), leaf.count(rec, "queue3_restored", first, last)


def _storm_goes_on(rec: Recording, leaf: StormyLeaf, phase: str) -> bool:
    """Return whether the NIC pauses the leaf for the computed share of the phase, within half a pause."""
    return abs(leaf.paused(rec, phase) - PAUSE / EVERY) * rec.phase(phase).seconds < PAUSE / 2


def a_long_restoration_contains_the_storm(rec: Recording, p: Params) -> Verdict:
    """leaf1 detects one storm, restores in no gap, and the bystanders keep their rate."""
    storms, restored = _counts(rec, RIGHT, "baseline", "contained")
    before, during = (RIGHT.rate(rec, phase) for phase in ("baseline", "contained"))
    evidence = f"{storms} storm detected, {restored} restored; h3 gets {during:.1f} Mb/s, before {before:.1f}"
    goes_on = _storm_goes_on(rec, RIGHT, "contained")
    return expect(goes_on and (storms, restored) == (1, 0) and during > 0.95 * before > 0, evidence)


def a_short_restoration_detects_it_again(rec: Recording, p: Params) -> Verdict:
    """At leaf2 storms detected and restored grow together, at most once for each pause of the NIC."""
    (storms, restored), seconds = _counts(rec, WRONG, "observe", "observe"), rec.phase("observe").seconds
    most = seconds / EVERY + 1
    evidence = f"{storms} storms detected, {restored} restored in {seconds:.1f} s, {most:.1f} at most"
    goes_on = _storm_goes_on(rec, WRONG, "observe")
    return expect(goes_on and abs(storms - restored) <= 1 and 3 <= storms <= most, evidence)


def each_restoration_is_too_early(rec: Recording, p: Params) -> Verdict:
    """Each storm is restored before the NIC's next pause: when the rest of a pause and 10 ms have passed."""
    storms, restored = (_events(rec, kind) for kind in ("storm", "restored"))
    ended = [begin for begin in storms if begin < max(restored, default=0)]
    lasted = [min(end - begin for end in restored if end > begin) / 1e9 for begin in ended]
    most = PAUSE + TOO_SOON - DETECTION
    evidence = f"restored after {', '.join(f'{each:.3f}' for each in lasted)} s, {most:.3f} at most"
    return expect(len(lasted) > 1 and max(lasted) <= most + TICK, evidence)


def _events(rec: Recording, kind: str) -> list[int]:
    """Return the times of a kind of event at leaf2's port during the storm, in ns of the recording."""
    node, interface = WRONG.stuck.split(":")
    events = rec.events(source="port", node=node, interface=interface, during="observe")
    return [event.ns for event in events if event.kind == kind]


def each_storm_spreads_first(rec: Recording, p: Params) -> Verdict:
    """leaf2 pauses the spines until it detects the storm, each time, and the bystanders lose rate."""
    spread, contained = WRONG.spread(rec, "observe"), RIGHT.spread(rec, "contained")
    before, during = (WRONG.rate(rec, phase) for phase in ("before", "observe"))
    evidence = (
        f"a spine is paused for {spread:.0%} by leaf2, for {contained:.0%} by leaf1; "
        f"h7 gets {during:.1f} Mb/s, before {before:.1f}"
    )
    right = 2 * contained < spread < DETECTION / EVERY and spread > 0.1
    return expect(right and during < 0.85 * before, evidence)


def a_longer_restoration_helps(rec: Recording, p: Params) -> Verdict:
    """The pauses continue, leaf2 detects at most one more storm, restores in no gap, and h7 has its rate.

    A storm that begins while the command of the fix runs may still be restored too soon.
    """
    storms, restored = _counts(rec, WRONG, "verify", "verify")
    before, after = (WRONG.rate(rec, phase) for phase in ("before", "verify"))
    evidence = f"{storms} storm detected, {restored} restored; h7 gets {after:.1f} Mb/s, before {before:.1f}"
    goes_on = _storm_goes_on(rec, WRONG, "verify")
    return expect(goes_on and storms <= 1 and restored == 0 and after > 0.95 * before > 0, evidence)


ANSWER: Final = StoryAnswer(
    cause="pfc-watchdog-loop",
    where=("leaf2:swp6", "leaf2"),
    level=3,
    workload="h1 writes to h8 and h2 to h7, with eight QPs each",
    hints=(
        "h2, which does not write to h8, has lost some of its rate; the same pauses of h4's NIC had no effect",
        "leaf2: it detects a storm, restores, and detects it again",
        "queue3_storms and queue3_restored of leaf2:swp6",
        "rocelab qos show leaf2:swp6, beside leaf1:swp6; rocelab qos events",
        "leaf2's watchdog restores 10 ms after a pause ends, and leaf1's after 200 ms",
    ),
    sign="storms detected and restored grow together at one port (queue3_storms, queue3_restored)",
    because="leaf2's watchdog takes gaps between pauses for the end of the storm: it waits 10 ms, and leaf1 200 ms.",
    fix="rocelab qos set leaf2 pfc.watchdog.restoration=200ms; then replace h8's NIC.",
    prevention="Use a restoration time longer than a pause, the same on all leaves; alarm on its counter.",
)

SCENARIO = Scenario(
    "pfc-watchdog-loop", "incast.yaml", Params, run,
    (a_long_restoration_contains_the_storm, a_short_restoration_detects_it_again, each_restoration_is_too_early,
     each_storm_spreads_first, a_longer_restoration_helps), answer=ANSWER,
)  # fmt: skip
