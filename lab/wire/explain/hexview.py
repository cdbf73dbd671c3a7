"""Show the octets of a frame in hexadecimal; each header starts a new line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.wire.explain.explanation import ExplainedHeader

_WIDTH: Final = 16
"""Octets in one line."""


def hex_lines(data: bytes, headers: Sequence[ExplainedHeader]) -> Iterator[str]:
    """Yield lines like ``0022 c0 00 12 b7 00 20 00 00 ..... UDP``: offset, octets, text, header.

    Every octet is shown once, in order. Octets that belong to no header have no name.
    """
    start = 0
    for header in headers:
        end = start + header.size
        yield from _lines(data, start, end, header.name.split(",")[0])
        start = end
    yield from _lines(data, start, len(data), "")


def _lines(data: bytes, start: int, end: int, name: str) -> Iterator[str]:
    for offset in range(start, end, _WIDTH):
        octets = data[offset : min(offset + _WIDTH, end)]
        text = "".join(chr(octet) if 0x20 <= octet < 0x7F else "." for octet in octets)
        label = name if offset == start else ""
        yield f"{offset:04x}  {octets.hex(' '):<{3 * _WIDTH - 1}}  {text:<{_WIDTH}}  {label}".rstrip()
