"""Management datagrams to QP 0 and 1, including the connection parameters in those of the communication manager.

Programs may set up RDMA connections with a handshake: REQ, REP and RTU (IBA vol. 1 section 12.6).
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final

GENERAL_QP: Final = 1
"""The QP for all management except subnet management (IBA vol. 1 section 13.5)."""
SIZE: Final = 256
"""Bytes of a management datagram (section 13.4.2)."""
_HEADER: Final = Struct("!BBBBHHQHHI")
_COMMUNICATION: Final = 0x07
_CLASSES: Final = {
    0x01: "SMP", 0x81: "SMP, directed route", 0x03: "subnet administration", 0x04: "performance management",
    0x05: "baseboard management", 0x06: "device management", _COMMUNICATION: "CM", 0x08: "SNMP tunneling",
}  # fmt: skip
_MESSAGES: Final = {
    0x10: "REQ", 0x11: "MRA", 0x12: "REJ", 0x13: "REP", 0x14: "RTU", 0x15: "DREQ", 0x16: "DREP", 0x17: "SIDR_REQ",
    0x18: "SIDR_REP", 0x19: "LAP", 0x1A: "APR",
}  # fmt: skip
_IDS: Final = Struct("!II")
_REASON: Final = slice(10, 12)
"""Bytes of the reason of a REJ, after the header."""
REJECT_REASONS: Final = {
    1: "no QP available", 3: "no resources available", 4: "timeout", 5: "unsupported request",
    6: "invalid communication ID", 8: "invalid service ID", 9: "invalid transport service type",
    10: "stale connection", 12: "primary remote port GID rejected", 15: "invalid primary traffic class",
    16: "invalid primary hop limit", 24: "redirected", 26: "invalid path MTU",
    27: "insufficient responder resources", 28: "consumer reject", 29: "RNR retry count rejected",
    30: "duplicate local communication ID", 31: "invalid class version",
}  # fmt: skip
"""Reasons of a REJ by number (IBA vol. 1 section 12.6.7.2)."""
_PLACES: Final = {"REQ": (32, 44), "REP": (12, 20)}  # offsets of Local QPN and Starting PSN, after the header


@dataclass(frozen=True, slots=True)
class Mad:
    """A management datagram. ``name`` is its class, or a message like ``CM REQ``.

    ``local`` and ``remote`` are the communication IDs of the sender and its peer. ``qpn`` and ``psn`` are the QP of
    the sender of a REQ or REP, and its starting PSN. ``transaction`` is the same in a request, all of its
    transmissions and its answers (section 13.4.6.4).
    """

    name: str
    local: int | None = None
    remote: int | None = None
    qpn: int | None = None
    psn: int | None = None
    transaction: int | None = None
    reason: int | None = None
    """Why a connection is rejected (section 12.6.7.2), in a REJ."""


def parse(data: bytes) -> Mad | None:
    """Decode a datagram to QP 0 or 1; None without a valid header (IBA vol. 1 sections 13.4.3 and 12.6)."""
    if len(data) < _HEADER.size:
        return None
    version, kind, _, _, _, _, transaction, attribute, _, _ = _HEADER.unpack_from(data)
    if version != 1:
        return None
    name = _MESSAGES.get(attribute)
    body = data[_HEADER.size :]
    if kind != _COMMUNICATION or name is None or len(body) < _IDS.size:
        return Mad(_CLASSES.get(kind, f"management class {kind:#04x}"))
    local, remote = _IDS.unpack_from(body)
    if name == "REJ" and len(body) >= _REASON.stop:
        reason = int.from_bytes(body[_REASON])
        return Mad(f"CM {name}", local, remote, transaction=transaction, reason=reason)
    if name not in _PLACES or len(body) < max(_PLACES[name]) + 3:
        return Mad(f"CM {name}", local, None if name == "REQ" else remote, transaction=transaction)
    qpn, psn = (int.from_bytes(body[at : at + 3]) for at in _PLACES[name])
    asker = None if name == "REQ" else remote
    return Mad(name=f"CM {name}", local=local, remote=asker, qpn=qpn, psn=psn, transaction=transaction)
