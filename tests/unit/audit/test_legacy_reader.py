"""Tables of iptables-legacy as the kernel returns them: rules, jumps and policies."""

from __future__ import annotations

import socket
import struct
from ipaddress import ip_interface

import pytest

from lab.audit.readers.legacy_reader import parse_table
from lab.kernel.packets.legacy_tables import LegacyTable

DROP, ACCEPT, RETURN = -1, -2, -5
SIZES = {socket.AF_INET: (4, 112), socket.AF_INET6: (16, 168)}
"""The size of an address, and that of an entry without its matches: sizeof in C, on a machine with 64 bits."""


def part(name: str, data: bytes = b"") -> bytes:
    return struct.pack("=H29sB", 32 + len(data), name.encode(), 0) + data


def verdict(number: int) -> bytes:
    return part("", struct.pack("=i4x", number))


def entry(
    target: bytes, matches: bytes = b"", *, to: str = "", coming: str = "", protocol: int = 0, inverted: int = 0,
    family: socket.AddressFamily = socket.AF_INET, packets: int = 0,
) -> bytes:  # fmt: skip
    """Return a rule as the kernel has it."""
    size, header = SIZES[family]
    network = ip_interface(to).network if to else None
    address, mask = (
        (network.network_address.packed, network.netmask.packed) if network else (bytes(size), bytes(size))
    )
    addresses = bytes(size) + address + bytes(size) + mask + coming.encode().ljust(64, b"\0")
    flags = struct.pack("=HBB", protocol, 0, inverted) if size == 4 else struct.pack("=HxBB3x", protocol, 0, inverted)
    start = header + len(matches)
    pads = b"" if size == 4 else bytes(4)
    head = addresses + flags + bytes(4) + struct.pack("=HH", start, start + len(target)) + bytes(4) + pads
    head += struct.pack("=QQ", packets, 100 * packets)
    assert len(head) == header
    return head + matches + target


def table(*entries: bytes, policy: int, family: socket.AddressFamily = socket.AF_INET) -> LegacyTable:
    """Return a table whose chain FORWARD has the entries up to that of ``policy``."""
    last = sum(map(len, entries[:policy]))
    return LegacyTable(family, "filter", {"FORWARD": 0}, {"FORWARD": last}, b"".join(entries))


END = entry(part("ERROR", b"ERROR".ljust(32, b"\0")))


def test_rules_have_their_chain_matches_target_and_hits() -> None:
    dropped = entry(verdict(DROP), to="10.0.0.9/32", packets=7)
    marked = entry(part("DSCP", b"\x1a" + bytes(7)), part("udp", b"\x12\x34".ljust(16, b"\0")), protocol=17)
    found = parse_table(table(dropped, marked, entry(verdict(DROP)), END, policy=2))
    assert [(each.chain, each.rule, each.packets, each.bytes) for each in found] == [
        ("iptables-legacy filter FORWARD", "to 10.0.0.9/32 DROP", 7, 700),
        ("iptables-legacy filter FORWARD", "proto 17 match udp 0 1234 DSCP 1a", 0, 0),
        ("iptables-legacy filter FORWARD", "hook forward policy drop", 0, 0),
    ]


def test_a_jump_names_the_chain_that_it_leads_to() -> None:
    rest = [
        entry(verdict(ACCEPT)),
        entry(part("ERROR", b"MINE".ljust(32, b"\0"))),
        entry(verdict(DROP), to="10.0.0.0/8"),
    ]
    target = len(entry(verdict(0))) + sum(map(len, rest[:2]))
    jump = entry(verdict(target), coming="swp1", inverted=0x01)
    found = parse_table(table(jump, *rest, entry(verdict(RETURN)), END, policy=1))
    assert [(each.chain, each.rule) for each in found] == [
        ("iptables-legacy filter FORWARD", "not in swp1 MINE"),
        ("iptables-legacy filter MINE", "to 10.0.0.0/8 DROP"),
        ("iptables-legacy filter MINE", "RETURN"),
    ]


def test_rules_of_ipv6_have_longer_addresses() -> None:
    family = socket.AF_INET6
    dropped = entry(verdict(DROP), to="fd00::/64", family=family)
    end = entry(part("ERROR", bytes(32)), family=family)
    (rule,) = parse_table(table(dropped, entry(verdict(ACCEPT), family=family), end, policy=1, family=family))
    assert (rule.chain, rule.rule) == ("ip6tables-legacy filter FORWARD", "to fd00::/64 DROP")


def test_a_damaged_entry_is_no_rule() -> None:
    damaged = entry(verdict(DROP))[:88] + bytes(4) + entry(verdict(DROP))[92:]
    with pytest.raises(ValueError, match="entry at 0"):
        parse_table(table(damaged, policy=0))
    with pytest.raises(ValueError, match="ends within an entry"):
        parse_table(table(entry(verdict(DROP))[:100], policy=0))
