"""Where fuzzing starts: right inputs of every kind, made anew each time, so that no corpus has to be kept."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from lab.telemetry.sample.queue_pairs import SCHEMA
from lab.telemetry.store.row_tables import RowSchema
from lab.wire.opcodes import Opcode
from lab.wire.pcapng import Direction, Interface, Record
from lab.wire.udp_ports import UDP
from tests.unit.analysis import packets
from tests.unit.analysis.captures import big_endian, pcap, pcapng, records
from tests.unit.analysis.encapsulations import ANY, EXTENDED, IPV4, rocev1
from tests.unit.analysis.links import LINKS
from tests.unit.analysis.mirrors import HEADERS, SPECTRUM, mirrored
from tests.unit.telemetry.played import queue_pair

if TYPE_CHECKING:
    from collections.abc import Callable

_WHOLE: Final = b"\0\0"
"""Before a frame: the capture holds all of it."""
_PIECE: Final = 4
"""Packets."""
_CUT: Final = 80
"""Bytes that a mirror keeps."""
_LEVELS: Final = RowSchema("levels", 1, (("name", "S3"), ("level", "f8"), ("rise", "i2"), ("share", "f4")))
_LEVEL: Final = {"name": "a", "level": 0.5, "rise": -1, "share": 1.0}
FILTERS: Final = (
    "qpn==0x11 and psn in 16777000..100",
    "opcode==write or opcode!=rc-rdma-read-request && not (cnp||ack)",
    "! nak and vni>=10 and dscp<=26",
    "host 10.0.0.1 or src fd00::1 and dst 10.0.0.2",
    "roce and (rnr or ce or ect or pfc or pause)",
)


@cache
def frames() -> tuple[bytes, ...]:
    """A packet of every opcode and kind, plain, tagged and in VXLAN, over IPv4 and IPv6."""
    carried = packets.send(2), packets.send(3, path=packets.THERE6)
    every = [packets.rocev2(packets.THERE, opcode, packets.QP2, 7, bytes(28), size=9) for opcode in Opcode]
    return (
        *every,
        packets.send(2, path=packets.THERE6),
        packets.ack(2, 0x60),
        packets.congestion(),
        packets.pause({3: 100, 4: 0}),
        packets.tagged(packets.send(2)),
        packets.vxlan(packets.send(2)),
        packets.vxlan(packets.tagged(packets.vxlan(packets.send(2, path=packets.THERE6)))),
        *(wrap(frame) for wrap in ANY.values() for frame in carried),
        *(wrap(carried[1]) for wrap in EXTENDED.values()),
        rocev1(carried[0]),
    )


def story() -> list[bytes]:
    """A conversation with everything that an analysis can report."""
    return [
        *packets.write(0xFFFFFE, 4), packets.ack(1), packets.send(2, path=packets.MARKED), packets.congestion(),
        packets.send(4), packets.ack(3, 0x60), packets.send(3), packets.send(4), packets.ack(4),
        packets.send(5), packets.ack(5, 0x2E), packets.send(5), packets.read(6, 3000), *packets.responses(6, 3),
        packets.vxlan(packets.send(2)), packets.pause({3: 9, 4: 9}), packets.pause({3: 0}),
    ]  # fmt: skip


@cache
def captures() -> tuple[bytes, ...]:
    """A few packets of the story in each: as pcapng of one link and two, in the other byte order, in two sections,
    with mirrors and tunnels; and as pcap of every link type. In the first all are as a mirror cuts them.
    """
    told = story()
    parts = [told[at : at + _PIECE] for at in range(0, len(told), _PIECE)]
    cut = pcapng(records([frame[:_CUT] for frame in told]))
    return cut, *(capture for number, part in enumerate(parts) for capture in _captures(part)[number % 3 :: 3])


def _captures(told: list[bytes]) -> tuple[bytes, ...]:
    links = [Interface("leaf1:swp1", speed=10**9), Interface("spine1:swp2")]
    twice = [
        Record(10**18 + at * 1000 + link, link, len(frame), Direction.OUTBOUND, frame)
        for at, frame in enumerate(told)
        for link in (0, 1)
    ]
    one = pcapng(records(told), dropped=3)
    return (
        one,
        pcapng(twice, *links),
        big_endian(told),
        one + big_endian(told[:4]),
        pcap(told),
        pcap([], ">"),
        *(pcapng(records([mirrored(frame, header) for frame in told])) for header in (*HEADERS.values(), SPECTRUM)),
        *(pcapng(records([wrap(frame) for frame in told if frame[12:14] == IPV4])) for wrap in ANY.values()),
        pcapng(records([rocev1(frame) for frame in told if frame[23] == UDP])),
        *(pcap([wrap(frame) for frame in told], linktype=number) for number, wrap in LINKS.values()),
    )


SEEDS: Final[dict[str, Callable[[], tuple[bytes, ...]]]] = {
    "pcapng": captures,
    "frame": lambda: tuple(_WHOLE + each for each in frames()),
    "dissect": frames,
    "analysis": captures,
    "choosing": frames,
    "walks": lambda: tuple(_WHOLE + each for each in frames()),
    "following": captures,
    "filters": lambda: tuple(text.encode() for text in FILTERS),
    "rows": lambda: (SCHEMA.pack([queue_pair(17, "RTS"), queue_pair(18, "gone", "RTS")]), _LEVELS.pack([_LEVEL])),
}
"""By target."""
