"""Capture packets of many links live, into one pcapng file.

Capture at one end of each link: an interface sees both what it sends and what it receives, so each packet appears
once. The kernel delivers packets in blocks, at other times for each link. To keep the file in order of time, packets
stay in their rings until no other link can still deliver an older one. When a ring fills up, they are written at
once: out of order is better than lost. Memory use is that of the rings, independent of the capture's length.
"""

from __future__ import annotations

import importlib
import os
import select
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from lab.errors import OperationFailed
from lab.kernel.packets.capture_filter import CaptureChoice
from lab.kernel.packets.packet_ring import RETIRE, PacketRing
from lab.kernel.process.nice import Priority, before_others
from lab.wire.pcapng import MAX_SNAPLEN, Interface, Statistics, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from lab.kernel.process.netns import Namespace
    from lab.wire.filter.expression import Expression
    from lab.wire.frame_batch import FrameBatch
    from lab.wire.nic_note import NicNote
    from lab.wire.pcapng import Sink

_TOTAL_BLOCKS: Final = 1024  # 128 MiB over all links ...
_MAX_BLOCKS: Final = 256  # ... up to 32 MiB each ...
_MIN_BLOCKS: Final = 16  # ... and from 2 MiB
_PROGRESS: Final = 0.5
_DRAIN_LIMIT: Final = 2.0
"""Seconds without a packet after which missing packets are given up."""
_LATE: Final = 4 * RETIRE
"""Seconds until the kernel has certainly delivered a packet, including a slow wake-up."""
_LOOK: Final = 2 * RETIRE
_CROWDED: Final = 1 / 2
"""The share of unreleased blocks in a ring above which everything is written at once."""
_FOREVER: Final = 2**63 - 1
_TAG: Final = 4


@dataclass(frozen=True, slots=True)
class Point:
    """A capture point: an interface of a namespace, its name in the file, and its rate in bit/s.

    ``peer`` names the other end of its link, if it has one. ``nic`` describes the NIC at one of its ends.
    """

    namespace: Namespace
    interface: str
    label: str
    rate: int | None = None
    peer: str = ""
    nic: NicNote | None = None


@dataclass(frozen=True, slots=True)
class LinkCount:
    """Counts of one link: packets and bytes (on the wire) written, and packets that the kernel dropped."""

    label: str
    packets: int
    bytes: int
    dropped: int


Progress: TypeAlias = "Callable[[Sequence[LinkCount]], None]"


class LiveCapture:
    """A capture on several links. A context manager, which listens as soon as it is entered.

    ::

        with LiveCapture([Point(fabric.namespace("leaf1"), "swp1", "leaf1:swp1")], Writer(output)) as capture:
            counts = capture.run(seconds=5)

    ``start()`` and ``stop()`` run it in the background instead. Each capture runs once. Only packets that match
    ``wanted`` are written and counted; the kernel filters most others. However the run ends, the file is valid.
    Unless writing failed, it ends with the statistics of every link.
    """

    def __init__(
        self,
        points: Sequence[Point],
        writer: Sink,
        *,
        snaplen: int = MAX_SNAPLEN,
        wanted: Expression | None = None,
    ) -> None:
        self._points = tuple(points)
        self._writer = writer
        self._snaplen = snaplen
        self._choice = CaptureChoice(wanted, snaplen, [point.label for point in self._points])
        self._rings: list[PacketRing] = []
        self._packets = [0] * len(self._points)
        self._bytes = [0] * len(self._points)
        self._priority = Priority()
        self._pending: list[FrameBatch] = []
        self._memories: dict[int, memoryview] = {}
        self._poller = select.poll()
        self._waker = select.poll()
        self._wake = -1
        self._stopping = False
        self._finished = False
        self._armed_at = 0
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        program = self._choice.program()
        blocks = max(_MIN_BLOCKS, min(_MAX_BLOCKS, _TOTAL_BLOCKS // max(1, len(self._points))))
        try:
            self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            self._poller.register(self._wake, select.POLLIN)
            self._waker.register(self._wake, select.POLLIN)
            for point in self._points:
                ring = PacketRing(point.namespace, point.interface, blocks=blocks, program=program)
                self._memories[len(self._rings)] = ring.memory
                self._rings.append(ring)
                self._poller.register(ring, select.POLLIN)
            for point in self._points:
                self._writer.add_interface(
                    Interface(point.label, speed=point.rate, snaplen=self._snaplen, peer=point.peer, nic=point.nic)
                )
            self._armed_at = time.time_ns()
            for ring in self._rings:
                ring.arm()
            importlib.import_module("lab.wire.frame_batch")  # imports NumPy: a second in the VM
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._thread is not None:
                self.stop()
            elif not self._finished and self._failure is None and not isinstance(error, OperationFailed):
                self._finish(None)
        finally:
            self._close()

    def _close(self) -> None:
        self._pending.clear()
        self._memories.clear()
        for ring in self._rings:
            ring.close()
        if self._wake >= 0:
            os.close(self._wake)
            self._wake = -1

    @property
    def counts(self) -> tuple[LinkCount, ...]:
        """The counts so far, in the order of the points; ``dropped`` is up to half a second old."""
        return tuple(
            LinkCount(label=point.label, packets=packets, bytes=size, dropped=ring.dropped)
            for point, ring, packets, size in zip(self._points, self._rings, self._packets, self._bytes, strict=True)
        )

    def run(
        self, *, seconds: float | None = None, packets: int | None = None, progress: Progress | None = None
    ) -> tuple[LinkCount, ...]:
        """Capture for ``seconds``, until ``packets`` were written, or until ``interrupt``.

        It also ends when one of the namespaces is deleted, even if its name is reused: an open ring keeps it alive.
        ``progress`` is called about twice a second. Raises OperationFailed if the file cannot be written; the part
        written before stays valid.
        """
        with before_others() as self._priority:
            return self._run(seconds, packets, progress)

    def _run(self, seconds: float | None, packets: int | None, progress: Progress | None) -> tuple[LinkCount, ...]:
        until = None if seconds is None else time.monotonic() + seconds
        told = time.monotonic()
        while not self._stopping and (packets is None or sum(self._packets) < packets):
            now = time.monotonic()
            if until is not None and now >= until:
                break
            if now - told >= _PROGRESS:
                told = now
                if not all(ring.has_its_node for ring in self._rings):
                    break
                self._count()
                if progress is not None:
                    progress(self.counts)
            self._wait(_PROGRESS if until is None else min(_PROGRESS, until - now))
            self._round(packets)
        return self._finish(packets)

    def start(self, *, packets: int | None = None) -> None:
        """Run in a new thread until ``stop``."""
        self._thread = threading.Thread(target=self._run_in_background, args=(packets,), name="capture")
        self._thread.start()

    def _run_in_background(self, packets: int | None) -> None:
        try:
            self.run(packets=packets)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that stops the capture
            self._failure = error

    def stop(self) -> tuple[LinkCount, ...]:
        """End a capture begun by ``start`` and return its counts, or raise the error that ended it."""
        self.interrupt()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._failure is not None:
            raise self._failure
        return self.counts

    def interrupt(self) -> None:
        """Make ``run`` end soon, with all packets received until now; for other threads and signal handlers."""
        self._stopping = True
        if self._wake >= 0:
            os.eventfd_write(self._wake, 1)

    def _wait(self, seconds: float) -> None:
        """Wait for packets; while some are pending, for a fixed time, because each check of them costs time."""
        if self._pending:
            self._waker.poll(min(seconds, _LOOK) * 1000)
            return
        for descriptor, event in self._poller.poll(seconds * 1000):
            if event & select.POLLERR:
                next(ring for ring in self._rings if ring.fileno() == descriptor).clear_error()

    def _round(self, limit: int | None, *, everything: bool = False) -> None:
        """Write the due packets of all links in order of time, up to ``limit`` packets in the whole run."""
        due = time.time_ns() - int(_LATE * 1e9)
        for number, ring in enumerate(self._rings):
            if (batch := ring.take(number)) is not None:
                self._pending.append(self._choice.choose(batch, self._memories))
        self._priority.be_urgent(any(ring.is_pressed for ring in self._rings))
        if everything or any(ring.fill > _CROWDED for ring in self._rings):
            due = _FOREVER
        ready = self._ready(due)
        try:
            if ready is not None:
                room = len(ready) if limit is None else max(0, limit - sum(self._packets))
                self._write(ready.take(slice(room)))
        finally:
            del ready  # before its memory is released
            for ring in self._rings:
                ring.release(due)

    def _ready(self, due: int) -> FrameBatch | None:
        """Remove the packets up to ``due`` from the pending ones, and return them in order of time."""
        if not self._pending:
            return None
        import numpy as np  # noqa: PLC0415 - see __enter__

        from lab.wire.frame_batch import joined  # noqa: PLC0415

        batch = joined(self._pending)
        batch = batch.take(np.argsort(batch.time, kind="stable"))
        ready = int(np.searchsorted(batch.time, due, side="right"))
        self._pending = [batch.take(slice(ready, None))] if ready < len(batch) else []
        return batch.take(slice(ready))

    def _write(self, batch: FrameBatch) -> None:
        """Write packets. Only sinks that inspect packets get an object for each."""
        if isinstance(self._writer, Writer):
            for blocks in batch.blocks(self._memories):
                self._writer.write_blocks(blocks)
        else:
            self._writer.write(batch.records(self._memories))
        for number in set(batch.interface.tolist()):
            here = batch.interface == number
            self._packets[number] += int(here.sum())
            self._bytes[number] += int((batch.length + (batch.tag != 0) * _TAG)[here].sum())

    def _count(self) -> None:
        for ring in self._rings:
            ring.count()

    def _finish(self, limit: int | None) -> tuple[LinkCount, ...]:
        """Stop listening, write the rest of the rings, and write the statistics."""
        self._finished = True
        self._poller.unregister(self._wake)
        self._waker.unregister(self._wake)  # readable after an interrupt: draining would not wait
        for ring in self._rings:
            ring.disarm()
        self._count()
        ended_at = time.time_ns()
        self._drain(limit)
        for number, ring in enumerate(self._rings):
            counted = Statistics(ring.received, ring.dropped, start=self._armed_at, end=ended_at)
            self._writer.write_statistics(number, counted)
        if not all(ring.complete for ring in self._rings):
            raise OperationFailed("the kernel did not hand over packets that it counted", "capture again")
        return self.counts

    def _drain(self, limit: int | None) -> None:
        """Take the packets that the kernel counted but has not yet delivered: those in blocks that are not full."""
        delivered, since = -1, 0.0
        while not all(ring.complete for ring in self._rings):
            self._round(limit)
            self._count()
            if delivered != (delivered := sum(ring.delivered for ring in self._rings)):
                since = time.monotonic()
            elif time.monotonic() - since > _DRAIN_LIMIT:
                break
            self._wait(RETIRE)
        self._round(limit, everything=True)
