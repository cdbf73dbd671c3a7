"""QoS presets by name: rocelab's own for emulated links, and published ones of vendors and papers.

Published thresholds are bytes at a rate, and stand for a time: 150 KB at 400 Gb/s are 3 us of queue. At another rate
all sizes are scaled by the ratio of the rates, so that a queue lasts as long as the original's. On a slow link that
would be less than a packet. There, sizes are scaled so that ``kmin`` holds ``FLOOR_PACKETS`` of the largest RoCE
packets, and the ratios Kmin : Kmax : XOFF stay.

Presets with congestion control are scaled in the other way: times grow and rates shrink by s = real rate / lab rate,
and thresholds keep their bytes (``lab.model.qos.congestion``). A queue then lasts s times as long, as do the timers.

Vendors publish no XOFF, because it depends on the pool. Here the pool is sized so that a group alone pauses at 5/4 of
Kmax, and marks come first. Several groups pause at less each, and hold no more than the pool together; ``alpha``
determines how much. Every group reserves two of the largest frames, so that control traffic passes when the pool is
full. Headroom is computed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from lab.model.qos.congestion.cc_presets import CC_PRESETS, CcPreset
from lab.model.qos.headroom import HOST_REACTION, ROCE_PACKET, frame_size, headroom_needed, roce_frame
from lab.model.qos.port import (
    CLASSES,
    DSCPS,
    MAX_QUANTA,
    EcnQos,
    GroupQos,
    PfcQos,
    PortQos,
    QueueQos,
    StormAction,
    Trust,
    WatchdogQos,
    vector,
)
from lab.model.qos.profile import STRICT, Weight
from lab.model.values.suggest import suggest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FLOOR_PACKETS: Final = 3
"""RoCE packets that fit below ``kmin`` at any rate: one being sent, one waiting, one arriving."""
DEFAULT: Final = "lab"
UNCONTROLLED: Final = "pfc-ecn"
"""The same switches with NICs that ignore marks. It was called ``lab`` before NICs had congestion control."""

ROCE_DSCP: Final = 26
CNP_DSCP: Final = 48
"""NVIDIA's default for CNPs. It is also CS6, which BGP and BFD use (RFC 4594 section 3.2)."""

_IDENTITY: Final = tuple(range(CLASSES))
_GBIT: Final = 10**9
_LEAD: Final = Fraction(5, 4)
_STORM: Final = 0.2
"""Seconds until the watchdog detects a storm, and its end: SONiC's `pfcwd start_default`."""


def _dscp_map(others: int, priorities: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(priorities.get(dscp, others) for dscp in range(DSCPS))


_MARKED: Final = _dscp_map(0, {ROCE_DSCP: 3, CNP_DSCP: 6})
"""RoCE and CNP by DSCP; other DSCPs are best effort, so that an unplanned one does not become lossless."""
_PRECEDENCE: Final = tuple(dscp >> 3 for dscp in range(DSCPS))
"""By the three precedence bits (RFC 2474 section 4.2.2): DSCP 24 to 31 are priority 3."""
_SONIC: Final = _dscp_map(1, {3: 3, 4: 4, 5: 2, 8: 0, 46: 5, CNP_DSCP: 6, ROCE_DSCP: 3})
"""SONiC's AZURE map with lossless DSCP 3 and 4; 26 is added, because RoCE would be best effort."""
_CISCO: Final = _dscp_map(0, {24: 3, ROCE_DSCP: 3, CNP_DSCP: 7})


@dataclass(frozen=True, slots=True)
class Preset:
    """One preset: ``kmin`` and ``kmax`` in bytes at ``rate`` bit/s; ``weights`` of queues override ``weight``.

    ``roce`` are the priorities of RoCE. Their queues mark; with ``pfc`` they are lossless, without it a group that
    exceeds its threshold drops. ``source`` is the publication of the values. ``cc`` is the congestion control of host
    NICs. With ``bytes_stay`` thresholds keep their bytes on links of any rate, as congestion control needs.
    Without ``ecn`` switches do not mark, and thresholds only size the buffer.
    """

    source: str
    rate: int
    kmin: int
    kmax: int
    pmax: float
    alpha: Fraction = Fraction(1)
    roce: tuple[int, ...] = (3,)
    pfc: bool = True
    dscp: tuple[int, ...] = _MARKED
    queue: tuple[int, ...] = _IDENTITY
    group: tuple[int, ...] = _IDENTITY
    weight: int = 50
    weights: Mapping[int, Weight] = field(default_factory=lambda: {6: STRICT})
    watchdog: bool = False
    cc: CcPreset | None = None
    bytes_stay: bool = False
    ecn: bool = True

    @property
    def lossless(self) -> tuple[int, ...]:
        """The lossless priorities: none without PFC."""
        return self.roce if self.pfc else ()

    def scale(self, rate: int, mtu: int) -> Fraction:
        """Return the scale of sizes on a link of ``rate`` bit/s and ``mtu`` bytes of IP packet."""
        if self.bytes_stay:
            return Fraction(1)
        floor = FLOOR_PACKETS * frame_size(min(mtu, ROCE_PACKET))
        return max(Fraction(rate, self.rate), Fraction(floor, self.kmin))

    def shared(self, rate: int, mtu: int) -> int:
        """Return the bytes s of shared pool that let a lone group pause at 5/4 of Kmax.

        s alpha / (1 + alpha) = 5/4 Kmax.
        """
        return int(self._xoff(rate, mtu) * (1 + self.alpha) / self.alpha)

    def port(self, rate: int, mtu: int, delay: float, reaction: float = HOST_REACTION) -> PortQos:
        """Return a port on a link of ``rate`` bit/s, ``mtu`` bytes of IP packet and ``delay`` seconds one way.

        Its headroom allows the peer ``reaction`` seconds to pause.
        """
        headroom = headroom_needed(rate, mtu, delay, reaction)
        group = GroupQos(
            reserved=2 * frame_size(mtu),
            alpha=self.alpha,
            xoff=None,
            xon=int(self._xoff(rate, mtu) / 2),
            headroom=headroom,
        )
        watchdog = WatchdogQos(enabled=self.watchdog, detection=_STORM, restoration=_STORM, action=StormAction.DROP)
        return PortQos(
            rate=rate,
            mtu=mtu,
            delay=delay,
            reaction=reaction,
            trust=Trust.DSCP,
            dscp_to_priority=self.dscp,
            pcp_to_priority=_IDENTITY,
            priority_to_queue=self.queue,
            priority_to_group=self.group,
            groups=(group,) * CLASSES,
            queues=tuple(self._queue(queue, rate, mtu) for queue in range(CLASSES)),
            pfc=PfcQos(vector(self.lossless), tx=True, rx=True, quanta=MAX_QUANTA, watchdog=watchdog),
            cc=None if self.cc is None else self.cc.qos(rate, roce_frame(mtu)),
        )

    def _queue(self, queue: int, rate: int, mtu: int) -> QueueQos:
        marked = queue in {self.queue[priority] for priority in self.roce}
        scale = self.scale(rate, mtu)
        ecn = EcnQos(
            enabled=marked and self.ecn, kmin=int(self.kmin * scale), kmax=int(self.kmax * scale), pmax=self.pmax
        )
        weight = self.weights.get(queue, self.weight)
        return QueueQos(None if weight == STRICT else weight, self.shared(rate, mtu), ecn)

    def _xoff(self, rate: int, mtu: int) -> Fraction:
        return _LEAD * self.kmax * self.scale(rate, mtu)


def _paper(source: str, cc: CcPreset | None) -> Preset:
    return Preset(source=source, rate=40 * _GBIT, kmin=5_000, kmax=200_000, pmax=0.01, cc=cc, bytes_stay=True)


def _hpcc(source: str, cc: CcPreset) -> Preset:
    """Return DCQCN of HPCC's evaluation: 100 KB / 400 KB / 20% per 25 Gb/s, PFC at 1/8 of the free buffer."""
    return Preset(
        source=source,
        rate=cc.real_rate,
        kmin=100_000,
        kmax=400_000,
        pmax=0.2,
        alpha=Fraction(1, 8),
        cc=cc,
        bytes_stay=True,
    )


_PFC_ECN: Final = Preset(
    source="rocelab: the thresholds of lab, NICs without congestion control",
    rate=10**8,
    kmin=40_000,
    kmax=160_000,
    pmax=0.1,
)
"""3.2 ms of queue to Kmin, 12.8 ms to Kmax, XOFF at 16 ms: long for timers and emulated CPUs. The pool is 32 ms, half
of perftest's 67 ms retransmission timeout, so that a pause does not cause retransmissions.
"""
_CONNECTX: Final = Preset(
    source="NVIDIA: registers of a ConnectX by mlxconfig, thresholds of Cumulus Linux 5, mode lossless",
    rate=CC_PRESETS["connectx"].real_rate,
    kmin=150_000,
    kmax=1_500_000,
    pmax=1.0,
    cc=CC_PRESETS["connectx"],
    bytes_stay=True,
)
"""NVIDIA's own thresholds for its switches, 150 KB / 1500 KB / 100%."""

PRESETS: Final[Mapping[str, Preset]] = {
    "lab": replace(
        _PFC_ECN,
        source="rocelab: thresholds for links of 100 Mb/s, registers of preset paper",
        cc=CC_PRESETS["paper"],
        bytes_stay=True,
    ),
    # The same switches without congestion control: marks slow no sender down, and PFC acts.
    "pfc-ecn": _PFC_ECN,
    # AZURE maps, priorities 3 and 4, WRED 1 MiB / 2 MiB / 5%, DWRR 14 and 15. No rate is stated; 100 Gb/s is assumed.
    "sonic": Preset(
        source="SONiC, qos_config.j2 of sonic-buildimage: maps AZURE, profile AZURE_LOSSLESS",
        rate=100 * _GBIT,
        kmin=2**20,
        kmax=2**21,
        pmax=0.05,
        roce=(3, 4),
        dscp=_SONIC,
        group=(0, 0, 0, 3, 4, 0, 0, 7),
        weight=14,
        weights={3: 15, 4: 15},
        watchdog=True,
    ),
    # 150 KB / 1500 KB, priority 3, CNP strict in 6, the rest in 0.
    "nvidia": Preset(
        source="NVIDIA Cumulus Linux 5, RDMA over Converged Ethernet, mode lossless",
        rate=400 * _GBIT,
        kmin=150_000,
        kmax=1_500_000,
        pmax=1.0,
        dscp=_PRECEDENCE,
        queue=(0, 0, 0, 3, 0, 0, 6, 0),
        group=(0, 0, 0, 3, 0, 0, 6, 0),
    ),
    # 150 KB / 3000 KB / 7%, pause on CoS 3, CNP strict in 7, the rest in 0.
    "cisco": Preset(
        source="Cisco, Data Center Networking Blueprint for AI/ML Applications (Nexus 9000)",
        rate=400 * _GBIT,
        kmin=150_000,
        kmax=3_000_000,
        pmax=0.07,
        dscp=_CISCO,
        queue=(0, 0, 0, 3, 0, 0, 0, 7),
        group=(0, 0, 0, 3, 0, 0, 0, 7),
        weights={7: STRICT},
    ),
    # 5 KB / 200 KB / 1% at 40 Gb/s.
    "dcqcn-thresholds": Preset(
        source="Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015",
        rate=40 * _GBIT,
        kmin=5_000,
        kmax=200_000,
        pmax=0.01,
    ),
    # 100 KB / 400 KB / 20% per 25 Gb/s, PFC at 11% of the free buffer, here 1/8.
    "hpcc-thresholds": Preset(
        source="Li et al., HPCC: High Precision Congestion Control, SIGCOMM 2019, the thresholds it gives DCQCN",
        rate=25 * _GBIT,
        kmin=100_000,
        kmax=400_000,
        pmax=0.2,
        alpha=Fraction(1, 8),
    ),
    # 5 KB / 200 KB / 1%, in bytes at any rate: packets of the paper's 1024 bytes need an MTU of 1500.
    "paper": _paper("Zhu et al., SIGCOMM 2015, DCQCN in switches and NICs", CC_PRESETS["paper"]),
    "connectx": _CONNECTX,
    # The same thresholds and classes without PFC: a group drops where `connectx` pauses.
    "lossy": replace(
        _CONNECTX,
        source="NVIDIA: registers of a ConnectX by mlxconfig, thresholds of Cumulus Linux 5, mode lossy",
        pfc=False,
    ),
    "hpcc": _hpcc("Li et al., HPCC, SIGCOMM 2019, DCQCN of its evaluation, vendor's timers", CC_PRESETS["hpcc"]),
    "hpcc-paper": _hpcc("the same, with the timers of the DCQCN paper", CC_PRESETS["hpcc-paper"]),
    # No marks. T_high is 625 KB of queue at 10 Gb/s, and T_low 62.5 KB: a pause comes beyond both.
    "timely": Preset(
        source="Mittal et al., TIMELY, SIGCOMM 2015, NICs without marks; parameters of HPCC's evaluation",
        rate=CC_PRESETS["timely"].real_rate,
        kmin=62_500,
        kmax=625_000,
        pmax=1.0,
        cc=CC_PRESETS["timely"],
        bytes_stay=True,
        ecn=False,
    ),
    "off": _paper("rocelab: the switches of preset paper, NICs without congestion control", None),
}
"""Presets by name; ``DEFAULT`` is the base of every fabric's QoS."""
RENAMED: Final = {"dcqcn": "dcqcn-thresholds"}
"""Former names of presets, which suggested congestion control in NICs, and set switch thresholds only."""


def suggest_profile(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return the remedy for an unknown profile name."""
    return f"it is called {RENAMED[name]!r} now" if name in RENAMED else suggest(name, known, otherwise)
