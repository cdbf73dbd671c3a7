"""Ethernet frames as mirrors send them."""

from __future__ import annotations

import struct

HEADERS = {
    "I": struct.pack("!HH", 0, 0x88BE),
    "II": struct.pack("!HHI", 0x1000, 0x88BE, 7) + struct.pack("!HHI", 0x1000 | 100, 5, 0),
    "III": struct.pack("!HHI", 0x1000, 0x22EB, 7) + struct.pack("!HHIHH", 0x2000 | 100, 5, 99, 0, 0),
    "III with more": struct.pack("!HHI", 0x1000, 0x22EB, 7) + struct.pack("!HHIHHQ", 0x2000 | 100, 5, 99, 0, 1, 0),
    "bridged": struct.pack("!HH", 0, 0x6558),
}
SPECTRUM = struct.pack("!HH", 0, 0x8949) + bytes(22)
"""What SONiC's tests of its mirrors expect of a Spectrum (sonic-mgmt, everflow_test_utilities.py)."""


def mirrored(frame: bytes, header: bytes, tag: bytes = b"") -> bytes:
    """In GRE over IPv4, from a switch to an analyser."""
    size = 20 + len(header) + len(frame)
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, size, 0, 0, 63, 47, 0, b"\x0a\x09\0\1", b"\x0a\x09\0\2")
    return bytes.fromhex("0200000000cc0200000000dd") + tag + b"\x08\x00" + ip + header + frame
