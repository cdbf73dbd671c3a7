"""Two hosts have the same MAC address: it moves between leaves until FRR flags it as a duplicate.

Story
    Given  h1 is on leaf1, and h2, of the same network, on leaf2
    When   h2 gets h1's MAC, as a cloned virtual machine does, and both send
    Then   each frame of one moves the MAC to its leaf, which advertises it with a higher sequence number
    And    after each frame of h2, leaf1 sends frames for h1 to leaf2, although h1 is on leaf1
    And    h2 does not reach h1: a bridge sends no frame back to the port that it arrived by
    And    leaf1 flags the MAC as a duplicate after five moves in three minutes
    When   h2 has its own MAC again, and the flag is cleared
    Then   frames for h1 stay at leaf1, and h2 reaches h1 once h1 has resolved h2's MAC again

        h1 -- leaf1      one MAC, two places      leaf2 -- h2 (h1's MAC)

Numbers
    the MAC Mobility community counts moves (RFC 7432 section 7.7); 5 in 180 s make a duplicate (section 15.1)
"""

from __future__ import annotations

import json
from typing import Any, Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words
from lab.scenario.phase_measures import ACTS
from lab.scenario.probes.overlay_state import all_reached, frr, ping_each, reaches, show_fdb
from lab.scenario.shared_checks import no_session_is_lost
from lab.scenario.three_acts import ProbeParameters, fault, three_acts
from lab.scenario.traffic.workload import probe, said, show_routing

HOME, ABROAD = "leaf1", "leaf2"
VNI: Final = 10010
MAC: Final = "02:1a:00:06:00:01"
"""h1's."""
TUNNEL, VTEP = f"vni{VNI}", "10.252.0.2"
"""The tunnel at leaf1, and leaf2's end of it."""
GATEWAY, H1, H2 = "10.1.10.1", "10.1.10.2", "10.1.10.3"
MOVES: Final = 5
SHOW: Final = f"show evpn mac vni {VNI} mac {MAC} json"


def run(stage: Stage, p: ProbeParameters) -> None:
    """Two MACs, one, two."""

    def look(act: str) -> None:
        probe(stage, "h2", "h1", count=2)
        if act == "observe":
            stage.until(lambda: _away(stage), "leaf1 to have the MAC behind leaf2")
        show_fdb(stage, HOME, VNI)
        frr(stage, HOME, SHOW)

    def flagged() -> None:
        stage.until(lambda: _flagged(stage), "leaf1 to flag the MAC as a duplicate", timeout=60)

    def healed() -> None:
        stage.until(lambda: _settled(stage), "the MAC to stay at leaf1")
        stage.run(HOME, "bridge", "fdb", "del", MAC, "dev", TUNNEL, "dst", VTEP, "self")  # zebra leaves this entry
        stage.run("h1", "ip", "neigh", "flush", "to", H2)
        stage.until(lambda: reaches(stage, "h2", H1), "h2 to reach h1 again")
        for leaf in (HOME, ABROAD):
            frr(stage, leaf, f"clear evpn dup-addr vni {VNI}")

    three_acts(
        stage, p.hold, fault("nic-mac", "h2", mac=MAC), broken=flagged, healed=healed, look=look,
        show=lambda: show_routing(stage, HOME, f"show evpn mac vni {VNI}"),
        again=lambda: ping_each(stage, "h2", "h1", "h3"),
    )  # fmt: skip


def _mac(stage: Stage, leaf: str) -> dict[str, Any]:
    words = stage.fabric.router(leaf).vtysh(SHOW)
    return _of(stage.fabric.namespace(leaf).run(words, check=False).stdout)


def _of(shown: str) -> dict[str, Any]:
    """FRR's entry of the MAC; empty where there is none."""
    found: dict[str, Any] = json.loads(shown or "{}").get(MAC, {})
    return found


def _flagged(stage: Stage) -> bool:
    for host in ("h1", "h2"):
        reaches(stage, host, GATEWAY)
    return bool(_mac(stage, HOME).get("isDuplicate"))


def _settled(stage: Stage) -> bool:
    for host in ("h2", "h1"):
        reaches(stage, host, GATEWAY)
    return _mac(stage, HOME).get("type") == "local" and _mac(stage, ABROAD).get("type") == "remote"


def _away(stage: Stage) -> bool:
    reaches(stage, "h2", GATEWAY)
    return _sent_away(stage.fabric.namespace(HOME).run(("bridge", "-json", "fdb", "show", "dev", TUNNEL)).stdout)


def _sent_away(shown: str) -> bool:
    """Whether the bridge has the MAC at its tunnel; the tunnel device itself keeps the old VTEP."""
    entries: list[dict[str, Any]] = json.loads(shown or "[]")
    return any(entry["mac"] == MAC and "master" in entry for entry in entries)


def _moves(rec: Recording, phase: str) -> int:
    """The higher one of leaf1's own sequence number and the one that others advertise."""
    mac = _of(said(rec, phase, "vtysh"))
    return max(int(mac.get(which, 0)) for which in ("localSequence", "remoteSequence"))


def the_sequence_number_climbs(rec: Recording, p: ProbeParameters) -> Verdict:
    """It climbs by at least as many moves as make a duplicate; after the fix the MAC is local at leaf1."""
    moves = [_moves(rec, phase) for phase in ACTS]
    right = moves[1] >= moves[0] + MOVES and _of(said(rec, "verify", "vtysh")).get("type") == "local"
    return expect(right, f"sequence number {moves[0]}, {moves[1]}, {moves[2]}")


def leaf1_flags_a_duplicate(rec: Recording, p: ProbeParameters) -> Verdict:
    """leaf1 flags the MAC as a duplicate with the fault, and neither before nor after."""
    flags = [bool(_of(said(rec, phase, "vtysh")).get("isDuplicate")) for phase in ACTS]
    return expect(flags == [False, True, False], f"duplicate: {in_words(flags)}")


def its_leaf_forwards_it_away(rec: Recording, p: ProbeParameters) -> Verdict:
    """leaf1's bridge has h1's MAC at the tunnel after a frame of h2, and neither before nor after the fault."""
    away = [_sent_away(said(rec, phase, "bridge")) for phase in ACTS]
    return expect(away == [False, True, False], f"{MAC} behind {TUNNEL} of {HOME}: {in_words(away)}")


def the_hosts_do_not_reach_each_other(rec: Recording, p: ProbeParameters) -> Verdict:
    """h1 answers h2's pings before and after the fault, and not with it."""
    answered = all_reached(rec, "h2")
    return expect(answered == [True, False, True], f"h2 reaches h1: {in_words(answered)}")


ANSWER: Final = StoryAnswer(
    cause="duplicate-mac",
    where=("h2",),
    level=3,
    workload="h2 pings h1, of its own network, and h3, of another",
    hints=(
        "h2 does not reach h1, and both reach h3",
        "leaf1 and leaf2 disagree about the place of a MAC, again and again",
        f"rocelab vtysh leaf1 -c 'show evpn mac vni {VNI}', twice: compare the sequence numbers",
        "ip link show eth1 in h1 and in h2",
        "h2 has h1's MAC, 02:1a:00:06:00:01",
    ),
    sign="the sequence number of a MAC climbs, and it is flagged a duplicate (show evpn mac vni VNI duplicate)",
    because="h2 has h1's MAC. Each frame of one host moves the MAC to its leaf, and frames go to the wrong host.",
    fix="Give h2 its own MAC; then clear evpn dup-addr vni 10010 on the leaves.",
    prevention="Alarm on duplicates and on high sequence numbers; freeze MACs that move too often.",
)

SCENARIO = Scenario(
    "duplicate-mac", "roce-tenant.yaml", ProbeParameters, run,
    (the_sequence_number_climbs, leaf1_flags_a_duplicate, its_leaf_forwards_it_away,
     the_hosts_do_not_reach_each_other, no_session_is_lost),
    answer=ANSWER,
)  # fmt: skip
