"""The port's programs one by one: a switch that is nothing but two ports, and a packet run through a program.

A program runs by BPF_PROG_TEST_RUN on a packet of ours as if it had come in by, or was about to leave by, one of the
switch's interfaces; what it sends there are real frames, seen at the far end of the cable.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from numpy.lib.recfunctions import repack_fields

from lab.dataplane import attach, configure, port_layout, port_maps
from lab.dataplane.numbering import NodePorts, Numbering
from lab.kernel.bpf import pins
from lab.kernel.bpf.libbpf import library
from lab.kernel.netlink import links
from lab.kernel.netlink.rtnl import NetlinkBatch
from lab.kernel.process import netns, tuning
from lab.kernel.process.netns import Namespace
from lab.model.qos.port import (
    EcnQos,
    GroupQos,
    NodeQos,
    PfcQos,
    PortQos,
    QueueQos,
    StormAction,
    Trust,
    WatchdogQos,
)
from tests.inside import entered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.dataplane.port_maps import PortMaps, Programs

from .one_switch import waited
from .run_program import LONGEST, Outcome, run_program

UNSPEC, SHOT, STOLEN, REDIRECT = -1, 2, 4, 7
"""TC_ACT_* of <linux/pkt_cls.h>."""
MAC: Final = "02:00:00:00:00:11"
INTERFACES: Final = ("swp1", "swp2")


class Elsewhere(NodePorts):
    """A node whose interfaces have indexes that nothing makes of the ports' ids."""

    def index(self, port: int) -> int:
        """Backwards, in sevens."""
        return links.LOOPBACK_INDEX if port == self.clock else 500 - 7 * port

    @property
    def nics(self) -> int:
        """Both ports can be NICs of one host."""
        return len(self.interfaces)


PORTS: Final = Elsewhere("s1", 0, 1, INTERFACES, host=False)
SWP1, SWP2 = (PORTS.port(name) for name in INTERFACES)
RATE: Final = 100_000_000
POOL: Final = 1_000_000
SLOTS: Final = 2048
_MTU: Final = 4200
_GID: Final = 16
_ETH_P_ALL: Final = 3
_SOL_PACKET: Final = 263
_PACKET_AUXDATA: Final = 8
_AUXDATA: Final = struct.Struct("=IIIHHHH")
_SO_TIMESTAMPNS: Final = 35
_TIMESPEC: Final = struct.Struct("=qq")
_VLAN_VALID: Final = 0x10
"""struct tpacket_auxdata and TP_STATUS_VLAN_VALID of <linux/if_packet.h>."""
_ARRIVES: Final = 5.0
"""Seconds after which a frame that has not come is missing."""

DATA, PFC, TOKEN, KICK, SPARE = range(5)
"""enum rl_kind of mark.h."""
XOFF: Final = 0x100
WRITTEN: Final = 0x200
NO_PORT: Final = 0x3FFFF

GROUP: Final = port_layout.TYPES.record("rl_group")
HEAP: Final = port_layout.TYPES.record("rl_heap")
_NO_GROUP: Final = bytes(GROUP.itemsize)
QP_KEY: Final = port_layout.TYPES.record("rl_qp_key")
QP_PAIR: Final = port_layout.TYPES.record("rl_qp_pair")
"""Of maps.h and qp_pairs.h, which no other process sees."""

OFF: Final = EcnQos(enabled=False, kmin=0, kmax=0, pmax=0)
PORT: Final = PortQos(
    rate=RATE,
    mtu=_MTU,
    delay=0,
    trust=Trust.DSCP,
    dscp_to_priority=tuple((5 * dscp + dscp // 8) % 8 for dscp in range(64)),
    pcp_to_priority=(1, 0, 2, 3, 4, 5, 7, 6),
    priority_to_queue=(1, 0, 2, 3, 4, 5, 6, 7),
    priority_to_group=(0, 1, 2, 3, 4, 5, 6, 6),
    groups=(GroupQos(reserved=0, alpha=None, xoff=20_000, xon=10_000, headroom=50_000),) * 8,
    queues=(QueueQos(weight=1, limit=0, ecn=OFF),) * 8,
    pfc=PfcQos(
        priorities=0b11011000,
        tx=True,
        rx=True,
        quanta=0xFFFF,
        watchdog=WatchdogQos(enabled=False, detection=0, restoration=0, action=StormAction.DROP),
    ),
)
"""No map is the identity, so that none can be mistaken for another; priorities 3, 4, 6 and 7 are lossless."""


def mark(kind: int, priority: int, low: int) -> int:
    """skb->mark as the figure in mark.h has it."""
    return 0xB7000000 | kind << 21 | priority << 18 | low


@dataclass(frozen=True, slots=True)
class Switch:
    """Two ports, configured anew by each test, and the far ends of their cables."""

    name: str
    inside: Namespace
    outside: Namespace
    programs: Programs
    maps: PortMaps

    def reset(self, port: PortQos = PORT) -> None:
        """Both ports idle, and configured as ``port``; nothing counted, nothing paused, the clock at rest."""
        with self._map("groups") as groups:
            for number in range(len(self.maps.config) * port_layout.CLASSES):
                _update(groups, number, _NO_GROUP)
        self.maps.nodes["paused"] = 0
        waited(lambda: not self.maps.nodes["ticking"][0], "the clock to stop")
        self.maps.counters[:] = np.zeros((), port_layout.COUNTERS)
        self.maps.event_count[0] = 0
        self.maps.config[PORTS.clock] = configure.clock_record(PORTS)
        for interface in INTERFACES:
            self.maps.config[PORTS.port(interface)] = configure.port_record(port, PORTS, interface, MAC)
        qos = NodeQos(POOL, dict.fromkeys(INTERFACES, port))
        self.maps.nodes[PORTS.number] = configure.node_record(qos, PORTS)
        self.maps.nodes["pool_bytes"] = POOL

    def flush(self) -> None:
        """Let all that waits go, whatever the rate was."""
        self.maps.config["rate"] = 0
        waited(lambda: not self.maps.counters["queue"]["depth_packets"].any(), "the queues to empty")

    def set_group(self, port: int, group: int, **fields: int) -> None:
        """What a priority group holds, and whether it has paused its peer."""
        value = np.zeros((), GROUP)
        for name, number in fields.items():
            value[name] = number
        with self._map("groups") as groups:
            _update(groups, port * port_layout.CLASSES + group, value.tobytes())

    def hold(self, port: int, group: int, **fields: int) -> None:
        """A group in XOFF, which the clock looks at."""
        self.set_group(port, group, paused=1, **fields)
        self.maps.nodes["paused"] += 1
        self.maps.ports["state"]["in_xoff"][port] |= 1 << group
        self.maps.nodes["busy_ports"][0, 0] |= 1 << (port - PORTS.clock)
        self.maps.nodes["busy"] |= 1

    def group(self, port: int, group: int) -> Any:
        """What a priority group holds, of the type ``GROUP``."""
        found = ctypes.create_string_buffer(GROUP.itemsize)
        with self._map("groups") as groups:
            key = ctypes.c_uint32(port * port_layout.CLASSES + group)
            assert library().bpf_map_lookup_elem(groups, ctypes.byref(key), found) == 0
        return np.frombuffer(found.raw, GROUP)[0]

    def connect(self, address: str, qpn: int, peer: str, peer_qpn: int, *, fresh: bool = True) -> None:
        """Let the switch's interfaces have a QP with a peer, as if rxe had connected it.

        Then no QP is limited, unless it is not ``fresh``.
        """
        key, pair = np.zeros((), QP_KEY), np.zeros((), QP_PAIR)
        key["netns"], key["qpn"], key["address"] = self.inside.path.stat().st_ino, qpn, gid(address)
        pair["peer_qpn"], pair["peer"] = peer_qpn, gid(peer)
        with self._map("qp_pairs") as pairs:
            assert library().bpf_map_update_elem(pairs, key.tobytes(), pair.tobytes(), 0) == 0
        if fresh:
            self.maps.limiters[:] = np.zeros((), port_layout.LIMITER)
            self.maps.ports["state"]["limited"] = 0

    def slots(self, port: int, count: int) -> Any:
        """The first ``count`` places for a port's packets, of the type ``layout.SLOT``, in order of first use."""
        found = np.zeros(count, port_layout.SLOT)
        place = ctypes.create_string_buffer(port_layout.SLOT.itemsize)
        with self._map("slots") as slots:
            for number in range(count):
                key = ctypes.c_uint32(port * SLOTS + number)
                assert library().bpf_map_lookup_elem(slots, ctypes.byref(key), place) == 0
                found[number] = np.frombuffer(place.raw, port_layout.SLOT)[0]
        return found

    def heap(self, nic: int) -> tuple[Any, Any]:
        """Return the heap of a NIC, of the type ``HEAP``, and whether and when the first packet of each QP is due.

        The latter are the fields ``in_heap`` and ``due`` of the NIC's limiters.

        Both are of one moment: nothing in them has changed for 1 ms, and none of the packets that wait is due.
        """
        with self._map("heaps") as heaps:
            return cast("tuple[Any, Any]", waited(lambda: self._still_heap(heaps, nic), "the heap to be still"))

    def _still_heap(self, heaps: int, nic: int) -> tuple[Any, Any] | None:
        heap, limiters = self._read_heap(heaps, nic)
        time.sleep(0.001)
        later, limiters_later = self._read_heap(heaps, nic)
        dues = later["due"][later["vacant"] : later["count"]]
        changed = heap.tobytes() != later.tobytes() or limiters.tobytes() != limiters_later.tobytes()
        return None if changed or (dues <= time.monotonic_ns()).any() else (later, limiters_later)

    def _read_heap(self, heaps: int, nic: int) -> tuple[Any, Any]:
        copy = ctypes.create_string_buffer(HEAP.itemsize)
        first = nic * port_layout.LIMITERS
        limiters = repack_fields(self.maps.limiters[["in_heap", "due"]][first : first + port_layout.LIMITERS])
        assert library().bpf_map_lookup_elem(heaps, ctypes.byref(ctypes.c_uint32(nic)), copy) == 0
        return np.frombuffer(copy.raw, HEAP)[0], limiters

    def rx(self, packet: bytes, port: int = SWP1, repeat: int = 1) -> Outcome:
        """``port_rx`` on a packet that comes in by a port."""
        return self._run(self.programs.rx, packet, PORTS.index(port), 0, repeat)

    def tx(self, packet: bytes, marked: int = 0, port: int = SWP2, repeat: int = 1) -> Outcome:
        """``port_tx`` on a packet that is to leave by a port, with the mark that it has."""
        return self._run(self.programs.tx, packet, PORTS.index(port), marked, repeat)

    def tick(self) -> Outcome:
        """``tick`` on the clock's token."""
        return self._run(self.programs.tick, bytes(60), links.LOOPBACK_INDEX, mark(TOKEN, 0, PORTS.clock), 1)

    @contextmanager
    def wire(self, port: int = SWP1) -> Iterator[Wire]:
        """The far end of a port's cable."""
        with entered(self.outside):
            end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
            end.bind((_far(port), _ETH_P_ALL))
        with end:
            end.settimeout(_ARRIVES)
            yield Wire(end)

    @contextmanager
    def stamped_wire(self, port: int = SWP1) -> Iterator[Wire]:
        """The far end of a port's cable, whose frames have the time at which they came."""
        with self.wire(port) as wire:
            wire._end.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            yield wire

    @contextmanager
    def tap(self) -> Iterator[Wire]:
        """What passes at swp1 both ways, with the time: CNPs too, which end there."""
        with entered(self.inside):
            end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
            end.bind(("swp1", _ETH_P_ALL))
        with end:
            end.settimeout(_ARRIVES)
            end.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            yield Wire(end)

    def _run(self, program: int, packet: bytes, index: int, marked: int, repeat: int) -> Outcome:
        with entered(self.inside):
            return run_program(program, packet, index, marked, repeat)

    @contextmanager
    def _map(self, name: str) -> Iterator[int]:
        descriptor = pins.open_pinned(pins.map_path(pins.folder_of(self.name), name))
        try:
            yield descriptor
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Wire:
    """What comes out of a cable."""

    _end: socket.socket

    def next(self) -> bytes:
        """The next frame; TimeoutError when there is none."""
        return self._end.recv(LONGEST)

    def next_untagged(self) -> bytes:
        """The next frame, which has no tag: of what the kernel took off the packet, too, it says nothing."""
        self._end.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        frame, ((_, _, auxdata),), _, _ = self._end.recvmsg(LONGEST, socket.CMSG_SPACE(_AUXDATA.size))
        assert not _AUXDATA.unpack(auxdata)[0] & _VLAN_VALID, "it has a tag"
        return frame

    def next_tagged(self) -> tuple[int, bytes]:
        """The next frame, which has a tag, without it, and the tag's TCI."""
        self._end.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        frame, ((_, _, auxdata),), _, _ = self._end.recvmsg(LONGEST, socket.CMSG_SPACE(_AUXDATA.size))
        status, *_, tci, _ = _AUXDATA.unpack(auxdata)
        assert status & _VLAN_VALID, "it has no tag"
        return tci, frame

    def next_stamped(self) -> tuple[float, bytes]:
        """The next frame, and when it came in seconds; of a ``stamped_wire``."""
        frame, ((_, _, stamp),), _, _ = self._end.recvmsg(LONGEST, socket.CMSG_SPACE(_TIMESPEC.size))
        seconds, nanoseconds = _TIMESPEC.unpack(stamp)
        return seconds + nanoseconds / 1e9, frame

    def send(self, frame: bytes) -> None:
        """A frame towards the switch."""
        self._end.send(frame)

    def is_silent(self) -> bool:
        """Whether nothing has come: a program's frames are there before it returns, unless a queue holds them."""
        self._end.setblocking(False)
        try:
            return not self._end.recv(LONGEST)
        except BlockingIOError:
            return True
        finally:
            self._end.settimeout(_ARRIVES)


def _update(table: int, number: int, value: bytes) -> None:
    key = ctypes.c_uint32(number)
    assert library().bpf_map_update_elem(table, ctypes.byref(key), value, 0) == 0


@contextmanager
def switch(slots: int = SLOTS) -> Iterator[Switch]:
    """A switch, its programs attached to interfaces that are up, in namespaces without any stack's own packets.

    Each port can hold ``slots`` packets.
    """
    name = f"programs-{os.getpid()}"
    inside, outside = (Namespace(f"rv-{os.getpid()}-{end}") for end in ("in", "out"))
    with ExitStack() as stack:
        stack.callback(pins.unpin, pins.folder_of(name))
        port_maps.load(name, Numbering({PORTS.node: PORTS}), "vmtest", slots)
        programs = stack.enter_context(port_maps.programs(name))
        stack.callback(netns.delete, [inside.name, outside.name])
        netns.create([inside.name, outside.name])
        built = Switch(name, inside, outside, programs, port_maps.open_maps(name, writable=True))
        built.reset()
        _connect(built)
        yield built


def _connect(switch: Switch) -> None:
    for namespace in (switch.inside, switch.outside):
        with entered(namespace):
            tuning.write_sysctls({f"net/ipv6/conf/{which}/disable_ipv6": 1 for which in ("all", "default")})
    with switch.inside.path.open() as inside, switch.outside.path.open() as outside:
        cables = NetlinkBatch()
        for interface in INTERFACES:
            index = PORTS.index(PORTS.port(interface))
            far = _far(PORTS.port(interface))
            links.add_veth(
                cables,
                links.VethEnd(inside.fileno(), interface, index, MAC, _MTU),
                links.VethEnd(outside.fileno(), far, index, "02:00:00:00:00:22", _MTU),
            )
        cables.commit()
    with entered(switch.outside):
        _bring_up(NetlinkBatch())
    with entered(switch.inside):
        batch = NetlinkBatch()
        links.set_up(batch, links.LOOPBACK_INDEX, "lo")
        attach.attach(batch, PORTS, NodeQos(POOL, dict.fromkeys(INTERFACES, PORT)), switch.programs)
        _bring_up(batch)


def _bring_up(batch: NetlinkBatch) -> None:
    for interface in INTERFACES:
        links.set_up(batch, PORTS.index(PORTS.port(interface)), interface)
    batch.commit()


def gid(address: str) -> list[int]:
    """An address as a GID: IPv4 is mapped into IPv6."""
    packed = ip_address(address).packed
    return list(packed if len(packed) == _GID else bytes(10) + b"\xff\xff" + packed)


def _far(port: int) -> str:
    return f"far{port}"
