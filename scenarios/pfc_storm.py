"""A pause storm: one NIC is stuck, and the whole fabric stops behind it.

Story
    Given  h1 writes to h8 over both spines, and h2, whose path has nothing to do with h8, to h5, at 45 Mb/s each:
           either uplink could carry both, and nobody pauses anybody
    When   h8's receiver gets stuck and its NIC sends PFC frames without end (Guo et al., SIGCOMM 2016)
    Then   leaf2 may not send to h8, fills up, and pauses the spines; they pause leaf1, and leaf1 pauses h1 and h2
    And    h2, who is innocent, stands still too, and nothing is lost: nobody alarms
    When   the NIC is replaced
    Then   everything goes on as before

        h1 --+                +-- h8   <- storm
             leaf1 == spines == leaf2
        h2 --+                +-- h5

Numbers
    a pause of 65535 quanta lasts 0.336 s at 100 Mb/s, and one comes every 84 ms: it never runs out
    a switch with two ports that fill lets each hold 151 KB, 54 ms of half of h1's 45 Mb/s; after three of them
    the wave is at the hosts, within a quarter of a second
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import (
    Parameters,
    Recording,
    RecordingPhase,
    Scenario,
    Stage,
    StoryAnswer,
    Verdict,
    expect,
    time_of,
    unknown,
)
from lab.scenario.traffic.workload import show_pauses, show_queue

STUCK: Final = "leaf2:swp6"
WAVE: Final = (("leaf2:swp6",), ("spine1:swp2", "spine2:swp2"), ("leaf1:swp1", "leaf1:swp2"), ("h1:eth1", "h2:eth1"))
"""Who is paused, hop by hop."""
VICTIM: Final = "leaf2:swp3"
SENDERS: Final = "h1:eth1,h2:eth1"
HELD_TO: Final = 45
"""Mb/s of a host: an uplink of 100 carries two. Who is paused is paused by the storm, and by nothing else."""
WAVE_PASSES: Final = 1.0
"""Seconds from the first pause until the hosts stand still, and to spare."""
SETTLING: Final = 1.5
"""Seconds: the last pause of 0.34 s, and a QP's timeout of 1.07 s."""


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(1, 60)] = 2.0
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """Healthy, stuck, mended."""
    stage.set(SENDERS, f"rate={HELD_TO}Mbit")
    with stage.writing("h1:h8", "h2:h5", qps=8):
        with stage.phase("baseline"):
            stage.hold(p.hold)
        with stage.phase("inject"):
            storm = stage.inject("pause-storm", "h8")
            stage.hold(WAVE_PASSES)
        with stage.phase("observe"):
            stage.hold(p.hold)
        show_pauses(stage, STUCK)
        for hop in WAVE:
            show_queue(stage, hop[0])
        stage.linger()
        with stage.phase("fix"):
            stage.heal(storm)
            stage.hold(SETTLING)
        with stage.phase("verify"):
            stage.hold(p.hold)


def the_storm_stops_its_leaf(rec: Recording, p: Params) -> Verdict:
    """leaf2 is paused towards h8 nearly all the time, and sends next to nothing."""
    phase = rec.phase("observe")
    share = rec.port(STUCK).paused(3).during(phase).delta() / 1e6 / phase.seconds
    healthy, sent = (rec.port(STUCK).tx_bytes(3).during(each).rate() * 8 / 1e6 for each in ("baseline", "observe"))
    return expect(
        share > 0.99 and sent < 0.01 * healthy, f"paused {share:.0%} of the time; {sent:.1f} Mb/s of {healthy:.1f}"
    )


def the_wave_goes_hop_by_hop(rec: Recording, p: Params) -> Verdict:
    """Whoever is paused for good is so after the hop in front of it, up to the hosts."""
    stops = []
    for hop in WAVE:
        times = [since for port in hop if (since := _stopped(rec, port)) is not None]
        if not times:
            return unknown(f"no pause that lasts at {' or '.join(hop)}")
        stops.append(min(times))
    began = rec.phase("inject").start
    told = ", ".join(f"{hop[0]} {(stop - began) / 1e6:.1f} ms" for hop, stop in zip(WAVE, stops, strict=True))
    return expect(stops == sorted(stops), told)


def _stopped(rec: Recording, port: str) -> int | None:
    """When a port's last pause of the storm began; None where it ended again, or there was none."""
    node, interface = port.split(":")
    since = None
    storm = RecordingPhase("storm", rec.phase("inject").start, rec.phase("observe").end)
    for event in rec.events(source="port", node=node, interface=interface, during=storm):
        if event.kind == "paused" and event.data["number"] == 3:
            since = since or event.ns
        elif event.kind in {"resumed", "expired"} and event.data["number"] == 3:
            since = None
    return since


def an_innocent_pair_stops(rec: Recording, p: Params) -> Verdict:
    """h2 writes to h5, and gets nothing through: PFC pauses a class of a port, not a flow."""
    healthy, stuck = (
        rec.port(VICTIM).tx_bytes(3).during(phase).rate() * 8 / 1e6 for phase in ("baseline", "observe")
    )
    return expect(stuck < 0.01 * healthy, f"{healthy:.1f} Mb/s before, {stuck:.1f} Mb/s in the storm")


def nothing_is_lost(rec: Recording, p: Params) -> Verdict:
    """No port drops anything of the lossless class: no alarm comes from drops."""
    lost = sum(rec.port(port).drops(3).during(each).delta() for port in rec.ports for each in ("inject", "observe"))
    return expect(lost == 0, f"{lost} packets dropped")


def rate_recovers(rec: Recording, p: Params) -> Verdict:
    """With another NIC both pairs get what they got."""
    rates = {
        port: [rec.port(port).tx_bytes(3).during(phase).rate() * 8 / 1e6 for phase in ("baseline", "verify")]
        for port in (STUCK, VICTIM)
    }
    told = ", ".join(f"{port} {before:.1f} then {after:.1f} Mb/s" for port, (before, after) in rates.items())
    return expect(all(after > 0.8 * before for before, after in rates.values()), told)


ANSWER: Final = StoryAnswer(
    cause="pfc-storm",
    where=("h8", "h8:eth1", "leaf2:swp6"),
    level=1,
    workload="h1 writes to h8 and h2 to h5, with eight QPs each",
    hints=(
        "nobody gets anything through, also pairs that have nothing to do with each other, and nothing is lost",
        "leaf2:swp6: it was the first that might not send any more",
        "rx_prio3_pause_duration of leaf2:swp6: paused all of the time",
        "rocelab congestion, and rocelab capture leaf2:swp6 --seconds 1 -o pfc.pcapng",
        "h8 sends a PFC frame every 84 ms, for ever, and not one XON",
    ),
    sign=(
        "a NIC sends well-formed PFC frames without an XON, and no leaf of the fabric has a watchdog (rocelab "
        "qos show)"
    ),
    because=(
        "h8's receiver is stuck and its NIC pauses leaf2 for ever; leaf2 fills up, and the pauses spread "
        "to every host."
    ),
    fix="Take h8's NIC out and replace it.",
    prevention="A PFC watchdog on every port to a host, and an alarm on a port that is paused for longer than 0.1 s.",
)

SCENARIO = Scenario(
    "pfc-storm", "incast.yaml", Params, run,
    (the_storm_stops_its_leaf, the_wave_goes_hop_by_hop, an_innocent_pair_stops, nothing_is_lost, rate_recovers),
    captures=("leaf2:swp6",), answer=ANSWER,
)  # fmt: skip
