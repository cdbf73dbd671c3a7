"""Tables of opcode properties, indexed by a column of opcodes (IBA vol. 1 section 9.2.1)."""

from __future__ import annotations

from typing import Final

import numpy as np

from lab.wire.header_fields import OpcodeFields, SyndromeFields
from lab.wire.opcodes import OPERATIONS, RD, UD, Opcode

MESSAGES: Final = ("SEND", "WRITE", "READ", "ATOMIC", "ATOMIC WRITE", "FLUSH")
ACKS: Final = (
    "ACK",
    "RNR NAK",
    "PSN Sequence Error",
    "Invalid Request",
    "Remote Access Error",
    "Remote Operational Error",
    "Invalid RD Request",
    "reserved",
)
"""The meanings of an AETH: ACK, RNR NAK, the NAK codes in their order, or reserved (tables 43 and 46)."""
RNR: Final = 1
SEQUENCE_ERROR: Final = 2
_RESERVED: Final = 7


def _table(*marks: str, without: str = "-") -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return a table that is true for opcodes whose name contains one of ``marks``."""
    table = np.zeros(256, np.bool_)
    for value, opcode in OPERATIONS.items():
        name = opcode.name
        table[value] = any(mark in name for mark in marks) and without not in name
    return table


RESPONSE: Final = _table("RESPONSE", "ACKNOWLEDGE")
PLAIN_ACK: Final = _table("ACKNOWLEDGE", without="ATOMIC")
"""Answers with the newest PSN of a responder, also to duplicate requests."""
CNP: Final = np.arange(256) == int(Opcode.CNP)
REQUEST: Final = _table("SEND", "WRITE", "REQUEST", "CMPSWAP", "FETCHADD", "FLUSH")
SEQUENCED: Final = REQUEST & ~np.isin(OpcodeFields.TRANSPORT.of(np.arange(256)), (RD, UD))
"""Requests with consecutive PSNs at the responder: those of RC, XRC and UC."""
DATAGRAM: Final = REQUEST & (OpcodeFields.TRANSPORT.of(np.arange(256)) == UD)
"""Requests of UD, which has no retransmissions."""
READ_REQUEST: Final = _table("READ_REQUEST")
BEGINS: Final = REQUEST & ~(_table("MIDDLE", "LAST"))
"""Requests that begin a message: First, Only, and single-packet operations."""
FULL: Final = _table("FIRST", "MIDDLE")
"""Packets whose payload is one path MTU."""
READ_RESPONSE: Final = _table("READ_RESPONSE")
CONTINUED: Final = _table("RESPONSE_MIDDLE", "RESPONSE_LAST")
"""READ responses that must directly follow another one."""


def _messages() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    kinds = np.full(256, -1)
    kinds[_table("SEND") & _table("LAST", "ONLY")] = 0
    kinds[_table("WRITE") & _table("LAST", "ONLY")] = 1
    kinds[READ_REQUEST] = 2
    kinds[_table("CMPSWAP", "FETCHADD")] = 3
    kinds[_table("ATOMIC_WRITE")] = 4
    kinds[_table("FLUSH")] = 5
    return kinds


MESSAGE: Final = _messages()
"""By opcode: the kind of message that it ends, an index of ``MESSAGES``; else -1."""


def _acks() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    syndrome = np.arange(256)
    kind, code = SyndromeFields.KIND.of(syndrome), SyndromeFields.CODE.of(syndrome)
    return np.select([kind == 0, kind == 1, (kind == 3) & (code < 5)], [0, RNR, SEQUENCE_ERROR + code], _RESERVED)


ACK: Final = _acks()
"""By syndrome: an index of ``ACKS``."""
