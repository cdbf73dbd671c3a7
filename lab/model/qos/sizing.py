"""Size the thresholds of a lossless class on a real link: Kmin, Kmax, Pmax, XOFF, XON and headroom.

Every figure is a sum or a ratio of a few terms. ``make_plan`` returns the terms with their arithmetic and sources, so
that they can be checked by hand. Sizes are int bytes rounded up, rates int bit/s, times float seconds, lengths
metres.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from lab.model.qos.headroom import L2_OVERHEAD
from lab.units import PAUSE_QUANTUM_BITS, WIRE_OVERHEAD, counted, format_rate, format_time

if TYPE_CHECKING:
    from collections.abc import Mapping

GBIT: Final = 10**9
PROPAGATION: Final = 198_000_000
"""Metres a second in fibre, as in SONiC's calculation; 5.05 ns a metre."""
PFC_ON_WIRE: Final = 64 + 20
"""Bytes of a PFC frame with its preamble and gap: 672 bit times."""
RESPONSE_QUANTA: Final[Mapping[int, int]] = {
    10**8: 1, GBIT: 2, 10 * GBIT: 60, 25 * GBIT: 80, 40 * GBIT: 118, 50 * GBIT: 147, 100 * GBIT: 394,
    200 * GBIT: 453, 400 * GBIT: 905,
}  # fmt: skip
"""Quanta of 512 bit times that a port may take to obey a pause, by rate (IEEE 802.3 clause 31B.3.7)."""
INTERFACE_BITS: Final[Mapping[int, int]] = {10 * GBIT: 8192, 25 * GBIT: 6144, 40 * GBIT: 24_576, 100 * GBIT: 122_880}
"""Bit times that MAC and PHY of one end may hold a frame, by rate (IEEE 802.3; the largest that each rate allows)."""
FLOOR_FRAMES: Final = 3
"""Frames below Kmin: one being sent, one waiting, one arriving."""
LINKS: Final = 4
"""Links between two hosts of a leaf-spine fabric."""

_IEEE: Final = "IEEE 802.1Qbb"
_CLAUSE_31B: Final = "IEEE 802.3 clause 31B.3.7"


@dataclass(frozen=True, slots=True)
class SizedLink:
    """A link and what it carries: ``mtu`` is the largest lossless IP packet, ``port_mtu`` the largest of any class.

    ``response`` (quanta) and ``interface`` (bit times) are what a data sheet says; None takes the standard's limit.
    """

    rate: int
    length: float
    mtu: int
    port_mtu: int
    response: int | None = None
    interface: int | None = None

    @property
    def delay(self) -> float:
        """Seconds that a bit takes from end to end."""
        return self.length / PROPAGATION


@dataclass(frozen=True, slots=True)
class Term:
    """A summand: its name, its bytes, their arithmetic, and its source."""

    name: str
    size: int
    arithmetic: str
    source: str


@dataclass(frozen=True, slots=True)
class SizedThreshold:
    """A recommended threshold: bytes, or a probability for pmax."""

    name: str
    """kmin, kmax, pmax, xoff, xon, headroom, or buffer, which is the total of all senders."""
    value: float
    arithmetic: str
    source: str
    larger: str
    """The cost of a larger value."""
    smaller: str
    """The cost of a smaller value."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All thresholds of one lossless class, for ``senders`` that write to one port; ``rtt`` in seconds."""

    cable: SizedLink
    senders: int
    rtt: float
    terms: tuple[Term, ...]
    choices: tuple[SizedThreshold, ...]

    def value(self, name: str) -> float:
        """Return the value of a threshold by its name; raise KeyError if there is none."""
        return {choice.name: choice.value for choice in self.choices}[name]

    def size(self, name: str) -> int:
        """Return the bytes of a threshold by its name."""
        return int(self.value(name))


def wire_size(mtu: int) -> int:
    """Return the bytes of the largest frame on the wire, with Ethernet header, VLAN tag, FCS, preamble and gap."""
    return mtu + L2_OVERHEAD + WIRE_OVERHEAD


def _bytes(rate: int, seconds: float) -> int:
    """Return the bytes that a link of ``rate`` bit/s carries in ``seconds``, rounded up."""
    return math.ceil(Fraction(seconds) * rate / 8)


def _at(table: Mapping[int, int], rate: int) -> int:
    """Return the entry of the lowest rate that is at least ``rate``, or of the highest rate."""
    return next((table[known] for known in sorted(table) if known >= rate), table[max(table)])


def headroom_terms(cable: SizedLink) -> tuple[Term, ...]:
    """Return the terms of headroom: the bytes that can arrive after the decision to pause, in order of events."""
    response = _at(RESPONSE_QUANTA, cable.rate) if cable.response is None else cable.response
    interface = _at(INTERFACE_BITS, cable.rate) if cable.interface is None else cable.interface
    ours, theirs = wire_size(cable.port_mtu), wire_size(cable.mtu)
    trip = _bytes(cable.rate, 2 * cable.delay)
    both = math.ceil(2 * interface / 8)
    of_response = math.ceil(response * PAUSE_QUANTUM_BITS / 8)
    overhead = f"{L2_OVERHEAD} + {WIRE_OVERHEAD}"
    rate = format_rate(cable.rate)
    return (
        Term(
            name="a frame that has just begun delays the pause",
            size=ours,
            arithmetic=f"{cable.port_mtu} + {overhead} B",
            source=_IEEE,
        ),
        Term(name="the PFC frame itself", size=PFC_ON_WIRE, arithmetic="64 + 20 B", source="IEEE 802.3 clause 31D"),
        Term(
            name="the cable, there and back",
            size=trip,
            arithmetic=f"2 x {cable.length:g} m / {PROPAGATION / 1e8:g}e8 m/s x {rate} / 8",
            source=f"{_IEEE}; speed: SONiC",
        ),
        Term(name="MAC and PHY of both ends", size=both, arithmetic=f"2 x {interface} bit times / 8", source=_IEEE),
        Term(
            name="the peer's response to the pause",
            size=of_response,
            arithmetic=f"{response} quanta x 512 / 8",
            source=_CLAUSE_31B,
        ),
        Term(
            name="a lossless frame that the peer has just begun",
            size=theirs,
            arithmetic=f"{cable.mtu} + {overhead} B",
            source=_IEEE,
        ),
    )


def headroom(cable: SizedLink) -> int:
    """Return the bytes of headroom above XOFF for one lossless class of one port."""
    return sum(term.size for term in headroom_terms(cable))


def least_rtt(cable: SizedLink, links: int = LINKS) -> float:
    """Return the seconds that a full frame and its answer take over ``links`` idle store-and-forward links."""
    return 2 * links * (cable.delay + 8 * wire_size(cable.mtu) / cable.rate)


def fixed_point(rate: int, senders: int, mtu: int) -> float:
    """The marking probability at which DCQCN settles for ``senders`` equal flows on one link of ``rate`` bit/s.

    Zhu et al., "ECN or Delay", CoNEXT 2016, with the parameters of the SIGCOMM 2015 paper: additive
    increase of 40 Mb/s per 40 Gb/s, timer and alpha timer 55 us, byte counter 10 MB.
    """
    packet = 8 * mtu
    packets = rate / packet
    increase = 40e6 / (40 * GBIT) * rate / packet
    timer, counter = 55e-6, 10e6 / mtu
    spread = 1 / counter + senders / (timer * packets)
    return float((increase * senders**2 / (timer * packets**2) * spread**2) ** (1 / 3))


def ecn_bound(buffer: int, ports: int, classes: int, flight: int, beta: float) -> float:
    """Bytes of egress queue below which ECN must mark so that it always comes before PFC.

    Zhu et al., SIGCOMM 2015, section 4: beta (B - classes n t_flight) / (classes n (beta + 1)), for a switch of
    ``buffer`` bytes and ``ports`` ports with dynamic thresholds of factor ``beta`` and headroom ``flight``.
    """
    return beta * (buffer - classes * ports * flight) / (classes * ports * (beta + 1))


def make_plan(cable: SizedLink, senders: int, rtt: float | None = None) -> Plan:
    """Return the thresholds of a lossless class for ``senders`` hosts that write to one over links like ``cable``."""
    terms = headroom_terms(cable)
    needed = sum(term.size for term in terms)
    round_trip = least_rtt(cable) if rtt is None else rtt
    kmin = _kmin(cable, round_trip)
    marking = _marking(kmin, senders, fixed_point(cable.rate, senders, cable.mtu))
    choices = (kmin, *marking, *_pausing(int(marking[0].value), needed, cable, senders))
    return Plan(cable=cable, senders=senders, rtt=round_trip, terms=terms, choices=choices)


def _kmin(cable: SizedLink, rtt: float) -> SizedThreshold:
    """Return Kmin: a seventh of the bandwidth-delay product, and at least three frames."""
    path, floor = _bytes(cable.rate, rtt / 7), FLOOR_FRAMES * (cable.mtu + L2_OVERHEAD)
    return SizedThreshold(
        name="kmin",
        value=max(path, floor),
        arithmetic=(
            f"the larger of rate x RTT / 7 = {path} (RTT {format_time(rtt)}) and {FLOOR_FRAMES} frames = {floor}"
        ),
        source="Alizadeh et al., DCTCP, SIGCOMM 2010, eq. 13",
        larger="every flow waits longer",
        smaller="marks without congestion, and an idle link",
    )


def _marking(kmin: SizedThreshold, senders: int, chance: float) -> tuple[SizedThreshold, ...]:
    """Return Kmax, and Pmax for flows that settle at a marking probability of ``chance``."""
    return (
        SizedThreshold(
            name="kmax",
            value=4 * int(kmin.value),
            arithmetic=f"4 x Kmin = 4 x {int(kmin.value)}",
            source="ratio of HPCC's evaluation, SIGCOMM 2019",
            larger="deeper queues before everything is marked",
            smaller="no range in which flows settle",
        ),
        SizedThreshold(
            name="pmax",
            value=min(1.0, max(0.01, 2 * chance)),
            arithmetic=f"2 x {chance:.4f}, where {counted(senders, 'flow settles', 'flows settle')}; at least 1%",
            source="DCQCN's fixed point: Zhu et al., CoNEXT 2016",
            larger="flows slow down too much",
            smaller="the queue settles above Kmax",
        ),
    )


def _pausing(kmax: int, needed: int, cable: SizedLink, senders: int) -> tuple[SizedThreshold, ...]:
    """Return XOFF, XON, headroom and the buffer of the incast, if ``needed`` bytes can arrive after XOFF."""
    leaves = needed - wire_size(cable.mtu)
    resume, above = -(-leaves // senders), -(-5 * kmax // 4)
    xoff = max(above, 2 * resume)
    return (
        SizedThreshold(
            name="xoff",
            value=xoff,
            arithmetic=f"the larger of 5/4 x Kmax = {above} and 2 x the least XON = {2 * resume}",
            source="ECN before PFC: Zhu et al., SIGCOMM 2015, section 4",
            larger="more buffer for each port and class",
            smaller="pauses before marks can slow senders",
        ),
        SizedThreshold(
            name="xon",
            value=xoff // 2,
            arithmetic=f"XOFF / 2; the least is {leaves} / {counted(senders, 'sender')} = {resume}",
            source=f"{_IEEE}: bytes sent until the peer resumes",
            larger="more pauses and resumes",
            smaller="the link idles after a pause",
        ),
        SizedThreshold(
            name="headroom",
            value=needed,
            arithmetic="the sum of the terms",
            source=_IEEE,
            larger="buffer that is nearly always empty",
            smaller="drops in the lossless class",
        ),
        SizedThreshold(
            name="buffer",
            value=senders * (xoff + needed),
            arithmetic=f"{counted(senders, 'sender')} x (XOFF + headroom)",
            source="every port of the incast full at once",
            larger="buffer that other classes lack",
            smaller="drops where the pool is shared",
        ),
    )


@dataclass(frozen=True, slots=True)
class SonicAsic:
    """Parameters of a switch in SONiC's formula, in bytes: cell, MAC and PHY delay, and the peer's response."""

    cell: int = 96
    mac_phy: int = 819
    response: int = 3891


def sonic_headroom(cable: SizedLink, asic: SonicAsic | None = None, small_packets: float = 1.0) -> int:
    """The xoff of SONiC's buffer_headroom_mellanox.lua: bytes after a pause, in cells that small packets fill badly.

    ``small_packets`` is the share of packets of 64 bytes. Rounded up to 1,024 bytes, as there.
    """
    asic = asic or SonicAsic()
    smallest = 64
    worst = asic.cell / smallest if asic.cell > 2 * smallest else 2 * asic.cell / (1 + asic.cell)
    occupancy = 1 - small_packets + small_packets * worst
    arriving = cable.port_mtu + 2 * cable.delay * cable.rate / 8 + asic.mac_phy + asic.response
    return math.ceil((cable.mtu + arriving * occupancy) / 1024) * 1024
