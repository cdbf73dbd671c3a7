"""The AETH syndrome: a responder's verdict on a request (IBA vol. 1 section 9.7.5.2)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from lab.units import format_time
from lab.wire.header_fields import SyndromeFields


class AckKind(IntEnum):
    """Bits 6 and 5 of the syndrome."""

    ACK = 0
    RNR_NAK = 1
    RESERVED = 2
    NAK = 3


class NakCode(IntEnum):
    """Bits 4 to 0 of a NAK's syndrome."""

    PSN_SEQUENCE_ERROR = 0
    INVALID_REQUEST = 1
    REMOTE_ACCESS_ERROR = 2
    REMOTE_OPERATIONAL_ERROR = 3
    INVALID_RD_REQUEST = 4


_NAK_NAMES: Final = {
    NakCode.PSN_SEQUENCE_ERROR: "PSN Sequence Error",
    NakCode.INVALID_REQUEST: "Invalid Request",
    NakCode.REMOTE_ACCESS_ERROR: "Remote Access Error",
    NakCode.REMOTE_OPERATIONAL_ERROR: "Remote Operational Error",
    NakCode.INVALID_RD_REQUEST: "Invalid RD Request",
}
NO_CREDIT_COUNT: Final = SyndromeFields.CODE.most
"""The credit count of responders without end-to-end flow control, like shared receive queues and rxe."""

# Table 45 (section 9.7.5.2.8), in units of 10 us; code 0 is the longest wait.
_RNR_TIMERS: Final = (
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072,
    4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
)  # fmt: skip
# Number of posted receives, by credit count code.
_CREDITS: Final = (
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072,
    4096, 6144, 8192, 12288, 16384, 24576, 32768,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Syndrome:
    """A decoded syndrome; ``kind`` determines whether ``code`` is a credit count, an RNR timer or a NAK code."""

    kind: AckKind
    code: int

    @classmethod
    def decode(cls, octet: int) -> Syndrome:
        """Decode the syndrome octet. The reserved top bit is ignored, as receivers must."""
        return cls(AckKind(SyndromeFields.KIND.of(octet)), SyndromeFields.CODE.of(octet))

    @property
    def octet(self) -> int:
        """The syndrome as on the wire."""
        return self.kind << SyndromeFields.KIND.shift | self.code

    @property
    def is_known_nak(self) -> bool:
        """Whether ``code`` is one of ``NakCode``."""
        return self.kind is AckKind.NAK and self.code in _NAK_NAMES

    @property
    def rnr_wait(self) -> float:
        """Seconds that an RNR NAK asks the requester to wait; ValueError for other kinds."""
        if self.kind is not AckKind.RNR_NAK:
            raise ValueError(f"{self.kind.name} carries no RNR timer")
        return _RNR_TIMERS[self.code] * 1e-5

    def __str__(self) -> str:
        if self.kind is AckKind.ACK:
            return "ACK" if self.code == NO_CREDIT_COUNT else f"ACK, {_CREDITS[self.code]} credits"
        if self.kind is AckKind.RNR_NAK:
            return f"RNR NAK, wait {format_time(self.rnr_wait)}"
        if self.is_known_nak:
            return f"NAK, {_NAK_NAMES[NakCode(self.code)]}"
        return f"reserved syndrome {self.octet:#04x}"
