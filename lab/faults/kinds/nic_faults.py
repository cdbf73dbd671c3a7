"""Faults of NICs: they stop their switch, ignore pauses, or receive too slowly."""

from __future__ import annotations

from abc import abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Generic, TypeVar

from pydantic import BeforeValidator, Field
from typing_extensions import override

from lab.backends.live_qos import require_ports
from lab.errors import UsageError
from lab.faults import helper_process
from lab.faults.fault import Fault, Parameters
from lab.faults.fault_place import Form
from lab.faults.kinds.port_faults import Configured
from lab.faults.values import priorities, time_of
from lab.kernel.netlink import neighbours
from lab.model.qos.port import members
from lab.model.values.fields import Rate
from lab.units import quanta_to_seconds
from lab.wire.craft.packet_craft import craft
from lab.wire.craft.packet_spec import PacketSpec
from lab.wire.craft.packet_values import MAX_QUANTA, between, named
from lab.wire.header_fields import EthernetFields, MacControlFields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.faults.fault import Before

_PER_PAUSE: Final = 4
"""Frames per pause duration, so that a late frame does not let a pause expire."""
_SHORTEST: Final = 1e-3
"""The minimum default interval between two frames, in seconds."""
_UNICAST: Final = bytes.fromhex("020000000002")
_EXPERIMENT: Final = bytes.fromhex("88b5")


class SenderParameters(Parameters):
    """The interval of the frames."""

    every: Annotated[float, time_of(1e-4, 10.0)] | None = None
    """Time between two frames; by default a quarter of the pause that each requests, and at least 1 ms."""


S = TypeVar("S", bound=Parameters)
C = TypeVar("C", bound=SenderParameters)


class Sending(Fault[S], Generic[S]):
    """A NIC sends one frame repeatedly while the fault lasts: real frames, from the host's interface."""

    form: ClassVar = Form.NIC
    sends: ClassVar[str]
    """The kind of frames, as a noun."""

    @abstractmethod
    def frame(self, mac: str) -> bytes:
        """Return the frame of a NIC with this MAC."""

    @abstractmethod
    def period(self, rate: int) -> float:
        """Return the seconds between two frames on a link of this rate."""

    @override
    def claims(self) -> frozenset[str]:
        return frozenset({f"the {self.sends} of {self.end}"})

    @override
    def look(self) -> Before:
        end = self.end
        frame = self.frame(neighbours.mac_address(self.namespace, end.interface))
        rate = next(link.rate for link in self.fabric.topology.links if end in link.ends)
        mark = f"{self.fabric.state.owner} {self.name} {end}"
        return {"frame": frame.hex(), "every": self.period(rate), "mark": mark}

    @override
    def inject(self, before: Before) -> None:
        words = [self.end.interface, str(before["every"]), before["frame"]]
        helper_process.start(self.namespace, before["mark"], "lab.faults.sender", words)

    @override
    def heal(self, before: Before) -> None:
        helper_process.end(self.namespace, before["mark"])


class Controlling(Sending[C], Generic[C]):
    """A NIC sends MAC control frames."""

    sends: ClassVar = "MAC control frames"

    @abstractmethod
    def packet(self) -> dict[str, Any]:
        """Return the frame in the format of ``rocelab craft``."""

    def spoilt(self, frame: bytes) -> bytes:
        """Return the crafted frame, which a kind may corrupt."""
        return frame

    @override
    def frame(self, mac: str) -> bytes:
        return self.spoilt(craft(PacketSpec.model_validate({"src-mac": mac, **self.packet()})).frame)

    @override
    def period(self, rate: int) -> float:
        return self.p.every or max(_SHORTEST, quanta_to_seconds(MAX_QUANTA, rate) / _PER_PAUSE)


class BroadcastParameters(Parameters):
    """The parameters of broadcast-storm."""

    rate: Annotated[Rate, Field(le=100_000_000)] = 20_000_000
    """Bit/s of frames. The sender reaches at most 100Mbit."""
    size: Annotated[int, between(60, 9000)] = 4000
    """Octets of each frame with its header and without its FCS."""


class BroadcastStorm(Sending[BroadcastParameters]):
    """A NIC sends broadcasts without end: its switch floods them to all other hosts of its network.

    The frames have an EtherType for local experiments (0x88B5). Hosts receive and discard them.
    """

    name: ClassVar = "broadcast-storm"
    parameters: ClassVar = BroadcastParameters
    sends: ClassVar = "broadcasts"

    @override
    def frame(self, mac: str) -> bytes:
        header = b"\xff" * len(_UNICAST) + bytes.fromhex(mac.replace(":", "")) + _EXPERIMENT
        return header.ljust(self.p.size, b"\0")

    @override
    def period(self, rate: int) -> float:
        return self.p.size * 8 / self.p.rate


class StormParameters(SenderParameters):
    """The parameters of pause-storm."""

    priority: Annotated[tuple[Annotated[int, between(0, 7)], ...], BeforeValidator(priorities)] = (3,)
    """Priorities to pause: 3, or 3,4."""
    quanta: Annotated[int, between(0, MAX_QUANTA)] = MAX_QUANTA
    """The pause time of each frame, in quanta of 512 bit times of the link."""


class PauseStorm(Controlling[StormParameters]):
    """A NIC whose receiver is stuck sends PFC frames without end (Guo et al., SIGCOMM 2016).

    The switch stops sending to it, its buffer fills, and it pauses its own senders: hop by hop, up to hosts that send
    nothing to that NIC. A port without PFC for these priorities would ignore the frames, and is refused.
    """

    name: ClassVar = "pause-storm"
    parameters: ClassVar = StormParameters

    @override
    def look(self) -> Before:
        require_ports(self.fabric)
        peer = next(link.other(self.end) for link in self.fabric.topology.links if self.end in link.ends)
        lossless = members(self.fabric.qos[peer.node].ports[peer.interface].pfc.priorities)
        if not set(lossless) & set(self.p.priority):
            wanted = ",".join(map(str, self.p.priority))
            remedy = f"give priority={lossless[0]}" if lossless else f"rocelab qos set {peer} pfc.priorities={wanted}"
            raise UsageError(f"{self.name} would have no effect: {peer} has no PFC for priority {wanted}", remedy)
        return super().look()

    @override
    def packet(self) -> dict[str, Any]:
        return {"kind": "pfc", "classes": ",".join(f"{each}={self.p.quanta}" for each in self.p.priority)}


class GlobalPause(Controlling[SenderParameters]):
    """A NIC sends 802.3x PAUSE frames, which stop all priorities of a link where they are honoured."""

    name: ClassVar = "global-pause"
    parameters: ClassVar = SenderParameters

    @override
    def packet(self) -> dict[str, Any]:
        return {"kind": "pause", "quanta": MAX_QUANTA}


class Malformation(Enum):
    """The error in a PFC frame."""

    ADDRESS = "address"
    OPCODE = "opcode"
    VECTOR = "vector"
    NO_CLASS = "no-class"


_DESTINATION: Final = slice(EthernetFields.DST.at, EthernetFields.DST.end)
_OPCODE: Final = slice(EthernetFields.SIZE, EthernetFields.SIZE + MacControlFields.SIZE)
_UNKNOWN: Final = bytes.fromhex("0102")
_VECTORS: Final = {Malformation.VECTOR: 0xFF08, Malformation.NO_CLASS: 0}


class MalformedParameters(SenderParameters):
    """The parameters of malformed-pfc."""

    what: Annotated[Malformation, named(Malformation)] = Malformation.ADDRESS
    """address: a unicast address; opcode: one that MAC control does not define; vector: reserved bits set; no-class:
    no priority enabled, but with pause times (IEEE 802.3 clause 31, IEEE 802.1Q clause 36.1.3)."""


class MalformedPfc(Controlling[MalformedParameters]):
    """A NIC sends invalid PFC frames. Switches may ignore or obey them."""

    name: ClassVar = "malformed-pfc"
    parameters: ClassVar = MalformedParameters

    @override
    def packet(self) -> dict[str, Any]:
        vector = {"vector": _VECTORS[self.p.what]} if self.p.what in _VECTORS else {}
        return {"kind": "pfc", "classes": f"3={MAX_QUANTA}", **vector}

    @override
    def spoilt(self, frame: bytes) -> bytes:
        octets = bytearray(frame)
        if self.p.what is Malformation.ADDRESS:
            octets[_DESTINATION] = _UNICAST
        if self.p.what is Malformation.OPCODE:
            octets[_OPCODE] = _UNKNOWN
        return bytes(octets)


class DrainParameters(Parameters):
    """The parameters of slow-receiver."""

    rate: Rate
    """Bit/s at which the host receives."""


class SlowReceiver(Configured[DrainParameters]):
    """A host receives more slowly than its link delivers, and pauses its leaf: page faults, CPU or PCIe."""

    name: ClassVar = "slow-receiver"
    form: ClassVar = Form.NIC
    parameters: ClassVar = DrainParameters

    @override
    def settings(self) -> Sequence[str]:
        return (f"nic.drain={self.p.rate}",)


class PausesIgnored(Configured[Parameters]):
    """A NIC continues to send when it is paused: PFC is on at one end of the link only."""

    name: ClassVar = "pauses-ignored"
    form: ClassVar = Form.NIC
    parameters: ClassVar = Parameters

    @override
    def settings(self) -> Sequence[str]:
        return ("pfc.rx=false",)
