"""One interface's packets from a TPACKET_V3 ring (packet(7), Documentation/networking/packet_mmap.rst).

The kernel fills blocks of shared memory, and delivers each when it is full or RETIRE seconds old. Nothing is copied
until the packets are written.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import socket
from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Final

from lab.errors import EnvironmentLacks, OperationFailed
from lab.kernel.packets.socket_filter import attach_filter
from lab.kernel.process import netns
from lab.wire.filter.assembler import RETURN, Instruction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.kernel.process.netns import Namespace
    from lab.wire.frame_batch import FrameBatch

BLOCK: Final = 2**17
"""Bytes of one block: holds any packet, including jumbo frames and unsegmented ones. Larger blocks would mean fewer
blocks, and even nearly empty blocks fill the ring within ``RETIRE`` times their number."""
RETIRE: Final = 0.01
"""Seconds after which the kernel delivers a block that is not full; it may take twice as long."""

# From <linux/if_packet.h> and <asm-generic/socket.h>; the socket module lacks them.
_SOL_PACKET: Final = 263
_PACKET_ADD_MEMBERSHIP: Final = 1
_PACKET_RX_RING: Final = 5
_PACKET_STATISTICS: Final = 6
_PACKET_VERSION: Final = 10
_PACKET_MR_PROMISC: Final = 1
_TPACKET_V3: Final = 2
_SIOCGIFINDEX: Final = 0x8933
_ETH_P_ALL: Final = 3

_KERNEL: Final = 0
_USER: Final = 1
_VLAN_VALID: Final = 0x10
_VLAN_TPID_VALID: Final = 0x40
_DEFAULT_TPID: Final = 0x8100
_OUTGOING: Final = 4  # sll_pkttype

_FRAME: Final = 2048  # checked by the kernel, but unused in version 3
_REQUEST: Final = Struct("=7I")  # struct tpacket_req3
_MEMBERSHIP: Final = Struct("=iHH8x")  # struct packet_mreq
_IFREQ: Final = Struct("=16si20x")  # struct ifreq
_NOTHING: Final = (Instruction(RETURN, 0, 0, 0),)
_STATISTICS: Final = Struct("=III")  # struct tpacket_stats_v3
_STATUS: Final = Struct("=I")
_STATUS_OFFSET: Final = 8
_BLOCK_HEADER: Final = Struct("=III")  # status, packets, offset of the first; at _STATUS_OFFSET
_PRESSED: Final = 16
"""Blocks held above which the reader is considered late."""
_WORD: Final = 4
_NEXT: Final = 0
_COLUMNS: Final = (1, 2, 3, 4, 5, 6, 8, 9, 14)
"""Words of struct tpacket3_hdr and of the struct sockaddr_ll behind it: sec, nsec, snaplen, len, status, mac,
vlan_tci, vlan_tpid, pkttype. The last three are in the lower, the lower and the upper half of their words."""
_HALF: Final = 16
_LOW: Final = 0xFFFF
_OCTET: Final = 0xFF
_SECOND: Final = 10**9


class PacketRing:
    """All packets that one interface sends and receives, each once, from ``arm`` on.

    ``received`` (which includes ``dropped``) and ``dropped`` are the kernel's counts at the last ``count``;
    ``delivered`` is the number of packets that ``take`` has returned.
    """

    def __init__(self, namespace: Namespace, interface: str, *, blocks: int, program: Sequence[Instruction]) -> None:
        """Create the socket and its ring of ``blocks``, which is ``memory``. Nothing is received yet.

        ``program`` returns the number of bytes to keep of each packet; 0 rejects the packet.
        """
        self.received = 0
        self.dropped = 0
        self.delivered = 0
        self._where = f"{interface} in namespace {namespace.name}"
        self._interface = interface
        self._blocks = blocks
        self._next = 0
        self._held: deque[tuple[int, int]] = deque()  # timestamp of the newest packet, offset of the block
        self._namespace = namespace
        self._socket, self._place = namespace.inside(lambda: (_open_socket(), netns.place_of("thread-self")))
        try:
            attach_filter(self._socket, program)
            self._memory = self._map()
            self.memory = memoryview(self._memory)
            self._words = self.memory.cast("I")
        except OSError as error:
            self._socket.close()
            raise EnvironmentLacks(
                f"no packet ring of {blocks * BLOCK >> 20} MiB for {self._where}: {error.strerror}",
                "capture on fewer links, or free memory",
            ) from error

    def _map(self) -> mmap.mmap:
        request = _REQUEST.pack(BLOCK, self._blocks, _FRAME, BLOCK // _FRAME * self._blocks, int(RETIRE * 1000), 0, 0)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V3)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_RX_RING, request)
        return mmap.mmap(self._socket.fileno(), BLOCK * self._blocks)

    @property
    def has_its_node(self) -> bool:
        """Whether the namespace's name still refers to the captured namespace."""
        return self._namespace.place == self._place

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        return self._socket.fileno()

    def arm(self) -> None:
        """Receive from now on, in promiscuous mode. Raises OperationFailed if there is no such interface."""
        try:
            self._socket.bind((self._interface, _ETH_P_ALL))
            self._be_promiscuous()
        except OSError as error:
            raise OperationFailed(f"cannot capture on {self._where}: {error.strerror}", "rocelab status") from error

    def _be_promiscuous(self) -> None:
        index = fcntl.ioctl(self._socket, _SIOCGIFINDEX, _IFREQ.pack(self._interface.encode(), 0))
        request = _MEMBERSHIP.pack(_IFREQ.unpack(index)[1], _PACKET_MR_PROMISC, 0)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_ADD_MEMBERSHIP, request)

    def disarm(self) -> None:
        """Stop receiving; packets in the ring can still be taken."""
        attach_filter(self._socket, _NOTHING)

    def take(self, number: int) -> FrameBatch | None:
        """Return all delivered packets, with the interface number ``number``; None if there are none.

        Their data is in ``memory`` and valid until ``release``.
        """
        packets: list[int] = []
        blocks: list[tuple[int, int]] = []
        free = self._blocks - len(self._held)
        while len(blocks) < free:
            base = self._next * BLOCK
            status, count, first = _BLOCK_HEADER.unpack_from(self._memory, base + _STATUS_OFFSET)
            if not status & _USER:
                break
            blocks.append((len(packets), base))
            packets += self._chain((base + first) // _WORD, count)
            self._next = (self._next + 1) % self._blocks
        if not packets:
            self._held += ((0, base) for _, base in blocks)
            return None
        return self._batch(packets, blocks, number)

    def _chain(self, at: int, count: int) -> list[int]:
        """Return the word offset of each packet header of a block. Each header has the offset of the next."""
        words, found = self._words, []
        for _ in range(count):
            found.append(at)
            at += words[at + _NEXT] // _WORD
        return found

    def _batch(self, packets: list[int], blocks: list[tuple[int, int]], number: int) -> FrameBatch:
        import numpy as np  # noqa: PLC0415 - slow to import, and not needed for --help

        from lab.wire.frame_batch import FrameBatch, directions  # noqa: PLC0415

        at = np.array(packets)
        words = np.frombuffer(self._memory, np.uint32)[at[:, np.newaxis] + _COLUMNS].astype(np.int64).T
        sec, nsec, kept, length, status, mac, tci, tpid, kind = words
        time = sec * _SECOND + nsec
        tag = np.where(status & _VLAN_TPID_VALID, tpid & _LOW, _DEFAULT_TPID) << _HALF | tci & _LOW
        ends = [first for first, _ in blocks[1:]] + [len(packets)]
        for (first, base), end in zip(blocks, ends, strict=True):
            self._held.append((int(time[first:end].max(initial=0)), base))
        self.delivered += len(packets)
        return FrameBatch(
            time=time,
            interface=np.full(len(time), number),
            start=at * _WORD + (mac & _LOW),
            captured=kept,
            length=length,
            direction=directions(kind >> _HALF & _OCTET == _OUTGOING),
            tag=np.where(status & _VLAN_VALID, tag, 0),
        )

    @property
    def fill(self) -> float:
        """The share of the ring that the kernel cannot fill, because its blocks are taken but not released."""
        return len(self._held) / self._blocks

    @property
    def is_pressed(self) -> bool:
        """Whether more blocks are held than those whose packets wait for their order in time."""
        return len(self._held) > min(_PRESSED, self._blocks // 2)

    def release(self, until: int) -> None:
        """Release the blocks without packets newer than ``until`` (ns since 1970) to the kernel."""
        while self._held and self._held[0][0] <= until:
            _STATUS.pack_into(self._memory, self._held.popleft()[1] + _STATUS_OFFSET, _KERNEL)

    def count(self) -> None:
        """Update ``received`` and ``dropped``. Call it at least once per 2**32 packets."""
        counts = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size)
        received, dropped, _ = _STATISTICS.unpack(counts)
        self.received += received
        self.dropped += dropped

    @property
    def complete(self) -> bool:
        """Whether every packet that the kernel received and did not drop was taken."""
        return self.delivered >= self.received - self.dropped

    def clear_error(self) -> None:
        """Clear the error of an interface that went down; capture resumes when it is up again."""
        self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    def close(self) -> None:
        """Close the socket and the ring. Taken records must be gone."""
        self._socket.close()
        with contextlib.suppress(BufferError):  # a raised error may still hold packets; they keep the memory
            self._words.release()
            self.memory.release()
            self._memory.close()


def _open_socket() -> socket.socket:
    try:
        # Protocol 0 receives nothing until the bind, so that no packet of another interface or time is captured.
        return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    except PermissionError as error:
        raise EnvironmentLacks("capturing packets needs CAP_NET_RAW", "run as root") from error
