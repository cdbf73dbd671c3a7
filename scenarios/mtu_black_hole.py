"""One link takes 1500 bytes where all others take 9000: small works, large hangs, and nothing alarms.

Story
    Given  h1 writes 64 KiB messages to h5 with many QPs, h2 messages of 1 KiB to h6, both over both spines
    When   leaf2's port towards spine1 has an MTU of 1500
    Then   h1's QPs over spine1 get no ACK any more, time out and send again, for ever; h2 notices nothing
    And    probes that may not be fragmented pass with 1472 bytes everywhere, and with 1500 not over spine1
    And    spine1 counts as sent what leaf2 never counts as received; links and sessions are up
    When   the port has the MTU of all others
    Then   everything goes on

        h1, h2 -- leaf1 == spine1 --> 1500 leaf2 -- h5, h6, h7, h8
                        == spine2 ==  9000

Numbers
    a packet of 4096 bytes of RDMA has 4156 bytes of IP, one of 1024 has 1084; an MTU of 1500 is 1472 bytes of ping
    (20 of IP, 8 of ICMP). What is too large for the port that receives is dropped there and answered by nobody: no
    ICMP comes back, and RoCE would not listen to it. SoftRoCE retries for ever where a NIC says retry_exceeded
    16 QPs: that none of them crosses spine1 happens once in 65536 draws
"""

from __future__ import annotations

import json
from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words, time_of
from lab.scenario.state_changes import session_changes
from lab.scenario.traffic.workload import circulating, commands, probe, said, show_link, show_rdma

SENDS: Final = "spine1:swp2"
TAKES: Final = "leaf2:swp1"
SMALL: Final = 1472
LARGE: Final = 1500
PROBED: Final = ("h5", "h6", "h7", "h8")
SETTLING: Final = 1.2
"""Seconds: a QP that waits for an ACK waits for 1.07 s."""


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(1, 60)] = 1.5
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """9000, 1500, 9000."""
    with stage.writing("h1:h5", qps=16), circulating(stage, "h2:h6", packets=16, size=1024):
        with stage.phase("baseline"):
            stage.hold(p.hold)
            _probe_all(stage)
        with stage.phase("inject"):
            narrow = stage.inject("link-mtu", TAKES, mtu=1500)
        with stage.phase("observe"):
            stage.hold(p.hold)
            _probe_all(stage)
            stage.run("leaf2", "ip", "-json", "link", "show")
        show_link(stage, SENDS)
        show_link(stage, TAKES)
        show_rdma(stage, "h1")
        stage.linger()
        with stage.phase("fix"):
            stage.heal(narrow)
            stage.hold(SETTLING)
        with stage.phase("verify"):
            stage.hold(p.hold)


def _probe_all(stage: Stage) -> None:
    for host in PROBED:
        probe(stage, "h1", host, size=SMALL)
        probe(stage, "h1", host, size=LARGE)


def large_hangs_and_small_works(rec: Recording, p: Params) -> Verdict:
    """h1 sends again meanwhile, h2 never does."""
    large, small = (
        [rec.rdma(host).counter("completer_retry_err").during(phase).delta() for phase in ("baseline", "observe")]
        for host in ("h1", "h2")
    )
    told = f"retries of h1 {large[0]} before and {large[1]} meanwhile, of h2 {small[0]} and {small[1]}"
    return expect(large[0] == 0 < large[1] and not any(small), told)


def probes_fail_above_a_size(rec: Recording, p: Params) -> Verdict:
    """Before all pass; meanwhile small ones all pass, and large ones to some hosts do not."""
    lost = {
        (phase, size): sum(each.exit_code != 0 for each in commands(rec, phase, "ping") if str(size) in each.argv)
        for phase in ("baseline", "observe")
        for size in (SMALL, LARGE)
    }
    told = ", ".join(f"{count} of {len(PROBED)} with {size} in {phase}" for (phase, size), count in lost.items())
    return expect(lost.pop(("observe", LARGE)) > 0 and not any(lost.values()), f"probes lost: {told}")


def one_link_is_smaller(rec: Recording, p: Params) -> Verdict:
    """Of all interfaces of leaf2 one has another MTU."""
    links = {link["ifname"]: link["mtu"] for link in json.loads(said(rec, "observe", "ip")) if link["ifname"] != "lo"}
    smaller = {name: mtu for name, mtu in links.items() if mtu < max(links.values())}
    return expect(list(smaller) == [TAKES.partition(":")[2]], f"{in_words(smaller)} of {len(links)} interfaces")


def no_counter_of_a_port_tells(rec: Recording, p: Params) -> Verdict:
    """What spine1 sends does not come in at leaf2, and no port drops it."""
    left = rec.port(SENDS).tx_packets(3).during("observe").delta()
    arrived = rec.port(TAKES).rx_packets(3).during("observe").delta()
    dropped = sum(rec.port(port).drops().during("observe").delta() for port in rec.ports)
    sessions = session_changes(rec, "observe")
    told = (
        f"{left} packets left {SENDS}, {arrived} came to {TAKES}, {dropped} dropped, {len(sessions)} sessions changed"
    )
    return expect(left > arrived and dropped == 0 and not sessions, told)


ANSWER: Final = StoryAnswer(
    cause="mtu-black-hole",
    where=("leaf2:swp1", "leaf2--spine1"),
    level=2,
    workload="h1 writes large messages to h5 with 16 QPs, h2 small ones to h6",
    hints=(
        "some of h1's QPs hang and others do not; h2's small messages all arrive",
        "between spine1 and leaf2: what crosses spine2 arrives",
        "tx_prio3_packets of spine1:swp2 and rx_prio3_packets of leaf2:swp1",
        "rocelab exec h1 -- ping -M do -s 1500 to each of h5 to h8, and ip link show on leaf2",
        "1472 bytes pass everywhere, 1500 not over spine1: leaf2:swp1 has an MTU of 1500",
    ),
    sign="small packets pass where large ones vanish (ping -M do -s 1472, then -s 1500, by every path)",
    because=(
        "leaf2's port to spine1 has an MTU of 1500 where all others have 9000: what is larger is dropped, "
        "and nobody told."
    ),
    fix="Give leaf2:swp1 the MTU of all others.",
    prevention=(
        "One MTU end to end from one template; sweep every path with packets of full size that may not be fragmented."
    ),
)

SCENARIO = Scenario(
    "mtu-black-hole", "incast.yaml", Params, run,
    (large_hangs_and_small_works, probes_fail_above_a_size, one_link_is_smaller, no_counter_of_a_port_tells),
    answer=ANSWER,
)  # fmt: skip
