"""A GID has moved: a program that was told its index speaks for an address that nobody routes to.

Story
    Given  a program at h5 that was told its GID index once (ib_write_bw -x), and h1, which writes to it
    When   h5's address is taken off its NIC and given back: another address has its old place in the GID table
    Then   the program starts, exchanges its QP's numbers over TCP as before, and not one packet of RDMA arrives
    And    the GID table shows why: the address is there, at another index
    When   the index is looked up again
    Then   they connect, with nothing else changed

        h1 -- leaf1 == spines == leaf2 -- h5     GID 1 was 10.0.0.9, and is 192.0.2.1

Numbers
    a GID of RoCE v2 is the IPv6 form of an address: 10.0.0.9 is ::ffff:0a00:0009 (IBA annex A17). An address that is
    added takes the first free place of the table; one that is removed leaves its place to the next
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, time_of, unknown
from lab.scenario.state_changes import link_changes, session_changes
from lab.scenario.traffic.workload import attempt, gid_index, said, show_gids, show_rdma

PAIR: Final = "h1:h5"
GID: Final = "ffff:0a00:0009"
"""10.0.0.9, as the end of a GID."""
TRYING: Final = 5.0
"""Seconds of each attempt of a challenge, before it tries again."""


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(0.5, 60)] = 1.0
    """How long each transfer lasts, or is tried."""


def run(stage: Stage, p: Params) -> None:
    """As told, as told, looked up."""
    told = gid_index(stage, "h5")
    with stage.phase("baseline"):
        show_gids(stage, "h5")
        attempt(stage, PAIR, p.hold, told)
    with stage.phase("inject"):
        moved = stage.inject("gid-moved", "h5")
        now = gid_index(stage, "h5")
    with stage.phase("observe"):
        show_gids(stage, "h5")
        attempt(stage, PAIR, p.hold, told)
    show_rdma(stage, "h5")
    stage.linger(lambda: attempt(stage, PAIR, TRYING, told))
    with stage.phase("verify"):
        attempt(stage, PAIR, p.hold, now)
    stage.heal(moved)


def _index(rec: Recording, phase: str) -> tuple[int | None, dict[int, str]]:
    """The index of h5's GID, and the table, of what grep printed: FILE:GID."""
    table = {int(number): gid for number, gid in re.findall(r"gids/(\d+):(\S+)", said(rec, phase, "grep"))}
    return next((number for number, gid in table.items() if gid.endswith(GID)), None), table


def the_table_differs(rec: Recording, p: Params) -> Verdict:
    """The address has another index than the program was told, and another address has that."""
    (told, _), (now, table) = _index(rec, "baseline"), _index(rec, "observe")
    if told is None:
        return unknown("h5's address was not in its GID table to begin with")
    right = now not in {None, told} and not table.get(told, "").endswith(GID)
    return expect(right, f"10.0.0.9 was GID {told}, and is {now}; {told} is {table.get(told, 'nothing')}")


def nothing_arrives(rec: Recording, p: Params) -> Verdict:
    """With the old index h5 gets no packet of RDMA; with that of now it does."""
    before, during, after = (
        rec.rdma("h5").counter("rcvd_pkts").during(phase).delta() for phase in ("baseline", "observe", "verify")
    )
    return expect(
        before > 0 == during and after > 0, f"h5 received {before} packets, then {during}; looked up again {after}"
    )


def nothing_alarms(rec: Recording, p: Params) -> Verdict:
    """No port drops anything, no link goes down, no session is lost."""
    dropped = sum(rec.port(port).drops().during("observe").delta() for port in rec.ports)
    changes = [*link_changes(rec, "observe"), *session_changes(rec, "observe")]
    return expect(
        dropped == 0 and not changes, f"{dropped} packets dropped, {len(changes)} links or sessions changed"
    )


ANSWER: Final = StoryAnswer(
    cause="gid-index",
    where=("h5", "h5:eth1"),
    level=2,
    workload="h1 tries to write to a program at h5 that was told its GID index once",
    hints=(
        "programs connect by TCP, exchange their QPs' numbers, and then not a packet of RDMA is answered",
        "h5: it receives no packet of RDMA",
        "rcvd_pkts of h5's device stands still, and no port drops anything",
        "rocelab rdma show, or grep . /sys/class/infiniband/DEVICE/ports/1/gids/* on h5",
        "the address 10.0.0.9 has another GID index than the one that the program uses",
    ),
    sign="a host's address has another GID index than its programs use (rocelab rdma show)",
    because=(
        "h5's address was taken off and given back, and came to another place of the GID table; the "
        "program kept the old one."
    ),
    fix="Look the index up again before connecting, or restart what keeps it.",
    prevention="Never configure a GID index: resolve it from the address, or use the RDMA connection manager.",
)

SCENARIO = Scenario(
    "gid-index", "incast.yaml", Params, run, (the_table_differs, nothing_arrives, nothing_alarms), answer=ANSWER
)
