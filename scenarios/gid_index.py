"""A GID has moved in the table: a program with a configured GID index sends from the wrong address.

Story
    Given  a program at h5 with a configured GID index (ib_write_bw -x), and h1, which writes to it
    When   h5's address is removed from its NIC and added again: another address has its old place in the GID table
    Then   the program starts and exchanges QP numbers over TCP as before, and no RDMA packet arrives
    And    the GID table shows the cause: the address has another index
    When   the index is looked up again
    Then   the program connects, with no other change

        h1 -- leaf1 == spines == leaf2 -- h5     GID 1 was 10.0.0.9, and is 192.0.2.1

Numbers
    a GID of RoCE v2 is the IPv6 form of an address: 10.0.0.9 is ::ffff:0a00:0009 (IBA annex A17). A new address takes
    the first free entry of the table; a removed address frees its entry
"""

from __future__ import annotations

import re
from typing import Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect, unknown
from lab.scenario.phase_measures import rdma_growth
from lab.scenario.shared_checks import nothing_alarms
from lab.scenario.three_acts import PhaseParameters, fault, three_acts
from lab.scenario.traffic.workload import attempt, gid_index, said, show_gids, show_rdma

PAIR: Final = "h1:h5"
GID: Final = "ffff:0a00:0009"
"""The last octets of the GID of 10.0.0.9."""
TRYING: Final = 5.0
"""Seconds of each transfer that a challenge attempts."""


def run(stage: Stage, p: PhaseParameters) -> None:
    """The configured index twice, then the current one."""
    configured = gid_index(stage, "h5")

    def look(act: str) -> None:
        show_gids(stage, "h5")
        attempt(stage, PAIR, p.hold, gid_index(stage, "h5") if act == "verify" else configured)

    three_acts(
        stage, 0, fault("gid-moved", "h5"), look=look, show=lambda: show_rdma(stage, "h5"),
        again=lambda: attempt(stage, PAIR, TRYING, configured), fix=lambda: None,
    )  # fmt: skip


def _index(rec: Recording, phase: str) -> tuple[int | None, dict[int, str]]:
    """The index of h5's GID and the GID table, from grep's lines FILE:GID."""
    table = {int(number): gid for number, gid in re.findall(r"gids/(\d+):(\S+)", said(rec, phase, "grep"))}
    return next((number for number, gid in table.items() if gid.endswith(GID)), None), table


def the_gid_has_another_index(rec: Recording, p: PhaseParameters) -> Verdict:
    """The address has another index than the program uses, and another address has that one."""
    (before, _), (now, table) = _index(rec, "baseline"), _index(rec, "observe")
    if before is None:
        return unknown("h5's address is not in its GID table in phase baseline")
    right = now not in {None, before} and not table.get(before, "").endswith(GID)
    return expect(right, f"h5's address was GID {before}, and is {now}; {before} is {table.get(before, 'nothing')}")


def nothing_arrives(rec: Recording, p: PhaseParameters) -> Verdict:
    """With the old index h5 receives no RDMA packet; with the current one it does."""
    before, during, after = rdma_growth(rec, "h5", "rcvd_pkts")
    evidence = f"h5 received {before} packets, then {during}; {after} with the current index"
    return expect(before > 0 == during and after > 0, evidence)


ANSWER: Final = StoryAnswer(
    cause="gid-index",
    where=("h5", "h5:eth1"),
    level=2,
    workload="h1 tries to write to a program at h5 with a configured GID index",
    hints=(
        "programs connect by TCP and exchange QP numbers, and then no RDMA packet is answered",
        "h5: it receives no RDMA packet",
        "rcvd_pkts of h5's device does not grow, and no port drops packets",
        "rocelab rdma show, or grep . /sys/class/infiniband/DEVICE/ports/1/gids/* on h5",
        "the address 10.0.0.9 has another GID index than the program uses",
    ),
    sign="a host's address has another GID index than its programs use (rocelab rdma show)",
    because="h5's address was removed and added again, and has another GID index. The program uses the old index.",
    fix="Look up the index before each connection, or restart the program.",
    prevention="Do not configure a GID index: resolve it from the address, or use the RDMA connection manager.",
)

SCENARIO = Scenario(
    "gid-index", "incast.yaml", PhaseParameters, run,
    (the_gid_has_another_index, nothing_arrives, nothing_alarms), answer=ANSWER,
)  # fmt: skip
