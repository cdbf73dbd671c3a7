"""An MTU that is not negotiated: ib_write_bw passes between two hosts, and a job between them does not start.

Story
    Given  h1 and h2 train, and their library has a fixed path MTU of 4096 bytes (UCX_IB_PATH_MTU)
    When   h2 is installed again, and its link has an MTU of 1500: its NIC has an active MTU of 1024, h1's has 4096
    Then   the job does not start: h2 cannot send packets of 4096 bytes, and drops those that it receives
    And    ib_write_bw passes: both ends exchange their active MTU, and use the smaller one, 1024
    And    without the setting the job runs: the library exchanges the MTU, too, and only its headers cost time
    When   h2's link has an MTU of 9000 again
    Then   the job runs with its setting, and a step takes as long as before

        h1 --9000-- leaf1 --9000 ... 1500-- h2
        active MTU 4096                active MTU 1024

Numbers
    4096 bytes of payload have up to 104 bytes of headers (IP, UDP, BTH, RETH, ICRC): 4200 bytes are needed
    a path MTU is a power of two: of an MTU of 1500, 1024 bytes are left for payload (IBA vol. 1, 9.4.3)
    a packet of 1024 bytes has 1082 with its headers, and takes 1106 on the link: 8.0% more than its payload, where
    one of 4096 takes 2.0% more. In a ring of two each rank sends all gradients, 3.2 MB: 0.256 s without headers,
    and 15 ms more with small packets. The emulated CPU needs some ms more for four times as many packets
    SoftRoCE ends the QP at once, because h2's kernel sends no packet that exceeds its MTU. How a hardware NIC fails
    was not tried: it may reject the QP, or send until the retries are exceeded
"""

from __future__ import annotations

import re
from typing import Final

from lab.rdma.nic_choice import find_nic
from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, unknown
from lab.scenario.phase_measures import LOSSLESS
from lab.scenario.shared_checks import no_link_or_session_changes
from lab.scenario.traffic.finite_transfers import transfer
from lab.scenario.traffic.training import attempt, failures, job_in, milliseconds, per_byte, train
from lab.scenario.traffic.workload import commands

HOSTS: Final = ("h1", "h2")
PAIR: Final = "h1:h2"
NIC: Final = "h2:eth1"
LARGE, SMALL = 4096, 1024
"""Path MTUs: that of the setting, and that of h2's link with the fault."""
FRAME: Final = SMALL + 14 + 20 + 8 + 12 + 4
"""Bytes of a packet as ports count it: Ethernet, IPv4, UDP, BTH, payload and ICRC."""
RATE: Final = 100e6
SIZE: Final = 3_200_000
MESSAGES: Final = 40
"""Of 64 KiB, in a test of ib_write_bw."""
ALLOWED: Final = 0.006
"""Seconds: two runs of a job differ by a few ms."""
_ACTIVE: Final = re.compile(r"active_mtu:\s+(\d+)")


def job_of(setting: str) -> str:
    """Return the job, with the setting of its library."""
    return (
        f"{{name: ring, hosts: [{', '.join(HOSTS)}], steps: 3, compute: 50ms, "
        f"allreduce: {SIZE}, algorithm: ring, data: {{buckets: 1}}{setting}}}"
    )


FIXED: Final = job_of(f", mtu: {LARGE}")
EXCHANGED: Final = job_of("")


class Params(Parameters):
    """Nothing to set: each phase lasts as long as its work."""


def run(stage: Stage, p: Params) -> None:
    """One MTU, two MTUs, one MTU."""
    with stage.phase("baseline"):
        train(stage, FIXED)
    with stage.phase("inject"):
        entry = stage.inject("link-mtu", NIC, mtu=1500)
    with stage.phase("observe"):
        attempt(stage, FIXED)
        for host in HOSTS:
            stage.run(host, "ibv_devinfo", "-d", find_nic(stage.fabric, host).device)
    with stage.phase("bandwidth"):
        transfer(stage, PAIR, messages=MESSAGES)
    with stage.phase("exchanged"):
        train(stage, EXCHANGED)
    stage.linger(lambda: attempt(stage, FIXED))
    with stage.phase("fix"):
        stage.heal(entry)
    with stage.phase("verify"):
        train(stage, FIXED)


def the_job_does_not_start(rec: Recording, p: Params) -> Verdict:
    """With the fault and its setting, the job fails, and no job fails otherwise."""
    failed = {phase: failures(rec, phase) for phase in ("baseline", "exchanged", "observe", "verify")}
    evidence = "; ".join(f"{phase}: {', '.join(said) or 'no failure'}" for phase, said in failed.items())
    return expect([phase for phase, said in failed.items() if said] == ["observe"], evidence)


def the_active_mtus_differ(rec: Recording, p: Params) -> Verdict:
    """ibv_devinfo reports the MTU of each host's NIC: h2's is smaller than that of the setting."""
    found = [_ACTIVE.search(each.stdout) for each in commands(rec, "observe", "ibv_devinfo")]
    active = [int(each[1]) for each in found if each]
    evidence = f"active_mtu of {' and '.join(HOSTS)}: {' and '.join(map(str, active))}"
    return expect(active == [LARGE, SMALL], evidence)


def ib_write_bw_negotiates(rec: Recording, p: Params) -> Verdict:
    """With the fault, ib_write_bw completes all messages, in packets of the smaller MTU."""
    done = sum(each.messages for each in rec.transfers("bandwidth"))
    packets, octets = (
        rec.delta(f"tx_prio{LOSSLESS}_{what}", "h1:eth1", "bandwidth") for what in ("packets", "bytes")
    )
    if not packets:
        return unknown("h1 sent no packet")
    mean = octets / packets
    evidence = f"{done} of {MESSAGES} messages, with {mean:.0f} bytes in a packet; {FRAME} with an MTU of {SMALL}"
    return expect(done == MESSAGES and abs(mean - FRAME) < 0.01 * FRAME, evidence)


def the_library_passes_if_it_negotiates(rec: Recording, p: Params) -> Verdict:
    """Without the setting, a step is longer by the headers of the smaller packets, and by less than a tenth.

    The emulated CPU also works for four times as many packets.
    """
    before, small = (job_in(rec, phase).step_s for phase in ("baseline", "exchanged"))
    wanted = SIZE * 8 / RATE * (per_byte(SMALL) - per_byte(LARGE))
    evidence = (
        f"{milliseconds((before, small), ('baseline', 'exchanged'))}: {1000 * (small - before):.1f} ms longer, "
        f"{1000 * wanted:.1f} by the headers"
    )
    return expect(wanted - ALLOWED < small - before < before / 10, evidence)


def the_job_recovers(rec: Recording, p: Params) -> Verdict:
    """With one MTU, the job runs with its setting, and a step takes as long as before."""
    before, after = (job_in(rec, phase).step_s for phase in ("baseline", "verify"))
    return expect(abs(after - before) < ALLOWED, milliseconds((before, after), ("baseline", "verify")))


ANSWER: Final = StoryAnswer(
    cause="mtu-not-negotiated",
    where=(NIC, "h2", "h2--leaf1", "leaf1:swp4"),
    level=2,
    workload="h1 and h2 start a training job, whose library has a fixed path MTU of 4096 bytes",
    hints=(
        "a job of h1 and h2 fails as it starts, and ib_write_bw between the two hosts passes",
        "the two hosts: the network forwards all that they send",
        "the MTU that each program uses: rocelab rdma bw h1 h2 beside the job's setting, mtu: 4096",
        "rocelab exec h2 -- ibv_devinfo, and the same on h1: active_mtu",
        "h2's active_mtu is 1024, since its link has an MTU of 1500; the job's library uses 4096 without asking",
    ),
    sign="a NIC has a smaller active_mtu than the setting of the job (ibv_devinfo), and jobs without it pass",
    because="h2's link has an MTU of 1500, and the library sends packets of 4096 bytes without asking its peer.",
    fix="Set the MTU of h2's link to 9000 as on all other hosts, or remove the library's setting (UCX_IB_PATH_MTU).",
    prevention="Compare active_mtu of all hosts before a job starts, and let the library exchange it.",
)

SCENARIO = Scenario(
    "mtu-not-negotiated", "incast.yaml", Params, run,
    (the_job_does_not_start, the_active_mtus_differ, ib_write_bw_negotiates, the_library_passes_if_it_negotiates,
     no_link_or_session_changes, the_job_recovers), answer=ANSWER,
)  # fmt: skip
