"""A packet as people describe it: every key, its meaning, its default and its bounds.

Options of ``rocelab craft`` and keys of its files are the fields of this model, with hyphens for underscores.
"""

from __future__ import annotations

import re
from enum import Enum
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict

from lab.model.yamltext import show
from lab.units import parse_rate, parse_time
from lab.wire.headers import CLASSES
from lab.wire.summary import ECN_NAMES
from lab.wire.syndrome import NO_CREDIT_COUNT, NakCode

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_PAYLOAD: Final = 4096
"""Bytes of data in one packet: the largest path MTU."""
MAX_QUANTA: Final = 0xFFFF
MAX_COUNT: Final = 2**24
"""Packets from one description: as many as there are PSNs."""

_MAC: Final = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}")
_DIGITS: Final = re.compile(r"-?(?:0x[0-9a-f]{1,16}|[0-9]{1,20})", re.ASCII | re.IGNORECASE)
_HEX: Final = re.compile(r"(?:[0-9a-fA-F]{2}\s*)*", re.ASCII)

Span: TypeAlias = int | float
"""How long to pause: an int counts quanta, a float seconds."""


class Kind(Enum):
    """What to craft."""

    WRITE = "write"
    READ = "read"
    READ_RESPONSE = "read-response"
    SEND = "send"
    CMPSWAP = "cmpswap"
    FETCHADD = "fetchadd"
    ATOMIC_ACK = "atomic-ack"
    ACK = "ack"
    NAK = "nak"
    RNR_NAK = "rnr-nak"
    CNP = "cnp"
    PFC = "pfc"
    PAUSE = "pause"


class Transport(Enum):
    """Reliable connection, unreliable connection, unreliable datagram."""

    RC = "rc"
    UC = "uc"
    UD = "ud"


class Part(Enum):
    """Which packet of a message it is."""

    FIRST = "first"
    MIDDLE = "middle"
    LAST = "last"
    ONLY = "only"


def _scalar(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"must be one value, not {show(value)}; write it on one line")
    return str(value)


def _integer(value: Any, low: int, high: int) -> int:
    text = _scalar(value)
    bounds = f"choose {low} to {high}" + (f" ({high:#x})" if high > MAX_PAYLOAD else "")
    if not _DIGITS.fullmatch(text):
        raise ValueError(f"{show(value)} is not a whole number; {bounds}")
    number = int(text, 16 if "x" in text.lower() else 10)
    if not low <= number <= high:
        raise ValueError(f"{show(value)} is out of range; {bounds}")
    return number


def _between(low: int, high: int) -> BeforeValidator:
    return BeforeValidator(lambda value: _integer(value, low, high))


def _bits(count: int) -> BeforeValidator:
    return _between(0, 2**count - 1)


def _choice(names: dict[str, Any]) -> BeforeValidator:
    def check(value: Any) -> Any:
        text = _scalar(value)
        if text not in names:
            raise ValueError(f"{show(value)} is not known; choose {', '.join(names)}")
        return names[text]

    return BeforeValidator(check)


def _parsed(parse: Callable[[str], Any], example: str) -> BeforeValidator:
    def check(value: Any) -> Any:
        text = _scalar(value)
        try:
            return parse(text)
        except ValueError as error:
            raise ValueError(f"{show(value)} cannot be read; write it like {example}") from error

    return BeforeValidator(check)


def _mac(text: str) -> str:
    if not _MAC.fullmatch(text.lower()):
        raise ValueError(text)
    return text.lower()


def _octets(text: str) -> bytes:
    if not _HEX.fullmatch(text):
        raise ValueError(text)
    return _fitting(bytes.fromhex(text))


def _fitting(octets: bytes) -> bytes:
    if len(octets) > MAX_PAYLOAD:
        raise ValueError(f"more than {MAX_PAYLOAD} bytes")
    return octets


def _span(text: str) -> Span:
    return _integer(text, 0, MAX_QUANTA) if _DIGITS.fullmatch(text) else parse_time(text)


def _rate(text: str) -> int:
    if (rate := parse_rate(text)) == 0:
        raise ValueError(text)
    return rate


def _classes(text: str) -> dict[int, Span]:
    pairs = [pair.partition("=") for pair in text.split(",")]
    return {_integer(name.strip(), 0, CLASSES - 1): _span(span.strip()) for name, _, span in pairs}


def _named(choices: type[Enum]) -> BeforeValidator:
    return _choice({choice.value: choice for choice in choices})


_ECN: Final = {name.lower().replace("(", "").replace(")", ""): value for value, name in enumerate(ECN_NAMES)}
_REASONS: Final = {code.name.lower().replace("_", "-"): code for code in NakCode}

Address: TypeAlias = Annotated[str, _parsed(lambda text: str(ip_address(text)), "10.0.0.1 or fd00::1")]
Mac: TypeAlias = Annotated[str, _parsed(_mac, "02:00:00:00:00:01")]
Bits16: TypeAlias = Annotated[int, _bits(16)]
Bits24: TypeAlias = Annotated[int, _bits(24)]
Bits32: TypeAlias = Annotated[int, _bits(32)]
Bits64: TypeAlias = Annotated[int, _bits(64)]


class PacketSpec(BaseModel):
    """One packet. Which keys it may have depends on its kind; ``craft.check`` says."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        use_attribute_docstrings=True,
        alias_generator=lambda name: name.replace("_", "-"),
    )

    kind: Annotated[Kind, _named(Kind)]
    """What it is: write, read, read-response, send, cmpswap, fetchadd, atomic-ack, ack, nak, rnr-nak, cnp, pfc or
    pause."""

    count: Annotated[int, _between(1, MAX_COUNT)] = 1
    """This many of it, with PSNs counting up."""

    src: Address = "10.0.0.1"
    """IP address of the sender."""
    dst: Address = "10.0.0.2"
    """IP address of the receiver."""
    src_mac: Mac = "02:00:00:00:00:01"
    """MAC address of the sender."""
    dst_mac: Mac = "02:00:00:00:00:02"
    """MAC address of the receiver, or of the gateway to it."""
    sport: Bits16 = 0xC000
    """UDP source port: what ECMP tells QPs by."""
    dscp: Annotated[int, _bits(6)] = 26
    """Class of service in the IP header."""
    ecn: Annotated[int, _choice(_ECN)] = 2
    """ECN field: not-ect, ect1, ect0 or ce."""
    ttl: Annotated[int, _between(1, 255)] = 64
    """TTL, or the hop limit of IPv6."""

    transport: Annotated[Transport, _named(Transport)] = Transport.RC
    """Transport service: rc, uc or ud."""
    part: Annotated[Part, _named(Part)] = Part.ONLY
    """Which packet of its message: first, middle, last or only."""
    qp: Bits24 = 0x11
    """Queue pair at the receiver (DestQP)."""
    psn: Bits24 = 0
    """Packet sequence number."""
    wrong_psn: Annotated[int, _between(-(2**23), 2**23 - 1)] = 0
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
    """Bytes of the whole message; of an only packet, those of its payload."""
    immdt: Bits32 | None = None
    """Immediate data, with the last or only packet of a write or send."""
    invalidate: Bits32 | None = None
    """Remote key to revoke, with the last or only packet of a send."""
    qkey: Bits32 = 0x11111111
    """Queue key of a datagram."""
    srcqp: Bits24 = 0x10
    """Queue pair that sends the datagram."""
    compare: Bits64 = 0
    """cmpswap: what must be there for the swap to happen."""
    swap: Bits64 = 0
    """cmpswap: what to write."""
    add: Bits64 = 0
    """fetchadd: what to add."""
    original: Bits64 = 0
    """atomic-ack: what was there before."""

    msn: Bits24 = 0
    """Messages that the responder has completed."""
    credits: Annotated[int, _bits(5)] = NO_CREDIT_COUNT
    """Credit count code of an acknowledgement, 0 to 30; 31 is none."""
    reason: Annotated[NakCode, _choice(_REASONS)] = NakCode.PSN_SEQUENCE_ERROR
    """nak: psn-sequence-error, invalid-request, remote-access-error, remote-operational-error or
    invalid-rd-request."""
    timer: Annotated[int, _bits(5)] = 14
    """rnr-nak: timer code, 0 to 31 (IBA vol. 1 table 45); 14 is 1.28 ms."""

    payload: Annotated[bytes, _parsed(lambda text: _fitting(text.encode()), f"text of up to {MAX_PAYLOAD} bytes")] = (
        b""
    )
    """Data as text."""
    payload_hex: Annotated[bytes, _parsed(_octets, f"'de ad be ef', up to {MAX_PAYLOAD} bytes")] = b""
    """Data as hexadecimal octets."""
    payload_size: Annotated[int, _between(0, MAX_PAYLOAD)] = 0
    """Data of this many bytes, counting up."""
    bad_icrc: bool = False
    """Spoil the ICRC: the receiver drops the packet without a word."""

    classes: Annotated[dict[int, Span], _parsed(_classes, "3=65535,4=0 or 3=100us")] = {3: MAX_QUANTA}
    """pfc: classes to stop, each with its quanta or time; 0 lets it go on."""
    quanta: Annotated[Span, _parsed(_span, "65535 or 100us")] = MAX_QUANTA
    """pause: quanta or time to stop the link for; 0 lets it go on."""
    rate: Annotated[int, _parsed(_rate, "100Mbit or 10Gbit")] | None = None
    """Rate of the link, which makes times of quanta and quanta of times."""

    vni: Bits24 | None = None
    """Put the packet in a VXLAN tunnel, into this segment."""
    vtep_src: Address = "10.252.0.1"
    """IP address of the tunnel's near end."""
    vtep_dst: Address = "10.252.0.2"
    """IP address of the tunnel's far end."""
    vtep_src_mac: Mac = "02:00:00:00:00:11"
    """Outer source MAC address."""
    vtep_dst_mac: Mac = "02:00:00:00:00:12"
    """Outer destination MAC address."""
    vtep_sport: Bits16 = 0xD000
    """Outer UDP source port."""

    @property
    def data(self) -> bytes:
        """The payload, whichever way it was given."""
        counted = bytes(number & 0xFF for number in range(self.payload_size))
        return self.payload or self.payload_hex or counted
