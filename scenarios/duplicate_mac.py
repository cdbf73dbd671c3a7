"""Two hosts have one MAC address: it moves to and fro, its sequence number climbs, and FRR calls it a duplicate.

Story
    Given  h1 is on leaf1, and h2, of the same network, on leaf2
    When   h2 has h1's MAC, as a virtual machine that was cloned, and both talk
    Then   each frame of one moves the MAC to its leaf, which tells so with a higher sequence number than the other's
    And    leaf1, where h1 is, sends what is for h1 to leaf2 after each frame of h2's: h1 is there, and is not
    And    h2 does not reach h1 at all: no bridge sends a frame back to the port that it came by
    And    leaf1 flags the MAC as a duplicate after five moves in three minutes
    When   h2 has its own MAC again, and the flag is cleared
    Then   h1's frames stay at leaf1, and h2 reaches h1, once h1 has asked for h2's MAC anew

        h1 -- leaf1      the MAC is here, and there      leaf2 -- h2 (h1's MAC)

Numbers
    the MAC Mobility community counts moves (RFC 7432 section 7.7); 5 of them in 180 s are too many (section 15.1)
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words, time_of
from lab.scenario.probes.overlay_state import frr, no_session_is_lost, ping_each, reaches, show_fdb
from lab.scenario.traffic.workload import commands, probe, said, show_routing

HOME, ABROAD = "leaf1", "leaf2"
VNI: Final = 10010
MAC: Final = "02:1a:00:06:00:01"
"""h1's."""
TUNNEL, VTEP = f"vni{VNI}", "10.252.0.2"
"""The tunnel at leaf1, and leaf2's end of it."""
GATEWAY, H1, H2 = "10.1.10.1", "10.1.10.2", "10.1.10.3"
MOVES: Final = 5
SHOW: Final = f"show evpn mac vni {VNI} mac {MAC} json"
PHASES: Final = ("baseline", "observe", "verify")


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(0, 60)] = 0.5
    """How long each phase lasts besides its probes."""


def run(stage: Stage, p: Params) -> None:
    """Two MACs, one, two."""
    with stage.phase("baseline"):
        stage.hold(p.hold)
        probe(stage, "h2", "h1", count=2)
        _look(stage)
    with stage.phase("inject"):
        cloned = stage.inject("nic-mac", "h2", mac=MAC)
        stage.until(lambda: _flagged(stage), "leaf1 to call the MAC a duplicate", timeout=60)
    with stage.phase("observe"):
        probe(stage, "h2", "h1", count=2)
        stage.until(lambda: _away(stage), "leaf1 to have the MAC behind leaf2")
        _look(stage)
    show_routing(stage, HOME, f"show evpn mac vni {VNI}")
    stage.linger(lambda: ping_each(stage, "h2", "h1", "h3"))
    with stage.phase("fix"):
        stage.heal(cloned)
        stage.until(lambda: _settled(stage), "the MAC to be at leaf1 for good")
        stage.run(HOME, "bridge", "fdb", "del", MAC, "dev", TUNNEL, "dst", VTEP, "self")  # what zebra leaves there
        stage.run("h1", "ip", "neigh", "flush", "to", H2)
        stage.until(lambda: reaches(stage, "h2", H1), "h2 to reach h1 again")
        for leaf in (HOME, ABROAD):
            frr(stage, leaf, f"clear evpn dup-addr vni {VNI}")
    with stage.phase("verify"):
        stage.hold(p.hold)
        probe(stage, "h2", "h1", count=2)
        _look(stage)


def _mac(stage: Stage, leaf: str) -> dict[str, Any]:
    words = stage.fabric.router(leaf).vtysh(SHOW)
    return _of(stage.fabric.namespace(leaf).run(words, check=False).stdout)


def _of(shown: str) -> dict[str, Any]:
    """What FRR says of the MAC; nothing where it does not know it."""
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
    """Whether the bridge has the MAC at its tunnel; the tunnel itself keeps the VTEP behind which it was."""
    entries: list[dict[str, Any]] = json.loads(shown or "[]")
    return any(entry["mac"] == MAC and "master" in entry for entry in entries)


def _look(stage: Stage) -> None:
    show_fdb(stage, HOME, VNI)
    frr(stage, HOME, SHOW)


def _moves(rec: Recording, phase: str) -> int:
    """The higher of the sequence numbers that leaf1 and others have told of."""
    mac = _of(said(rec, phase, "vtysh"))
    return max(int(mac.get(which, 0)) for which in ("localSequence", "remoteSequence"))


def the_sequence_number_climbs(rec: Recording, p: Params) -> Verdict:
    """By as many as are too many; at last the MAC is leaf1's own."""
    moves = [_moves(rec, phase) for phase in PHASES]
    right = moves[1] >= moves[0] + MOVES and _of(said(rec, "verify", "vtysh")).get("type") == "local"
    return expect(right, f"sequence number {moves[0]}, {moves[1]}, {moves[2]}")


def leaf1_calls_it_a_duplicate(rec: Recording, p: Params) -> Verdict:
    """Meanwhile, and neither before nor after."""
    flags = [bool(_of(said(rec, phase, "vtysh")).get("isDuplicate")) for phase in PHASES]
    return expect(flags == [False, True, False], f"duplicate: {in_words(flags)}")


def its_leaf_sends_it_away(rec: Recording, p: Params) -> Verdict:
    """leaf1's bridge has h1's MAC at the tunnel when h2 has spoken, and neither before nor after."""
    away = [_sent_away(said(rec, phase, "bridge")) for phase in PHASES]
    return expect(away == [False, True, False], f"{MAC} behind {TUNNEL} of {HOME}: {in_words(away)}")


def the_two_do_not_reach_each_other(rec: Recording, p: Params) -> Verdict:
    """h2's probes of h1 are answered before and after, and not meanwhile."""
    codes = [max(each.exit_code for each in commands(rec, phase, "ping")) for phase in PHASES]
    return expect([code == 0 for code in codes] == [True, False, True], f"ping ended with {in_words(codes)}")


def nothing_alarms(rec: Recording, p: Params) -> Verdict:
    """No session is lost."""
    return no_session_is_lost(rec, "observe")


ANSWER: Final = StoryAnswer(
    cause="duplicate-mac",
    where=("h2",),
    level=3,
    workload="h2 pings h1, of its own network, and h3, of another",
    hints=(
        "h2 does not reach h1, though both reach h3",
        "leaf1 and leaf2: they disagree about where a MAC is, again and again",
        f"rocelab vtysh leaf1 -c 'show evpn mac vni {VNI}': sequence numbers, twice",
        "ip link show eth1 in h1 and in h2",
        "h2 has h1's MAC, 02:1a:00:06:00:01",
    ),
    sign="the sequence number of a MAC climbs, and it is flagged a duplicate (show evpn mac vni VNI duplicate)",
    because="h2 has h1's MAC: each frame of one takes it from the other, and what is sent goes to the wrong one.",
    fix="Give h2 its own MAC; then clear evpn dup-addr vni 10010 on the leaves.",
    prevention="Alarm on duplicates and on high sequence numbers; freeze what moves too often.",
)

SCENARIO = Scenario(
    "duplicate-mac", "roce-tenant.yaml", Params, run,
    (the_sequence_number_climbs, leaf1_calls_it_a_duplicate, its_leaf_sends_it_away, the_two_do_not_reach_each_other,
     nothing_alarms),
    answer=ANSWER,
)  # fmt: skip
