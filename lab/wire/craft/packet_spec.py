"""The description of a packet: each key with its meaning, default and bounds.

Options of ``rocelab craft`` and keys of its files are the fields of this model, with hyphens for underscores.
"""

from __future__ import annotations

from enum import Enum
from ipaddress import ip_address
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, model_validator

from lab.model.qos.presets import CNP_DSCP
from lab.wire.craft.packet_values import (
    MAX_PAYLOAD,
    MAX_QUANTA,
    Address,
    Bits16,
    Bits24,
    Bits32,
    Bits64,
    Classes,
    Mac,
    Octets,
    Quanta,
    Rate,
    Text,
    between,
    bits,
    choice,
    named,
)
from lab.wire.headers import PSN_HALF, Placement, Selectivity, Tag
from lab.wire.summary import ECN_NAMES
from lab.wire.syndrome import NO_CREDIT_COUNT, NakCode

MAX_COUNT: Final = 2**24
"""Packets from one description: as many as there are PSNs."""


class PacketKind(Enum):
    """The kind of packet to build."""

    WRITE = "write"
    READ = "read"
    READ_RESPONSE = "read-response"
    SEND = "send"
    CMPSWAP = "cmpswap"
    FETCHADD = "fetchadd"
    ATOMIC_ACK = "atomic-ack"
    ATOMIC_WRITE = "atomic-write"
    FLUSH = "flush"
    ACK = "ack"
    NAK = "nak"
    RNR_NAK = "rnr-nak"
    CNP = "cnp"
    PFC = "pfc"
    PAUSE = "pause"


class Transport(Enum):
    """Transport services: reliable connection, unreliable connection, unreliable datagram."""

    RC = "rc"
    UC = "uc"
    UD = "ud"


class Part(Enum):
    """The position of a packet in its message."""

    FIRST = "first"
    MIDDLE = "middle"
    LAST = "last"
    ONLY = "only"


_ECN: Final = {name.lower().replace("(", "").replace(")", ""): value for value, name in enumerate(ECN_NAMES)}
_SELECTIVITIES: Final = {each.name.lower(): each for each in Selectivity}
_PLACEMENTS: Final = {
    "global-visibility": Placement.GLOBAL_VISIBILITY,
    "persistence": Placement.PERSISTENCE,
    "both": Placement.GLOBAL_VISIBILITY | Placement.PERSISTENCE,
}
_REASONS: Final = {code.name.lower().replace("_", "-"): code for code in NakCode}

_HOSTS: Final = {4: ("10.0.0.1", "10.0.0.2"), 6: ("fd00::1", "fd00::2")}
"""By IP version."""
_VTEPS: Final = {4: ("10.252.0.1", "10.252.0.2"), 6: ("fd01::1", "fd01::2")}


def _ends(src: str | None, dst: str | None, defaults: dict[int, tuple[str, str]]) -> tuple[str, str]:
    given = src or dst
    near, far = defaults[4 if given is None else ip_address(given).version]
    return src or near, dst or far


class PacketSpec(BaseModel):
    """One packet. The allowed keys depend on its kind; ``packet_craft.check`` verifies them."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        use_attribute_docstrings=True,
        alias_generator=lambda name: name.replace("_", "-"),
    )

    kind: Annotated[PacketKind, named(PacketKind)]
    """Kind of packet: write, read, read-response, send, cmpswap, fetchadd, atomic-ack, atomic-write, flush, ack, nak,
    rnr-nak, cnp, pfc or pause."""

    count: Annotated[int, between(1, MAX_COUNT)] = 1
    """Number of packets, with increasing PSNs."""

    src: Address | None = None
    """IP address of the sender; 10.0.0.1, or fd00::1 if the receiver has IPv6."""
    dst: Address | None = None
    """IP address of the receiver; 10.0.0.2, or fd00::2 if the sender has IPv6."""
    src_mac: Mac = "02:00:00:00:00:01"
    """MAC address of the sender."""
    dst_mac: Mac = "02:00:00:00:00:02"
    """MAC address of the receiver, or of its gateway."""
    vlan: Annotated[int, bits(12)] | None = None
    """802.1Q tag of the frame, or of a tunnel's outer frame; 0 is a priority tag."""
    pcp: Annotated[int, bits(3)] | None = None
    """Priority in the 802.1Q tag, 0 to 7; without --vlan, the tag has VLAN 0."""
    sport: Bits16 = 0xC000
    """UDP source port, by which ECMP distinguishes QPs."""
    dscp: Annotated[int, bits(6)] = 26
    """DSCP in the IP header; 48 for a cnp, which has a class of its own."""
    ecn: Annotated[int, choice(_ECN)] = 2
    """ECN field: not-ect, ect1, ect0 or ce; not-ect for a cnp."""
    ttl: Annotated[int, between(1, 255)] = 64
    """TTL, or hop limit in IPv6."""

    transport: Annotated[Transport, named(Transport)] = Transport.RC
    """Transport service: rc, uc or ud."""
    part: Annotated[Part, named(Part)] = Part.ONLY
    """Position in its message: first, middle, last or only."""
    qp: Bits24 = 0x11
    """Queue pair at the receiver (DestQP)."""
    psn: Bits24 = 0
    """Packet sequence number."""
    wrong_psn: Annotated[int, between(-PSN_HALF, PSN_HALF - 1)] = 0
    """Send PSN plus this, while the receiver expects PSN: above 0 leaves a gap, below 0 repeats an old packet."""
    ackreq: bool = False
    """Ask for an acknowledgement."""
    solicited: bool = False
    """Wake the receiver's application (solicited event)."""
    pkey: Bits16 = 0xFFFF
    """Partition key."""

    va: Bits64 = 0
    """Virtual address in the receiver's memory."""
    rkey: Bits32 = 0
    """Remote key to that memory."""
    dmalen: Bits32 | None = None
    """Bytes of the whole message, or to flush; by default the payload of an only packet."""
    immdt: Bits32 | None = None
    """Immediate data, with the last or only packet of a write or send."""
    invalidate: Bits32 | None = None
    """Remote key to revoke, with the last or only packet of a send."""
    qkey: Bits32 = 0x11111111
    """Queue key of a datagram."""
    srcqp: Bits24 = 0x10
    """Queue pair that sends the datagram."""
    compare: Bits64 = 0
    """cmpswap: the value with which the memory is compared."""
    swap: Bits64 = 0
    """cmpswap: the new value."""
    add: Bits64 = 0
    """fetchadd: the value to add."""
    original: Bits64 = 0
    """atomic-ack: the value before the operation."""
    selectivity: Annotated[Selectivity, choice(_SELECTIVITIES)] = Selectivity.RANGE
    """flush: range for the bytes of va and dmalen, region for the whole memory region of the key."""
    placement: Annotated[Placement, choice(_PLACEMENTS)] = Placement.GLOBAL_VISIBILITY
    """flush: the guarantee, which is global-visibility, persistence or both."""

    msn: Bits24 = 0
    """Messages that the responder has completed."""
    credits: Annotated[int, bits(5)] = NO_CREDIT_COUNT
    """Credit count code of an acknowledgement, 0 to 30; 31 is none."""
    reason: Annotated[NakCode, choice(_REASONS)] = NakCode.PSN_SEQUENCE_ERROR
    """nak: psn-sequence-error, invalid-request, remote-access-error, remote-operational-error or
    invalid-rd-request."""
    timer: Annotated[int, bits(5)] = 14
    """rnr-nak: timer code, 0 to 31 (IBA vol. 1 table 45); 14 is 1.28 ms."""

    payload: Text = b""
    """Data as text."""
    payload_hex: Octets = b""
    """Data as hexadecimal octets."""
    payload_size: Annotated[int, between(0, MAX_PAYLOAD)] = 0
    """Data of this many bytes, counting up."""
    bad_icrc: bool = False
    """Invert the ICRC: the receiver silently drops the packet."""

    classes: Classes = {3: MAX_QUANTA}
    """pfc: classes to pause, each with its quanta or time; 0 resumes the class."""
    vector: Bits16 | None = None
    """pfc: the priority_enable_vector, if it differs from the classes: other classes, or reserved bits."""
    quanta: Quanta = MAX_QUANTA
    """pause: quanta or time for which the link pauses; 0 resumes it."""
    rate: Rate | None = None
    """Rate of the link, to convert times to quanta and back."""

    vni: Bits24 | None = None
    """Put the packet in a VXLAN tunnel with this VNI."""
    vtep_src: Address | None = None
    """IP address of the tunnel's near end; 10.252.0.1, or fd01::1."""
    vtep_dst: Address | None = None
    """IP address of the tunnel's far end; 10.252.0.2, or fd01::2."""
    vtep_src_mac: Mac = "02:00:00:00:00:11"
    """Outer source MAC address."""
    vtep_dst_mac: Mac = "02:00:00:00:00:12"
    """Outer destination MAC address."""
    vtep_sport: Bits16 = 0xD000
    """Outer UDP source port."""

    @model_validator(mode="before")
    @classmethod
    def _as_cnps_are(cls, data: Any) -> Any:
        """Set the defaults of a CNP: its own DSCP, so that it is not queued behind data, and no ECN capability."""
        # Not "in" a set: the kind in a file may be a list or a mapping, which has no hash.
        kind = data.get("kind") if isinstance(data, dict) else None
        if kind == PacketKind.CNP or kind == PacketKind.CNP.value:  # noqa: PLR1714
            return {"dscp": CNP_DSCP, "ecn": "not-ect", **data}
        return data

    @property
    def ends(self) -> tuple[str, str]:
        """The addresses of sender and receiver. A missing one has a default of the other's family."""
        return _ends(self.src, self.dst, _HOSTS)

    @property
    def vtep_ends(self) -> tuple[str, str]:
        """The addresses of the tunnel's near and far end, with the same defaults."""
        return _ends(self.vtep_src, self.vtep_dst, _VTEPS)

    @property
    def tag(self) -> Tag | None:
        """The 802.1Q tag, None without VLAN and PCP."""
        return None if self.vlan is None and self.pcp is None else Tag(self.vlan or 0, self.pcp or 0)

    @property
    def data(self) -> bytes:
        """The payload, from whichever key gives it."""
        counted = bytes(number & 0xFF for number in range(self.payload_size))
        return self.payload or self.payload_hex or counted
