"""A pause storm: one NIC is stuck, and the whole fabric behind it stops.

Story
    Given  h1 writes to h8 and h2 to h5 over both spines, at 45 Mb/s each, so that no port is paused
    When   h8's receiver is stuck and its NIC sends PFC frames without end (Guo et al., SIGCOMM 2016)
    Then   leaf2 cannot send to h8, fills up and pauses the spines; they pause leaf1, and leaf1 pauses h1 and h2
    And    h2 stops too, although it does not use h8's link, and nothing is lost: no alarm
    When   the NIC is replaced
    Then   both rates are as before

        h1 --+                +-- h8   <- storm
             leaf1 == spines == leaf2
        h2 --+                +-- h5

Numbers
    a pause of 65535 quanta lasts 0.336 s at 100 Mb/s, and one comes every 84 ms: the pause never expires
    each of a switch's two full ports holds 151 KB, 54 ms of half of h1's 45 Mb/s. After three switches
    the pauses reach the hosts, within a quarter of a second
"""

from __future__ import annotations

from typing import Final

from lab.scenario.api import Recording, RecordingPhase, Scenario, Stage, StoryAnswer, Verdict, expect, unknown
from lab.scenario.phase_measures import mbits, paused_share
from lab.scenario.shared_checks import nothing_is_lost, rate_recovers
from lab.scenario.three_acts import PhaseParameters, fault, three_acts
from lab.scenario.traffic.workload import show_pauses, show_queue

STUCK: Final = "leaf2:swp6"
HOPS: Final = (("leaf2:swp6",), ("spine1:swp2", "spine2:swp2"), ("leaf1:swp1", "leaf1:swp2"), ("h1:eth1", "h2:eth1"))
"""The paused ports, hop by hop."""
VICTIM: Final = "leaf2:swp3"
LIMIT: Final = 45
"""Mb/s of a host: an uplink of 100 carries two. Without the storm no port is paused."""
SPREADING: Final = 1.0
"""Seconds from the first pause until the hosts stop, with reserve."""
SETTLING: Final = 1.5
"""Seconds: the last pause of 0.34 s, and the QP's ACK timeout of 1.07 s."""


def run(stage: Stage, p: PhaseParameters) -> None:
    """Healthy, stuck, replaced."""

    def show() -> None:
        show_pauses(stage, STUCK)
        for hop in HOPS:
            show_queue(stage, hop[0])

    stage.set(",".join(HOPS[-1]), f"rate={LIMIT}Mbit")
    with stage.writing("h1:h8", "h2:h5", qps=8):
        three_acts(stage, p.hold, fault("pause-storm", "h8"), broken=SPREADING, healed=SETTLING, show=show)


def the_storm_stops_the_leaf(rec: Recording, p: PhaseParameters) -> Verdict:
    """leaf2's port to h8 is paused nearly all the time, and sends almost nothing."""
    share = paused_share(rec, "observe", STUCK)
    healthy, sent = (mbits(rec, STUCK, phase) for phase in ("baseline", "observe"))
    evidence = f"paused {share:.0%} of the time; {sent:.1f} Mb/s of {healthy:.1f}"
    return expect(share > 0.99 and sent < 0.01 * healthy, evidence)


def pauses_spread_hop_by_hop(rec: Recording, p: PhaseParameters) -> Verdict:
    """Each hop is paused permanently after the hop in front of it, up to the hosts."""
    stops = []
    for hop in HOPS:
        times = [since for port in hop if (since := _paused_since(rec, port)) is not None]
        if not times:
            return unknown(f"no permanent pause at {' or '.join(hop)}")
        stops.append(min(times))
    began = rec.phase("inject").start
    evidence = ", ".join(f"{hop[0]} {(stop - began) / 1e6:.1f} ms" for hop, stop in zip(HOPS, stops, strict=True))
    return expect(stops == sorted(stops), evidence)


def _paused_since(rec: Recording, port: str) -> int | None:
    """Return when a port's last pause of the storm began; None if it ended, or there was none."""
    node, interface = port.split(":")
    since = None
    storm = RecordingPhase("storm", rec.phase("inject").start, rec.phase("observe").end)
    for event in rec.events(source="port", node=node, interface=interface, during=storm):
        if event.kind == "paused" and event.data["number"] == 3:
            since = since or event.ns
        elif event.kind in {"resumed", "expired"} and event.data["number"] == 3:
            since = None
    return since


def an_unrelated_pair_stops(rec: Recording, p: PhaseParameters) -> Verdict:
    """h2 writes to h5, and nothing arrives: PFC pauses a class of a port, not a flow."""
    healthy, stuck = (mbits(rec, VICTIM, phase) for phase in ("baseline", "observe"))
    return expect(stuck < 0.01 * healthy, f"{healthy:.1f} Mb/s before, {stuck:.1f} Mb/s in the storm")


ANSWER: Final = StoryAnswer(
    cause="pfc-storm",
    where=("h8", "h8:eth1", "leaf2:swp6"),
    level=1,
    workload="h1 writes to h8 and h2 to h5, with eight QPs each",
    hints=(
        "no write completes, not even between hosts that share no link with h8, and nothing is lost",
        "leaf2:swp6: it was paused first",
        "rx_prio3_pause_duration of leaf2:swp6: it is paused all the time",
        "rocelab congestion, and rocelab capture leaf2:swp6 --seconds 1 -o pfc.pcapng",
        "h8 sends a PFC frame every 84 ms without end, and never an XON",
    ),
    sign="a NIC sends valid PFC frames without an XON, and no leaf has a watchdog (rocelab qos show)",
    because="h8's receiver is stuck and its NIC always pauses leaf2. leaf2 fills up, and pauses reach all hosts.",
    fix="Disconnect h8's NIC and replace it.",
    prevention="Use a PFC watchdog on every host port, and alarm on a port that is paused for longer than 0.1 s.",
)

SCENARIO = Scenario(
    "pfc-storm", "incast.yaml", PhaseParameters, run,
    (the_storm_stops_the_leaf, pauses_spread_hop_by_hop, an_unrelated_pair_stops,
     nothing_is_lost("inject", "observe"), rate_recovers(STUCK, VICTIM, least=0.8)),
    captures=("leaf2:swp6",), answer=ANSWER,
)  # fmt: skip
