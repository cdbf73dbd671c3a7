"""Netlink messages and their attributes, as bytes (netlink(7), rtnetlink(7))."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

Attributes: TypeAlias = dict[int, bytes]

HEADER: Final = struct.Struct("=IHHII")
"""struct nlmsghdr: length, type, flags, sequence, port."""
ERROR: Final = 2
"""Type of an acknowledgement, positive or negative (NLMSG_ERROR)."""
DONE: Final = 3
"""Type of a dump's last message (NLMSG_DONE)."""
_ATTRIBUTE: Final = struct.Struct("=HH")  # nlattr: length, type
_TYPE: Final = 0x3FFF
"""An attribute's type without its flags (NLA_TYPE_MASK)."""
_CODE: Final = struct.Struct("=i")


@dataclass(frozen=True, slots=True)
class NetlinkMessage:
    """One message: its header without the length, and its content."""

    kind: int
    flags: int
    sequence: int
    content: bytes

    @property
    def refused(self) -> int:
        """The error number (errno(3)) of a refusal; 0 for an acknowledgement and any other message.

        A dump that the kernel begins and cannot finish has the error in its last message.
        """
        if self.kind not in {ERROR, DONE} or len(self.content) < _CODE.size:
            return 0
        return max(0, int(-_CODE.unpack_from(self.content)[0]))

    @property
    def remarks(self) -> Attributes:
        """The attributes of an acknowledgement that carries only the header of its request (NLM_F_CAPPED)."""
        return attributes(self.content[_CODE.size + HEADER.size :])


def messages(data: bytes) -> Iterator[NetlinkMessage]:
    """Yield the messages in one received buffer."""
    offset = 0
    while offset + HEADER.size <= len(data):
        length, kind, flags, sequence, _ = HEADER.unpack_from(data, offset)
        yield NetlinkMessage(
            kind=kind, flags=flags, sequence=sequence, content=data[offset + HEADER.size : offset + length]
        )
        offset += _aligned(max(length, HEADER.size))


def attributes(data: bytes) -> Attributes:
    """Return the attributes in ``data`` by type. Nested attributes are parsed from the value of the outer one."""
    return dict(each_attribute(data))


def each_attribute(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and value of each attribute in ``data``, in order. Lists repeat one type."""
    offset = 0
    while offset + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        yield kind & _TYPE, data[offset + _ATTRIBUTE.size : offset + length]
        offset += _aligned(max(length, _ATTRIBUTE.size))


def attribute(kind: int, value: bytes) -> bytes:
    """Return one encoded attribute, padded."""
    length = _ATTRIBUTE.size + len(value)
    return (_ATTRIBUTE.pack(length, kind) + value).ljust(_aligned(length), b"\0")


def text(value: bytes) -> str:
    """Return a string attribute's text, without its NUL bytes."""
    return value.rstrip(b"\0").decode(errors="replace")


def _aligned(length: int) -> int:
    return (length + 3) & ~3
