"""Read the balance of each hop from a recording's samples: links by direction, switches, and hosts' NICs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.diagnose.conservation.hop_balance import HopKind, balance, missing_when_idle
from lab.telemetry.read import measures

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from lab.diagnose.conservation.hop_balance import HopBalance
    from lab.telemetry.read.recording import Recording
    from lab.telemetry.read.series import RecordingPhase, Series
    from lab.telemetry.read.views import PortView
    from lab.telemetry.read.window_measure import Measure

_DATA: Final = range(6)
"""Priorities that switches forward. They send and receive routing protocols, ARP and ND in the others (CS6, CS7)."""
_ALL: Final = range(8)
_POLL: Final = 1_100_000_000
"""Nanoseconds after which a QP that has ended is reported at the latest: QPs are polled once a second."""
_CONTROL: Final = (measures.PFC_RX, measures.PFC_INVALID, measures.GLOBAL_PAUSE_RX)


def accounts(
    recording: Recording, window: RecordingPhase, peers: Mapping[str, str], lossless: Mapping[str, Iterable[int]]
) -> tuple[HopBalance, ...]:
    """Return the balance of each hop in a window; empty if the links are plain.

    ``peers`` are the ports at the other ends of cables, ``lossless`` the priorities of RDMA by NIC.
    """
    ports = {name: port for name in recording.ports if not (port := recording.port(name)).plain}
    read = _Reader(window)
    cabled = {name: peer for name, peer in peers.items() if name in ports and peer in ports}
    links = (_link(read, ports[name], ports[peer]) for name, peer in cabled.items())
    switches = {switch.name for switch in recording.topology.switches}
    # Bridges flood frames, and drop copies. RDMA in lossless classes is unicast.
    bridged = recording.topology.overlay is not None
    ends = _first_ends(recording, window)
    forwarded = sorted({number for each in lossless.values() for number in each}) if bridged else _DATA
    return (
        *links,
        *_switches(read, [port for name, port in ports.items() if name.partition(":")[0] in switches], forwarded),
        *(each for nic in recording.devices if nic in ports
          for each in _nic(read, recording, ports[nic], lossless.get(nic, ()), ends.get(nic, window.end))),
    )  # fmt: skip


class _Reader:
    """The counters of a window as signed arrays, at the samples of the window."""

    def __init__(self, window: RecordingPhase) -> None:
        self.window = window

    def sum(self, series: Iterable[Series]) -> NDArray[np.int64] | int:
        """Return the sum of counters at each sample; 0 for none."""
        total: NDArray[np.int64] | int = 0
        for each in series:
            total = total + each.during(self.window).values.astype(np.int64)
        return total


def _link(read: _Reader, sender: PortView, receiver: PortView) -> HopBalance:
    earlier = _Reader(replace(read.window, start=0, end=read.window.start))
    lost_before = missing_when_idle(*_at_ends(earlier, sender, receiver))
    place = f"{sender.name}--{receiver.name}"
    return balance(HopKind.LINK, place, *_at_ends(read, sender, receiver), lost_before)


def _at_ends(read: _Reader, sender: PortView, receiver: PortView) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the packets that one end of a link has sent, and the other end has received."""
    sent = read.sum(_used(sender, measures.TX_PACKETS, _ALL))
    came = read.sum(_used(receiver, measures.RX_PACKETS, _ALL))
    control = read.sum(receiver.series(measure) for measure in _CONTROL if receiver.counts(measure))
    own = read.sum(sender.series(measure) for measure in (measures.PFC_TX,) if sender.counts(measure))
    # Control frames that a program injects are counted when they are sent, but not as packets when they arrive.
    injected = np.maximum(0, control - own)
    return _aligned(sent, came + injected)


def _switches(read: _Reader, ports: Iterable[PortView], priorities: Sequence[int]) -> Iterator[HopBalance]:
    by_switch: dict[str, list[PortView]] = {}
    for port in ports:
        by_switch.setdefault(port.name.partition(":")[0], []).append(port)
    for switch, mine in by_switch.items():
        came = read.sum(each for port in mine for each in _used(port, measures.RX_PACKETS, priorities))
        left = sum(_gone(read, port, priorities) for port in mine)
        yield balance(HopKind.SWITCH, switch, *_aligned(came, left))


def _nic(
    read: _Reader, recording: Recording, port: PortView, lossless: Iterable[int], until: int
) -> Iterator[HopBalance]:
    numbers = tuple(lossless)
    device = recording.rdma(port.name)
    if not {"rcvd_pkts", "sent_pkts"} <= device.counters.keys():
        return
    if until > read.window.start:
        early = _Reader(replace(read.window, end=until))
        came = early.sum(_used(port, measures.RX_PACKETS, numbers))
        taken = early.sum([device.counter("rcvd_pkts")])
        yield balance(HopKind.NIC_RX, port.name, *_aligned(came, taken))
    given = read.sum([device.counter("sent_pkts")])
    gone = _gone(read, port, numbers)
    if 2 * _growth(gone) < _growth(given):  # most of its packets are in another class, where others may be as well
        gone = _gone(read, port, _DATA)
    yield balance(HopKind.NIC_TX, port.name, *_aligned(given, gone))


def _growth(values: NDArray[np.int64] | int) -> int:
    known = np.atleast_1d(np.asarray(values, np.int64))
    return int(known[-1] - known[0]) if len(known) else 0


def _first_ends(recording: Recording, window: RecordingPhase) -> dict[str, int]:
    """Return for NICs with a QP that ended until when none had: its device does not count packets that come later."""
    found: dict[str, int] = {}
    for event in recording.events(source="rdma", kind="qp", during=window):
        if event.data.get("state") == "gone":
            found.setdefault(f"{event.node}:{event.interface}", event.ns - _POLL)
    return found


def _gone(read: _Reader, port: PortView, priorities: Iterable[int]) -> NDArray[np.int64] | int:
    """Return the packets that a port has sent, dropped, or holds in its queues."""
    numbers = tuple(priorities)
    sent = read.sum(_used(port, measures.TX_PACKETS, numbers))
    queues = [number for number in numbers if port.series(measures.OFFERED_PACKETS, number).last]
    dropped = read.sum(port.drops(number) for number in queues)
    held = read.sum(port.counter(f"queue{number}_depth_packets") for number in queues)
    return sent + dropped + held


def _used(port: PortView, measure: Measure, priorities: Iterable[int]) -> Iterator[Series]:
    """Yield the counters of priorities that have counted anything."""
    for number in priorities:
        series = port.series(measure, number)
        if series.last:
            yield series


def _aligned(
    entered: NDArray[np.int64] | int, left: NDArray[np.int64] | int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return both as arrays of one length."""
    one, other = np.broadcast_arrays(np.asarray(entered, np.int64), np.asarray(left, np.int64))
    return np.atleast_1d(one), np.atleast_1d(other)
