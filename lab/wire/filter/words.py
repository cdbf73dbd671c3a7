"""The words of the filter language, and the equivalent Wireshark fields."""

from __future__ import annotations

import re
from typing import Final

from lab.wire.filter.expression import ICRC_NAMES, AddressSide, Expression, FilterField, Within
from lab.wire.opcodes import OPERATIONS, Opcode, opcode_name
from lab.wire.syndrome import AckKind
from lab.wire.udp_ports import GENEVE_PORT, PAUSE_OPCODE, PFC_OPCODE, VXLAN_PORT

_LANGUAGE: Final = (
    FilterField.QPN, FilterField.PSN, FilterField.OPCODE, FilterField.VNI, FilterField.DSCP, FilterField.ECN,
    FilterField.TTL, FilterField.SPORT, FilterField.DPORT, FilterField.VLAN, FilterField.PCP, FilterField.ICRC,
)  # fmt: skip
FIELDS: Final = {field.value[0]: field for field in _LANGUAGE}
PORT: Final = "port"
"""Matches either port."""
INTERFACE: Final = "interface"
CONNECTION: Final = "conn"
SIDES: Final = {side.value: side for side in AddressSide}
WORDS: Final[dict[str, Expression]] = {
    "roce": Within(FilterField.OPCODE, ((0, 255),)),
    "cnp": Within(FilterField.OPCODE, ((Opcode.CNP, Opcode.CNP),)),
    "ack": Within(FilterField.ANSWER, ((AckKind.ACK, AckKind.ACK),)),
    "nak": Within(FilterField.ANSWER, ((AckKind.NAK, AckKind.NAK),)),
    "rnr": Within(FilterField.ANSWER, ((AckKind.RNR_NAK, AckKind.RNR_NAK),)),
    "ce": Within(FilterField.ECN, ((3, 3),)),
    "ect": Within(FilterField.ECN, ((1, 2),)),
    "pfc": Within(FilterField.CONTROL, ((PFC_OPCODE, PFC_OPCODE),)),
    "pause": Within(FilterField.CONTROL, ((PAUSE_OPCODE, PAUSE_OPCODE),)),
    "tcp": Within(FilterField.TRANSPORT, ((6, 6),)),
    "udp": Within(FilterField.TRANSPORT, ((17, 17),)),
}
ALIASES: Final = {
    "infiniband": "roce",
    "infiniband.bth": "roce",
    "infiniband.bth.destqp": "qpn",
    "infiniband.bth.psn": "psn",
    "infiniband.bth.opcode": "opcode",
    "vxlan.vni": "vni",
    "geneve.vni": "vni",
    "ip.dsfield.dscp": "dscp",
    "ip.dsfield.ecn": "ecn",
    "ipv6.tclass.dscp": "dscp",
    "ipv6.tclass.ecn": "ecn",
    "ip.ttl": "ttl",
    "ipv6.hlim": "ttl",
    "ip.addr": "host",
    "ip.src": "src",
    "ip.dst": "dst",
    "ipv6.addr": "host",
    "ipv6.src": "src",
    "ipv6.dst": "dst",
    "udp.port": "port",
    "udp.srcport": "sport",
    "udp.dstport": "dport",
    "tcp.port": "port",
    "tcp.srcport": "sport",
    "tcp.dstport": "dport",
    "vlan.id": "vlan",
    "vlan.priority": "pcp",
    "frame.interface_name": "interface",
}
"""Wireshark's display filter fields, and their equivalents here."""
_OF: Final = {
    "tcp.": (FilterField.TRANSPORT, 6),
    "udp.": (FilterField.TRANSPORT, 17),
    "ip.": (FilterField.VERSION, 4),
    "ipv6.": (FilterField.VERSION, 6),
    "vxlan.": (FilterField.TUNNEL, VXLAN_PORT),
    "geneve.": (FilterField.TUNNEL, GENEVE_PORT),
}
WHERE: Final = {alias: where for alias in ALIASES for prefix, where in _OF.items() if alias.startswith(prefix)}
"""Wireshark fields of one protocol only: ``sport``, ``dscp`` or ``host`` here match both of their kind."""
TAGS: Final = "vlan.id"
"""Wireshark's VLAN of any tag; ``vlan`` here is that of the last tag."""

AETH: Final = "infiniband.aeth"
"""Prefix of Wireshark's fields of AETHs."""

_FAMILIES: Final = {
    "send": "_SEND_",
    "write": "_RDMA_WRITE_",
    "read": "_RDMA_READ_",
    "atomic": "_(CMPSWAP|FETCHADD|ATOMIC_)",
    "flush": "_FLUSH",
    "ack": "_ACKNOWLEDGE",
    "cnp": "CNP",
    "rc": "^RC_",
    "xrc": "^XRC_",
    "uc": "UC_",
    "ud": "UD_",
}
"""Groups of opcodes, by a pattern of their names."""


def _full_name(value: int, opcode: Opcode) -> str:
    return opcode.name if value == opcode else opcode.name.replace("RC", opcode_name(value).partition(" ")[0], 1)


OPCODES: Final = {_full_name(value, opcode).lower(): (value,) for value, opcode in OPERATIONS.items()} | {
    family: tuple(value for value, opcode in OPERATIONS.items() if re.search(part, _full_name(value, opcode)))
    for family, part in _FAMILIES.items()
}
NAMED: Final[dict[FilterField, dict[str, tuple[int, ...]]]] = {
    FilterField.OPCODE: OPCODES,
    FilterField.ICRC: {name: (number,) for number, name in enumerate(ICRC_NAMES)},
}
"""Named values, by field."""
CONDITIONS: Final = (*FIELDS, PORT, INTERFACE, CONNECTION, *SIDES, *WORDS)
"""Every word that can begin a condition, without Wireshark's."""
