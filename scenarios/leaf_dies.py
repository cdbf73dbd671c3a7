"""A leaf dies: a host that is on another leaf too misses a moment, and one that is not misses everything.

Story
    Given  h1 is on leaf1 and leaf2 by one bond, and h2 on leaf1 alone; both ping h3, and h1's pings leave by leaf1
    When   leaf1 loses its power: all its links lose their carrier at once
    Then   the others see it, and h1 is answered by way of leaf2 before anybody could have missed a packet
    And    h2 is answered no more: it is all that the leaf takes with it
    When   leaf1, whole again, hangs: its links stand, and nothing passes them
    Then   no link tells of it, and h1 waits until LACP and BFD have missed three packets
    When   leaf1 is whole
    Then   both are answered

        h1 ==bond1== leaf1 and leaf2
        h2 --------- leaf1              leaf1, leaf2, leaf3 -- spine1        leaf3 -- h3

Numbers
    carrier: a bond looks at its legs every 50 ms (miimon), and spine1's BGP withdraws what it had of leaf1. Less than
    1 s, the time between two packets of LACP or BFD: nobody waited for one
    LACP asks each second and gives up 3 s behind the last answer (Short_Timeout_Time of IEEE 802.1AX), BFD 1 s x 3
    (RFC 5880 section 6.8.4). The last one came within a second before: 2 to 3 s, a tenth for timers, and 1 s for BGP
"""

from __future__ import annotations

import json
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words, time_of
from lab.scenario.probes.overlay_state import ping_each, reaches
from lab.scenario.traffic.background_traffic import pinging
from lab.telemetry.read.program_series import echoes

if TYPE_CHECKING:
    from lab.faults.ledger import Entry

DEAD: Final = "leaf1"
LINKS: Final = ("leaf1--h1", "leaf1--spine1", "leaf1--h2")
FAR: Final = ("spine1:swp1", "h1:eth1", "h2:eth1")
"""The other ends of its links."""
ON_TWO, ON_ONE = "h1:h3", "h2:h3"
ADDRESS: Final = "10.1.10.3"
BY_LEAF1: Final = 2
"""ICMP's identifier of pings that h1's bond gives to leaf1, by the driver's hash."""
INTERVAL, PACKETS, SLOW = 1.0, 3, 30.0
"""Of BFD and of LACP; and of LACP when twice as many have been missed (Slow_Periodic_Time of IEEE 802.1AX)."""
TICK: Final = 0.1
"""Seconds of Linux between two looks at LACP's timers."""
_NS: Final = 10**9


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(1, 60)] = 1.5
    """How long it is looked at before, and while the leaf is dead."""
    hang: Annotated[float, time_of(4.5, 60)] = 4.5
    """How long it hangs."""


def run(stage: Stage, p: Params) -> None:
    """Well, dead, well, hanging, well."""
    _until_whole(stage)
    with pinging(stage, ON_TWO, ON_ONE, identifier=BY_LEAF1):
        with stage.phase("baseline"):
            stage.hold(p.hold)
        with stage.phase("inject"):
            dead = stage.inject("power-lost", DEAD)
            stage.hold(INTERVAL)
        with stage.phase("observe"):
            stage.hold(p.hold)
        stage.linger(lambda: ping_each(stage, "h3", "h1", "h2"))
        with stage.phase("fix"):
            _mend(stage, dead)
        with stage.phase("hang"):
            hanging = [stage.inject("link-cut", link) for link in LINKS]
            stage.hold(p.hang)
        with stage.phase("mend"):
            _mend(stage, *hanging)
        with stage.phase("verify"):
            stage.hold(p.hold)


def _mend(stage: Stage, *entries: Entry) -> None:
    for entry in entries:
        stage.heal(entry)
    _until_whole(stage)


def _until_whole(stage: Stage) -> None:
    stage.until(lambda: _legs(stage) == {"eth1", "eth2"}, "h1's bond to use both legs", SLOW + 5)
    for host in ("h1", "h2"):
        stage.until(partial(reaches, stage, host, ADDRESS), f"{host} to reach h3")


def _legs(stage: Stage) -> set[str]:
    """By which interfaces h1's bond sends: those that LACP distributes to."""
    words = ("ip", "-json", "-details", "link", "show", "master", "bond1")
    legs = {each["ifname"]: each["linkinfo"] for each in json.loads(stage.fabric.namespace("h1").run(words).stdout)}
    states = {name: each["info_slave_data"]["ad_actor_oper_port_state_str"] for name, each in legs.items()}
    return {name for name, state in states.items() if "distributing" in state and "defaulted" not in state}


def _answered(rec: Recording, pair: str, *phases: str) -> list[float]:
    """When pings of a pair were answered in these phases, which follow each other, in seconds."""
    start, end = rec.phase(phases[0]).start, rec.phase(phases[-1]).end
    return [ns / _NS for ns in echoes(rec, pair).times.ns.tolist() if start <= ns < end]


def _silence(rec: Recording, pair: str, *phases: str) -> float:
    """The longest time without an answer, in seconds, from the beginning of the first of these phases to the end."""
    start, end = rec.phase(phases[0]).start / _NS, rec.phase(phases[-1]).end / _NS
    return max(later - earlier for earlier, later in pairwise([start, *_answered(rec, pair, *phases), end]))


def the_carrier_tells_at_once(rec: Recording, p: Params) -> Verdict:
    """h1 is without answers for less time than lies between two packets that somebody could miss."""
    gap = _silence(rec, ON_TWO, "baseline", "inject", "observe")
    return expect(gap < INTERVAL, f"h1 has no answer for {gap:.3f} s, less than {INTERVAL:g} expected")


def who_is_on_it_alone_is_cut_off(rec: Recording, p: Params) -> Verdict:
    """While the leaf is dead h2 gets no answer, and h1 does."""
    mine, other = (len(_answered(rec, pair, "observe")) for pair in (ON_ONE, ON_TWO))
    return expect(mine == 0 < other, f"answers while {DEAD} is dead: h2 {mine}, h1 {other}")


def all_its_links_tell(rec: Recording, p: Params) -> Verdict:
    """Those behind its links lose the carrier when it dies, and not when it hangs."""
    gone = [_gone(rec, *phases) for phases in (("inject", "observe"), ("hang",))]
    return expect(gone == [set(FAR), set()], f"dead: {in_words(gone[0])} went down; hanging: {in_words(gone[1])}")


def _gone(rec: Recording, *phases: str) -> set[str]:
    told = [event for phase in phases for event in rec.events(source="kernel", kind="link", during=phase)]
    return {f"{event.node}:{event.interface}" for event in told if not event.data["up"]} & set(FAR)


def a_silent_death_takes_three_packets(rec: Recording, p: Params) -> Verdict:
    """h1 is without answers from the last packet that came until the third one is missed."""
    gap = _silence(rec, ON_TWO, "hang")
    least, most = (PACKETS - 1) * INTERVAL - TICK, PACKETS * INTERVAL + TICK + INTERVAL
    return expect(least <= gap < most, f"h1 has no answer for {gap:.3f} s, {least:g} to {most:g} expected")


def both_are_answered_again(rec: Recording, p: Params) -> Verdict:
    """Before and afterwards neither of the two loses a ping."""
    lost = {
        f"{pair} {phase}": echoes(rec, pair).lost(rec.phase(phase).start, rec.phase(phase).end)
        for pair in (ON_TWO, ON_ONE)
        for phase in ("baseline", "verify")
        if _answered(rec, pair, phase)
    }
    return expect(len(lost) == 4 and not any(lost.values()), f"lost: {in_words(lost)}")


ANSWER: Final = StoryAnswer(
    cause="leaf-dies",
    where=("leaf1",),
    level=1,
    workload="h1 and h2 ping h3, and h3 pings h1 and h2",
    hints=(
        "h2 is not reached any more; h1 is, and hardly missed a ping",
        "leaf1: h2 is on it alone, h1 on another leaf too",
        "which links went down, and when: those of one switch, all at once",
        "rocelab status, and rocelab exec h1 -- cat /proc/net/bonding/bond1",
        "all links of leaf1 are down: it has lost its power",
    ),
    sign="all links of a switch go down in one moment",
    because="leaf1 has lost its power: h1's bond goes on by leaf2, and h2, which is on leaf1 alone, is cut off.",
    fix="Power leaf1, or replace it; h2 is reached again when its leaf is.",
    prevention="Put every host on two leaves; alarm on a switch whose neighbours all lose it, for it cannot itself.",
)

SCENARIO = Scenario(
    "leaf-dies", "multihomed.yaml", Params, run,
    (the_carrier_tells_at_once, who_is_on_it_alone_is_cut_off, all_its_links_tell,
     a_silent_death_takes_three_packets, both_are_answered_again), answer=ANSWER,
)  # fmt: skip
