"""A leaf dies: a host with a second leaf loses a moment, and a host with this leaf only loses everything.

Story
    Given  h1 has a bond to leaf1 and leaf2, and h2 only leaf1; both ping h3, and h1's pings use leaf1
    When   leaf1 loses its power: all its links lose their carrier at once
    Then   the neighbours notice, and h1 is answered through leaf2 before a LACP or BFD packet is missed
    And    h2 gets no answer: leaf1 was its only leaf
    When   leaf1 recovers and then hangs: its links stay up, and no packet passes
    Then   no link goes down, and h1 waits until LACP and BFD have missed three packets
    When   leaf1 works again
    Then   both hosts are answered

        h1 ==bond1== leaf1 and leaf2
        h2 --------- leaf1              leaf1, leaf2, leaf3 -- spine1        leaf3 -- h3

Numbers
    carrier: a bond checks its members every 50 ms (miimon), and spine1's BGP withdraws leaf1's routes
    that is less than 1 s, the interval of LACP and BFD: no packet was missed
    LACP sends each second and times out after 3 s (Short_Timeout_Time of IEEE 802.1AX), BFD after 3 x 1 s
    (RFC 5880 section 6.8.4). The last packet came up to 1 s before: 2 to 3 s, 0.1 s for timers, and 1 s for BGP
"""

from __future__ import annotations

import json
from functools import partial
from typing import Annotated, Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words, time_of
from lab.scenario.probes.overlay_state import ping_each, reaches
from lab.scenario.three_acts import PhaseParameters
from lab.scenario.traffic.background_traffic import pinging
from lab.telemetry.read.program_series import answered, echoes, longest_silence

DEAD: Final = "leaf1"
LINKS: Final = ("leaf1--h1", "leaf1--spine1", "leaf1--h2")
FAR: Final = ("spine1:swp1", "h1:eth1", "h2:eth1")
"""The other ends of its links."""
ON_TWO, ON_ONE = "h1:h3", "h2:h3"
ADDRESS: Final = "10.1.10.3"
BY_LEAF1: Final = 2
"""The ICMP identifier of pings that h1's bond sends to leaf1, by the driver's hash."""
INTERVAL, PACKETS, SLOW = 1.0, 3, 30.0
"""The interval of BFD and LACP, and their limit; and LACP's interval after a timeout (Slow_Periodic_Time)."""
TICK: Final = 0.1
"""Seconds between two checks of Linux's LACP timers."""


class Params(PhaseParameters):
    """The length of the hang."""

    hang: Annotated[float, time_of(4.5, 60)] = 4.5
    """How long leaf1 hangs."""


def run(stage: Stage, p: Params) -> None:
    """Healthy, dead, healthy, hanging, healthy."""
    _until_recovered(stage)
    with pinging(stage, ON_TWO, ON_ONE, identifier=BY_LEAF1):
        stage.measure("baseline", p.hold)
        with stage.phase("inject"):
            dead = stage.inject("power-lost", DEAD)
            stage.hold(INTERVAL)
        stage.measure("observe", p.hold)
        stage.linger(lambda: ping_each(stage, "h3", "h1", "h2"))
        with stage.phase("fix"):
            stage.heal(dead)
            _until_recovered(stage)
        with stage.phase("hang"):
            hanging = [stage.inject("link-cut", link) for link in LINKS]
            stage.hold(p.hang)
        with stage.phase("mend"):
            stage.heal(*hanging)
            _until_recovered(stage)
        stage.measure("verify", p.hold)


def _until_recovered(stage: Stage) -> None:
    stage.until(lambda: _members(stage) == {"eth1", "eth2"}, "h1's bond to use both members", SLOW + 5)
    for host in ("h1", "h2"):
        stage.until(partial(reaches, stage, host, ADDRESS), f"{host} to reach h3")


def _members(stage: Stage) -> set[str]:
    """Return the interfaces to which LACP distributes h1's packets."""
    words = ("ip", "-json", "-details", "link", "show", "master", "bond1")
    links = {each["ifname"]: each["linkinfo"] for each in json.loads(stage.fabric.namespace("h1").run(words).stdout)}
    states = {name: each["info_slave_data"]["ad_actor_oper_port_state_str"] for name, each in links.items()}
    return {name for name, state in states.items() if "distributing" in state and "defaulted" not in state}


def carrier_loss_acts_at_once(rec: Recording, p: Params) -> Verdict:
    """h1 has no answer for less time than the interval between two LACP or BFD packets."""
    gap = longest_silence(rec, ON_TWO, "baseline", "observe")
    return expect(gap < INTERVAL, f"h1 has no answer for {gap:.3f} s, less than {INTERVAL:g} expected")


def a_single_homed_host_is_cut_off(rec: Recording, p: Params) -> Verdict:
    """While the leaf is dead h2 gets no answer, and h1 does."""
    one, two = (len(answered(rec, pair, "observe")) for pair in (ON_ONE, ON_TWO))
    return expect(one == 0 < two, f"answers while {DEAD} is dead: h2 {one}, h1 {two}")


def all_links_lose_carrier(rec: Recording, p: Params) -> Verdict:
    """The other ends of its links lose their carrier when the leaf dies, and not when it hangs."""
    lost = [_lost_carrier(rec, *phases) for phases in (("inject", "observe"), ("hang",))]
    return expect(lost == [set(FAR), set()], f"dead: {in_words(lost[0])} went down; hanging: {in_words(lost[1])}")


def _lost_carrier(rec: Recording, *phases: str) -> set[str]:
    events = [event for phase in phases for event in rec.events(source="kernel", kind="link", during=phase)]
    return {f"{event.node}:{event.interface}" for event in events if not event.data["up"]} & set(FAR)


def a_hang_takes_three_missed_packets(rec: Recording, p: Params) -> Verdict:
    """h1 has no answer from the last LACP or BFD packet until the third one is missed."""
    gap = longest_silence(rec, ON_TWO, "hang")
    least, most = (PACKETS - 1) * INTERVAL - TICK, PACKETS * INTERVAL + TICK + INTERVAL
    return expect(least <= gap < most, f"h1 has no answer for {gap:.3f} s, {least:g} to {most:g} expected")


def both_hosts_recover(rec: Recording, p: Params) -> Verdict:
    """Before and after the faults neither host loses a ping."""
    lost = {
        f"{pair} {phase}": echoes(rec, pair).lost(rec.phase(phase).start, rec.phase(phase).end)
        for pair in (ON_TWO, ON_ONE)
        for phase in ("baseline", "verify")
        if answered(rec, pair, phase)
    }
    return expect(len(lost) == 4 and not any(lost.values()), f"lost: {in_words(lost)}")


ANSWER: Final = StoryAnswer(
    cause="leaf-dies",
    where=("leaf1",),
    level=1,
    workload="h1 and h2 ping h3, and h3 pings h1 and h2",
    hints=(
        "h2 is unreachable; h1 is reachable, and lost hardly a ping",
        "leaf1: it is h2's only leaf, and h1 has another leaf as well",
        "the links that went down at one moment: all those of one switch",
        "rocelab status, and rocelab exec h1 -- cat /proc/net/bonding/bond1",
        "all links of leaf1 are down: it has lost its power",
    ),
    sign="all links of a switch go down at one moment",
    because="leaf1 has lost its power. h1's bond uses leaf2 instead, and h2, which has only leaf1, is cut off.",
    fix="Power leaf1, or replace it; then h2 is reachable again.",
    prevention="Connect every host to two leaves; alarm on a switch that all its neighbours lose.",
)

SCENARIO = Scenario(
    "leaf-dies", "multihomed.yaml", Params, run,
    (carrier_loss_acts_at_once, a_single_homed_host_is_cut_off, all_links_lose_carrier,
     a_hang_takes_three_missed_packets, both_hosts_recover), answer=ANSWER,
)  # fmt: skip
