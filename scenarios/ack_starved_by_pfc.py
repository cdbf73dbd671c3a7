"""ACKs in a paused class: they wait behind paused data, and QPs retransmit what has arrived long ago.

Story
    Given  h4 writes to h1, h2 and h3, and gets their ACKs in time
    When   h1, h2 and h3 also write to h4, so that leaf1 pauses their class
    Then   their ACKs wait in the same class behind their own data, for longer than the timeout of h4's QPs
    And    h4 retransmits packets that had arrived, although nothing was lost, and its useful rate falls
    When   h4 writes in another lossless class, and gets its ACKs there
    Then   nothing is retransmitted, and h4 has its rate back

        h1 --+                     data of h4 -->
        h2 --+ leaf1 ----- h4      <-- data of h1, h2 and h3, paused; and ACKs, behind them
        h3 --+

Numbers
    test case 11 of SONiC's RoCEv2 test plan: incast and broadcast, with ACKs in the paused class, and in another one
    h1 sends a third of 100 Mb/s. Its six QPs keep 384 packets of 4 KB in the NIC, 1.6 MB: an ACK behind them waits
    for 0.38 s. A QP of h4 may have 128 packets without an ACK under way, so it sends 128 in 0.38 s. In messages of
    1 MB every 65th packet asks for an ACK: one comes each 0.19 s, and without the incast each 0.065 s
    the timeout of h4's QPs is 0.13 s (4.096 us x 2^15), and that of the incast 0.54 s
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated, Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect, time_of
from lab.scenario.phase_measures import ACTS, LOSSLESS, dropped, listed, mbits, paused_share, rdma_growth
from lab.scenario.three_acts import PhaseParameters, three_acts
from lab.scenario.traffic.patterns import incast
from lab.scenario.traffic.workload import show_rdma

SENDERS: Final = ("h1", "h2", "h3")
ROOT: Final = "h4"
BROADCAST: Final = tuple(f"{ROOT}:{host}" for host in SENDERS)
CLASS: Final = 4
DSCP: Final = 34
TCLASS: Final = DSCP << 2 | 2
"""With ECT(0)."""
TIMEOUT: Final = 15
"""4.096 us x 2^15 = 0.13 s: perftest's default is half of it, rocelab's is eight times as long."""
JOINING: Final = 1.5
"""Seconds until the NICs' queues are full, and QPs have timed out."""
INCAST_QPS: Final = 6
"""QPs of each sender."""
SIZE: Final = 1 << 20
"""Bytes of h4's messages. With 64 KiB an ACK comes each 16 packets: sooner than the timeout, although it is late."""
FRAME: Final = 4096 + 74
"""Bytes of a data packet, without FCS."""
MANY: Final = 100
"""Packets received twice in a phase, from which on ACKs are late."""
LEFT: Final = 0.7
"""With late ACKs, the useful rate is less than this part of the rate without."""
STOPPED: Final = 0.3
"""The least share of the time for which each sender of the incast is paused."""


class Params(PhaseParameters):
    """Longer phases, for QPs that time out."""

    hold: Annotated[float, time_of(1, 60)] = 3.0
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """The broadcast alone, beside an incast in its class, and in a class of its own."""
    with ExitStack() as writers:

        def join() -> None:
            writers.enter_context(stage.writing(*incast(SENDERS, ROOT), qps=INCAST_QPS))
            stage.hold(JOINING)

        def separate() -> None:
            writers.close()
            stage.set("spine,leaf,host", "pfc.priorities=3,4", f"map.dscp.{DSCP}={CLASS}")
            writers.enter_context(stage.writing(*BROADCAST, size=SIZE, tclass=TCLASS, timeout=TIMEOUT))
            join()

        writers.enter_context(stage.writing(*BROADCAST, size=SIZE, timeout=TIMEOUT))
        three_acts(stage, p.hold, broken=join, fix=separate, show=lambda: show_rdma(stage, "h1"))


def acks_come_too_late(rec: Recording, p: Params) -> Verdict:
    """Beside the incast h4's QPs time out, and its receivers get packets twice; otherwise they get none twice."""
    twice = _twice(rec)
    timeouts = rdma_growth(rec, ROOT, "completer_retry_err")
    evidence = f"packets received twice: {listed(twice)}; timeouts {listed(timeouts)}"
    return expect(twice[1] >= MANY and timeouts[1] > 0 and twice[0] == twice[2] == 0, evidence)


def _twice(rec: Recording) -> list[int]:
    """Return how many of h4's packets arrived twice in each act."""
    return list(map(sum, zip(*(rdma_growth(rec, host, "duplicate_request") for host in SENDERS), strict=True)))


def nothing_is_lost(rec: Recording, p: Params) -> Verdict:
    """No port drops a packet of either class, and no NIC misses one: retransmissions have no loss as their reason."""
    lost = sum(dropped(rec, *ACTS, priority=each) for each in (LOSSLESS, CLASS))
    missed = sum(sum(rdma_growth(rec, host, "out_of_seq_request")) for host in (*SENDERS, ROOT))
    return expect(lost == missed == 0, f"{lost} packets dropped, {missed} out of sequence")


def the_acks_class_is_paused(rec: Recording, p: Params) -> Verdict:
    """leaf1 pauses the class in which h1, h2 and h3 send both data and ACKs; it does not pause h4."""
    paused = {host: paused_share(rec, "observe", f"{host}:eth1") for host in (*SENDERS, ROOT)}
    evidence = ", ".join(f"{host} {share:.0%}" for host, share in paused.items())
    return expect(min(paused[host] for host in SENDERS) > STOPPED and paused[ROOT] == 0, f"paused: {evidence}")


def the_useful_rate_falls(rec: Recording, p: Params) -> Verdict:
    """h4's rate without packets received twice falls with late ACKs, and is back in a class of its own."""
    useful = []
    for act, priority, twice in zip(ACTS, (LOSSLESS, LOSSLESS, CLASS), _twice(rec), strict=True):
        wasted = twice * FRAME * 8 / 1e6 / rec.phase(act).seconds
        useful.append(mbits(rec, f"{ROOT}:eth1", act, priority) - wasted)
    before, during, after = useful
    evidence = f"Mb/s: {listed([f'{rate:.1f}' for rate in useful])}"
    return expect(during < LEFT * before and after > 0.9 * before, evidence)


ANSWER: Final = StoryAnswer(
    cause="ack-starved-by-pfc",
    where=("h4", "h4:eth1", "leaf1"),
    level=3,
    workload="h4 writes to h1, h2 and h3, and they write to h4",
    hints=(
        "h4 is slow, and its QPs retransmit, although no port drops a packet",
        "h1, h2 and h3: they receive what h4 sends, and more than once; follow their ACKs",
        "duplicate_request of h1, h2 and h3, completer_retry_err of h4, rx_prio3_pause_duration of h1:eth1",
        "rocelab exec h1 -- rdma statistic show, and rocelab congestion",
        "ACKs wait in priority 3 behind data that leaf1 pauses, for longer than the timeout of h4's QPs",
    ),
    sign="NICs receive packets twice, nothing is lost, and their class is paused (duplicate_request)",
    because="ACKs share the class of data. The incast pauses it, and h4's QPs time out before their ACKs arrive.",
    fix="Give ACKs, or traffic in the other direction, a class of its own; or use a longer timeout.",
    prevention="Map ACKs to a class that is not paused, and use congestion control, so that PFC rarely acts.",
)

SCENARIO = Scenario(
    "ack-starved-by-pfc", "incast.yaml", Params, run,
    (acks_come_too_late, nothing_is_lost, the_acks_class_is_paused, the_useful_rate_falls), answer=ANSWER,
)  # fmt: skip
