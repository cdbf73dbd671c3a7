"""The cost of limited QPs: packets per second of a NIC with none, with 64 and with 1,024 of them. In the VM, as root.

    ./scripts/bench limiters [--json] [--rounds N]

pktgen puts small packets into the root qdisc of a NIC with DCQCN. The port takes them for RoCEv2: behind the UDP
header, pktgen writes a word in place of the BTH's opcode, and the packet's number in place of the destination QPN.
Consecutive numbers belong to one QP, in bursts. So the rest of a burst waits while packets of other QPs arrive. The
sum of all limits is the rate of the NIC without limits, and no packet is dropped.

Targets: 90% of that rate with 64 limited QPs; with 1,024, a packet takes less than 1.3 times as long as with 64.
"""

from __future__ import annotations

import ctypes
import os
import re
import statistics
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.cli.kit.output import stderr, stdout, table
from lab.kernel.bpf import pins
from lab.kernel.bpf.libbpf import library
from lab.kernel.process import process
from lab.model.qos.congestion.cc_presets import CC_PRESETS
from lab.wire.craft import build
from tests.bench.bench_command import run_bench
from tests.inside import entered
from tests.vm.limited_qp import LOSSLESS, OURS, PATH
from tests.vm.one_switch import OVERHEAD, waited
from tests.vm.port_programs import MAC, PORT, QP_KEY, SWP1, Switch, gid, switch

if TYPE_CHECKING:
    from lab.model.qos.congestion.cc_registers import CcQos

RATE: Final = 10**9
"""The rate of the NIC's link in bit/s. One CPU does not fill it with such packets."""
COUNTS: Final = (0, 64, 1024)
SHARE_TARGET: Final = 0.9
TIME_TARGET: Final = 1.3
PACKETS: Final = 30_000
BURST: Final = 4
SIZE: Final = 60
SLOTS: Final = 16_384
_ROCE: Final = 4791
_PKTGEN: Final = Path("/proc/thread-self/net/pktgen")
_GENERATE: Final = (
    f"count {PACKETS}\npkt_size {SIZE}\nxmit_mode queue_xmit\ntos {LOSSLESS << 2:x}\n"
    f"src_mac {MAC}\ndst_mac {PATH.src_mac}\nsrc_min {PATH.dst}\nsrc_max {PATH.dst}\ndst {PATH.src}\n"
    f"udp_dst_min {_ROCE}\nudp_dst_max {_ROCE}"
)
_RESULT: Final = re.compile(r"Result: OK: (\d+)\(.* errors: (\d+)", re.DOTALL)


def registers(limit: float) -> CcQos:
    """Return registers with which the first CNP sets a QP's rate to ``limit`` bit/s for good."""
    published = replace(
        CC_PRESETS["connectx"].registers,
        rpg_time_reset=1000.0,
        rpg_min_rate=1,
        rate_to_set_on_first_cnp=round(limit),
    )
    return replace(CC_PRESETS["connectx"], real_rate=RATE, registers=published).qos(RATE, SIZE)


def limit_qps(nic: Switch, count: int, packets_per_second: float) -> None:
    """Limit ``count`` QPs to equal parts of a rate, and map the generator's packet numbers to them."""
    nic.reset(replace(PORT, rate=RATE, cc=registers(packets_per_second * 8 * (SIZE + OVERHEAD) / max(count, 1))))
    for number in range(max(count, 1)):
        nic.connect(PATH.dst, OURS + number, PATH.src, number, fresh=not number)
    for number in range(count):
        nic.rx(build.cnp(PATH, OURS + number))
    keys = np.zeros(PACKETS + 1, QP_KEY)
    keys["netns"], keys["qpn"], keys["address"] = nic.inside.path.stat().st_ino, np.arange(len(keys)), gid(PATH.src)
    peers = pins.open_pinned(pins.map_path(pins.folder_of(nic.name), "limited_peers"))
    try:
        leases = [_lease(peers, key.tobytes()) for key in keys[:count]]
        for number, key in enumerate(keys if count else ()):
            lease = leases[number // BURST % count]
            assert library().bpf_map_update_elem(peers, key.tobytes(), ctypes.byref(lease), 0) == 0
    finally:
        os.close(peers)


def _lease(peers: int, key: bytes) -> ctypes.c_uint64:
    lease = ctypes.c_uint64()
    assert library().bpf_map_lookup_elem(peers, key, ctypes.byref(lease)) == 0
    return lease


def generate(nic: Switch) -> float:
    """Run the generator, and return the packets per second that the NIC sends meanwhile."""
    queue = nic.maps.counters[SWP1]["queue"]
    with entered(nic.inside):
        (_PKTGEN / "pgctrl").write_text("start")
        sent = int(queue["sent_packets"].sum())
        (found,) = _RESULT.findall((_PKTGEN / "swp1").read_text())
    waited(lambda: not queue["depth_packets"].any(), "the queue to empty")
    took, errors = (int(each) for each in found)
    assert errors == 0, "packets were dropped"
    return sent * 1e6 / took


def measure(rounds: int) -> dict[str, object]:
    """Return all rates, and the ratios that have a target."""
    figures = send(rounds)
    none, few, many = (statistics.median(each) for each in figures.values())
    return {
        **figures,
        "share": few / none,
        "share_target": SHARE_TARGET,
        "time_ratio": few / many,
        "time_target": TIME_TARGET,
    }


def send(rounds: int) -> dict[str, list[float]]:
    """Return the packets per second with each of ``COUNTS``, which take turns."""
    process.run(["modprobe", "pktgen"])
    figures: dict[int, list[float]] = {count: [] for count in COUNTS}
    with switch(SLOTS) as nic:
        with entered(nic.inside):
            (_PKTGEN / "kpktgend_0").write_text("add_device swp1")
            for command in _GENERATE.splitlines():
                (_PKTGEN / "swp1").write_text(command)
        for number in range(rounds):
            stderr.print(f"round {number + 1} of {rounds}", highlight=False)
            for count in COUNTS:
                limit_qps(nic, count, statistics.median(figures[0] or [1.0]))
                figures[count].append(generate(nic))
                limited = int(nic.maps.ports["state"]["limited"][SWP1])
                assert limited == count, f"{limited} QPs are limited, not {count}"
    return {f"limited_{count}_pps": each for count, each in figures.items()}


def show(measured: dict[str, object]) -> None:
    """Print a row per number of QPs with all rounds, and the ratios of the medians."""
    rows = []
    for count in COUNTS:
        values = measured[f"limited_{count}_pps"]
        assert isinstance(values, list)
        rows.append((f"{count:,}", f"{statistics.median(values):,.0f}", ", ".join(f"{each:,.0f}" for each in values)))
    stdout.print(table("Packets per second that a NIC sends", ("limited QPs", "median", "rounds"), rows))
    share = f"64 limited QPs reach {measured['share']:.0%} of a NIC without any (target: {SHARE_TARGET:.0%})"
    stdout.print(share, highlight=False)
    ratio = f"a packet of 1,024 limited QPs takes {measured['time_ratio']:.2f} times as long as one of 64"
    stdout.print(f"{ratio} (target: less than {TIME_TARGET})", highlight=False)


if __name__ == "__main__":
    run_bench("limiters", __doc__, {"rounds": (int, 5)}, measure, show)
