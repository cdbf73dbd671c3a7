"""The rules of iptables-legacy and ip6tables-legacy of a namespace, with their hits. nftables does not list them."""

from __future__ import annotations

import socket
import struct
import sys
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from lab.audit.objects.kernel_objects import NftRuleAudit
from lab.kernel.packets.legacy_tables import read_legacy_tables_here

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lab.kernel.packets.legacy_tables import LegacyTable

PROGRAMS: Final = {socket.AF_INET: "iptables-legacy", socket.AF_INET6: "ip6tables-legacy"}
"""The program that shows and changes a table, by address family: the first word of a chain's name."""
_MATCHED: Final = {
    socket.AF_INET: struct.Struct("=4s4s4s4s16s16s16s16sHBB4xHH4xQQ"),
    socket.AF_INET6: struct.Struct("=16s16s16s16s16s16s16s16sHxBB3x4xHH4x4xQQ"),
}
"""struct ipt_entry and struct ip6t_entry (<linux/netfilter_ipv4/ip_tables.h>) before the matches of an entry."""
_PART: Final = struct.Struct("=H29sB")
"""The beginning of a match and of a target: size, name, revision (<linux/netfilter/x_tables.h>)."""
_INVERTED: Final = {"in": 0x01, "out": 0x02, "from": 0x08, "to": 0x10, "proto": 0x40}
"""IPT_INV_VIA_IN, ..., by the word before the value."""
_VERDICTS: Final = {-1: "DROP", -2: "ACCEPT", -4: "QUEUE", -5: "RETURN"}
"""Verdicts of the standard target, which has no name: the negated ones of <linux/netfilter.h>, less one."""
_ZERO: Final = b"\0"
_ACCEPTING: Final = "accept"
_BEGINNING: Final = "ERROR"
"""The target of the entry that begins a chain of a user, and of the end of the table."""


def read_legacy_rules_here() -> tuple[NftRuleAudit, ...]:
    """Return the rules and policies of the calling thread's namespace. OSError if the kernel refuses."""
    return tuple(each for table in read_legacy_tables_here() for each in parse_table(table))


def parse_table(table: LegacyTable) -> list[NftRuleAudit]:
    """Return the rules of a table, and policies other than accepting, which each table has from the beginning.

    ValueError if an entry is damaged, or of an unknown kernel.
    """
    try:
        entries = list(_entries(table))
    except struct.error as error:
        raise ValueError(f"the table {table.name} ends within an entry") from error
    chains = {offset: name for name, offset in table.first.items()}
    chains |= {each.end: each.user_chain for each in entries if each.target == _BEGINNING}
    policies = {offset: name.lower() for name, offset in table.policy.items()}
    found: list[NftRuleAudit] = []
    chain = ""
    for each in entries:
        chain = chains.get(each.offset, chain)
        name = f"{PROGRAMS[table.family]} {table.name} {chain}"
        if each.offset in policies:
            policy = each.says(chains).lower()
            if policy != _ACCEPTING:
                said = f"hook {policies[each.offset]} policy {policy}"
                found.append(NftRuleAudit(chain=name, rule=said, packets=0, bytes=0))
        elif each.target != _BEGINNING:
            rule = " ".join([*each.matches, each.says(chains)])
            found.append(NftRuleAudit(chain=name, rule=rule, packets=each.packets, bytes=each.bytes))
    return found


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of a table: a rule, a policy, or the beginning of a chain."""

    offset: int
    end: int
    matches: tuple[str, ...]
    target: str
    """"" for the standard one, whose data are a verdict."""
    data: bytes
    """Those of the target."""
    packets: int
    bytes: int

    @property
    def user_chain(self) -> str:
        """The name of the chain that begins after the entry."""
        return _text(self.data)

    def says(self, chains: Mapping[int, str]) -> str:
        """Return the target, with its data, or the verdict; ``chains`` are the names by the offset of a jump."""
        if self.target:
            return f"{self.target} {_digits(self.data)}"
        verdict = int.from_bytes(self.data[:4], sys.byteorder, signed=True)
        return _VERDICTS.get(verdict) or chains.get(verdict, str(verdict))


def _entries(table: LegacyTable) -> Iterator[_Entry]:
    form, offset = _MATCHED[table.family], 0
    while offset < len(table.entries):
        *addresses, protocol, _, inverted, to_target, to_next, packets, size = form.unpack_from(table.entries, offset)
        if not form.size <= to_target < to_next:
            raise ValueError(f"entry at {offset} of the table {table.name}")
        matches = _of_header(addresses, protocol, inverted)
        begin = offset + form.size
        while begin < offset + to_target:
            length, name, revision = _PART.unpack_from(table.entries, begin)
            data = table.entries[begin + _PART.size : begin + max(length, _PART.size)]
            matches.append(f"match {_text(name)} {revision} {_digits(data)}")
            begin += max(length, _PART.size)
        _, target, _ = _PART.unpack_from(table.entries, begin)
        yield _Entry(
            offset=offset, end=offset + to_next, matches=tuple(matches), target=_text(target),
            data=table.entries[begin + _PART.size : offset + to_next], packets=packets, bytes=size,
        )  # fmt: skip
        offset += to_next


def _of_header(addresses: Sequence[bytes], protocol: int, inverted: int) -> list[str]:
    """Return what the header of a rule matches, as words."""
    source, to, source_mask, to_mask, coming, going, _, _ = addresses
    said = {
        "from": _network(source, source_mask), "to": _network(to, to_mask), "in": _text(coming), "out": _text(going),
        "proto": str(protocol or ""),
    }  # fmt: skip
    return [f"{'not ' if inverted & _INVERTED[name] else ''}{name} {value}" for name, value in said.items() if value]


def _network(address: bytes, mask: bytes) -> str:
    """Return an address with its mask, or its length; "" for all addresses."""
    length = f"{int.from_bytes(mask):b}".rstrip("0").count("1")
    whole = int.from_bytes(mask) == ((1 << length) - 1) << (8 * len(mask) - length)
    return f"{ip_address(address)}/{length if whole else ip_address(mask)}" if any(mask) else ""


def _text(name: bytes) -> str:
    return name.partition(_ZERO)[0].decode(errors="replace")


def _digits(data: bytes) -> str:
    """Return the data of a match or target in hexadecimal: each kind has a structure of its own."""
    return data.rstrip(_ZERO).hex() or "0"
