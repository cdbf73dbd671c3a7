"""The declared positions of header fields: against scapy, against the C programs, and as the only ones of the source.

scapy's layers of IP and UDP are its own; those of RoCEv2 and MAC control are this project's, declared apart.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment, IPv6ExtHdrRouting
from scapy.layers.l2 import GRE, Dot1Q, Ether

import lab
from lab.kernel.netlink.flow_hash import udp_frame
from lab.wire import header_fields as hf
from lab.wire import rocev2
from lab.wire.ethernet import PFC, VXLAN, MACControl, Pause
from lab.wire.header_fields import Bits, HeaderFields, words
from lab.wire.opcodes import Opcode
from lab.wire.udp_ports import ROCEV2_PORT

if TYPE_CHECKING:
    from scapy.packet import Packet

ROOM: Final = Path(lab.__file__).parent
LAYERS: Final[list[tuple[type[Packet], type[HeaderFields], dict[str, str]]]] = [
    (Ether, hf.EthernetFields, {"dst": "dst", "src": "src", "type": "ethertype"}),
    (Dot1Q, hf.VlanFields, {"prio": "pcp", "vlan": "vlan", "type": "ethertype"}),
    (MACControl, hf.MacControlFields, {"opcode": "opcode"}),
    (Pause, hf.PauseFields, {"pause_time": "quanta"}),
    (PFC, hf.PfcFields, {"priority_enable_vector": "vector"}),
    (IP, hf.Ipv4Fields, {
        "ihl": "ihl", "tos": "tos", "len": "length", "id": "ident", "frag": "fragment_offset", "ttl": "ttl",
        "proto": "protocol", "chksum": "checksum", "src": "src", "dst": "dst",
    }),
    (IPv6, hf.Ipv6Fields, {
        "version": "version", "tc": "tos", "fl": "flow_label", "plen": "length", "nh": "next_header", "hlim": "ttl",
        "src": "src", "dst": "dst",
    }),
    (IPv6ExtHdrRouting, hf.Ipv6RoutingFields, {"nh": "next_header", "len": "length", "type": "type"}),
    (IPv6ExtHdrFragment, hf.Ipv6FragmentFields, {"nh": "next_header", "offset": "fragment_offset",
                                                 "m": "more_fragments"}),
    (UDP, hf.UdpFields, {"sport": "sport", "dport": "dport", "len": "length", "chksum": "checksum"}),
    (ICMP, hf.IcmpFields, {"type": "type", "code": "code"}),
    (GRE, hf.GreFields, {"chksum_present": "checksum_present", "key_present": "key_present",
                         "seqnum_present": "sequence_present", "proto": "protocol"}),
    (VXLAN, hf.VxlanFields, {"Flags": "flags", "VNI": "vni"}),
    (rocev2.BTH, hf.BthFields, {
        "OpCode": "opcode", "SE": "solicited", "M": "migreq", "PadCnt": "pad", "TVer": "tver", "P_KEY": "pkey",
        "FECN": "fecn", "BECN": "becn", "DestQP": "destqp", "A": "ackreq", "PSN": "psn",
    }),
    (rocev2.DETH, hf.DethFields, {"Q_Key": "qkey", "SrcQP": "srcqp"}),
    (rocev2.RETH, hf.RethFields, {"VA": "va", "R_Key": "rkey", "DMALen": "dmalen"}),
    (rocev2.FETH, hf.FethFields, {"SEL": "sel", "PLT": "plt"}),
    (rocev2.AETH, hf.AethFields, {"Syndrome": "syndrome", "MSN": "msn"}),
    (rocev2.AtomicETH, hf.AtomicEthFields, {"VA": "va", "R_Key": "rkey", "SwapDt": "swapdt", "CmpDt": "cmpdt"}),
    (rocev2.AtomicAckETH, hf.AtomicAckEthFields, {"OrigRemDt": "origremdt"}),
    (rocev2.ImmDt, hf.ImmDtFields, {"ImmDt": "immdt"}),
    (rocev2.IETH, hf.IethFields, {"R_Key": "rkey"}),
    (rocev2.XRCETH, hf.XrcEthFields, {"XRCSRQ": "xrcsrq"}),
    (rocev2.RDETH, hf.RdethFields, {"EEContext": "eecontext"}),
]  # fmt: skip


def scapys(layer: type[Packet]) -> dict[str, tuple[int, int]]:
    """First bit and number of bits of each field of a scapy layer, up to the first one of variable length."""
    found, at = {}, 0
    for field in layer.fields_desc:
        size = getattr(field, "size", None) or int(field.sz * 8)
        found[field.name] = (at, size)
        at += size
    return found


def declared(bits: Bits) -> tuple[int, int]:
    size = bits.most.bit_length()
    return 8 * bits.end - bits.shift - size, size


@pytest.mark.parametrize(("layer", "fields", "names"), LAYERS, ids=[layer.__name__ for layer, _, _ in LAYERS])
def test_fields_are_where_scapy_has_them(
    layer: type[Packet], fields: type[HeaderFields], names: dict[str, str]
) -> None:
    theirs = scapys(layer)
    assert {ours: declared(fields.FIELDS[ours]) for ours in names.values()} == {
        ours: theirs[their] for their, ours in names.items()
    }


def test_every_header_is_compared() -> None:
    """Without a layer of scapy: MPLS and GENEVE, a CNP's reserved octets, and the parts of two single octets."""
    compared = {fields for _, fields, _ in LAYERS}
    apart = {hf.MplsFields, hf.GeneveFields, hf.CnpFields, hf.OpcodeFields, hf.SyndromeFields}
    assert set(HeaderFields.__subclasses__()) == compared | apart


def test_a_header_is_packed_as_it_is_read() -> None:
    octets = hf.BthFields.pack(opcode=Opcode.RC_SEND_ONLY, pkey=0xFFFF, destqp=0xFFFFFE, ackreq=1, psn=0xABCDEF)
    assert octets.hex() == "0400ffff00fffffe80abcdef"
    read = {name: bits.read(b"\0" + octets, 1) for name, bits in hf.BthFields.FIELDS.items()}
    assert {name: value for name, value in read.items() if value} == {
        "opcode": 4, "pkey": 0xFFFF, "destqp": 0xFFFFFE, "ackreq": 1, "psn": 0xABCDEF,
    }  # fmt: skip


def test_what_does_not_fit_is_rejected() -> None:
    with pytest.raises(ValueError, match="psn 0x1000000 exceeds 0xffffff"):
        hf.BthFields.pack(psn=1 << 24)
    with pytest.raises(ValueError, match="has 1 bytes, not enough for"):
        type("Short", (HeaderFields,), {"SIZE": 1, "PORT": Bits(0, 2)})
    with pytest.raises(ValueError, match="begins before 2"):
        words(Bits(0, 2), Bits(1, 1))


def test_the_kernels_dissector_gets_a_whole_udp_packet() -> None:
    from ipaddress import ip_address  # noqa: PLC0415 - of this test only

    for src, dst, layer in (("10.0.0.1", "10.0.0.2", IP), ("2001:db8::1", "2001:db8::2", IPv6)):
        packet = Ether(udp_frame(ip_address(src), ip_address(dst), 49152, ROCEV2_PORT))
        assert (packet[layer].src, packet[layer].dst) == (src, dst)
        assert (packet[UDP].sport, packet[UDP].dport, packet[UDP].len) == (49152, ROCEV2_PORT, 8)
        assert packet[IP].flags == "DF" if layer is IP else packet[IPv6].plen == 8


# The C programs


def in_c(name: str, file: str) -> int:
    source = (ROOM / "dataplane" / "bpf" / file).read_text(encoding="utf-8")
    found = re.search(rf"^#define {name} (\w+)", source, re.MULTILINE)
    assert found is not None, name
    return int(found[1], 0)


@pytest.mark.parametrize(
    ("name", "file", "value"),
    [
        ("RL_IPV6_NEXT", "packet.h", hf.Ipv6Fields.NEXT_HEADER.at),
        ("RL_IPV6_LENGTH", "packet.h", hf.Ipv6Fields.SIZE),
        ("RL_ECN_MASK", "packet.h", hf.ECN.mask),
        ("RL_ECN_CE", "packet.h", hf.CE),
        ("RL_ROCE_PORT", "packet.h", ROCEV2_PORT),
        ("RL_CNP", "packet.h", Opcode.CNP),
        ("RL_CNP_LENGTH", "packet.h", hf.UdpFields.SIZE + hf.BthFields.SIZE + hf.CnpFields.SIZE + 4),
        ("RL_IPV4_OFFSET", "impair.bpf.c", hf.Ipv4Fields.FRAGMENT_OFFSET.deciding),
        ("RL_UDP_LENGTH", "impair.bpf.c", hf.UdpFields.SIZE),
        ("RL_BTH_LENGTH", "impair.bpf.c", hf.BthFields.SIZE),
    ],
)
def test_the_c_programs_have_the_same(name: str, file: str, value: int) -> None:
    assert in_c(name, file) == value


def test_offsets_of_a_cnp_in_c() -> None:
    """``rl_is_cnp`` reads IPv4's protocol, UDP's destination port and the opcode by number."""
    source = (ROOM / "dataplane" / "bpf" / "packet.h").read_text(encoding="utf-8")
    body = source[source.index("rl_is_cnp(") : source.index("rl_parse(")]
    found = re.findall(r"ETH_HLEN \+ tag \+ (?:ip \+ (\d+)|\(ip == (\d+) \? (\d+))", body)
    assert [tuple(int(each) for each in match if each) for match in found] == [
        (hf.Ipv4Fields.SIZE, hf.Ipv4Fields.PROTOCOL.at),
        (hf.UdpFields.DPORT.at,),
        (hf.UdpFields.SIZE + hf.BthFields.OPCODE.at,),
    ]


def test_the_struct_of_pfc_frames_in_c() -> None:
    layout = json.loads((ROOM / "dataplane" / "bpf" / "port.bpf.layout.json").read_text())["structs"]
    if "rl_pfc" in layout:
        found = {name: int(place.split()[0]) for name, place in layout["rl_pfc"]["fields"].items()}
        size = layout["rl_pfc"]["size"]
    else:  # on the stack only: the struct's own source, whose fields are packed
        source = (ROOM / "dataplane" / "bpf" / "pfc.h").read_text(encoding="utf-8")
        found, size = packed(source[source.index("struct rl_pfc {") : source.index("__attribute__((packed))")])
    control = hf.EthernetFields.SIZE + hf.MacControlFields.OPCODE.at
    operands = hf.EthernetFields.SIZE + hf.MacControlFields.SIZE
    assert size == operands + hf.PfcFields.SIZE
    assert found == {
        "destination": hf.EthernetFields.DST.at,
        "source": hf.EthernetFields.SRC.at,
        "type": hf.EthernetFields.ETHERTYPE.at,
        "opcode": control,
        "classes": operands + hf.PfcFields.VECTOR.at,
        "quanta": operands + hf.PfcFields.QUANTA.at,
    }


def packed(struct: str) -> tuple[dict[str, int], int]:
    """Offsets of a packed C struct of octets and big-endian shorts, and its size."""
    counts, found, at = {"ETH_ALEN": 6, "RL_CLASSES": 8}, {}, 0
    for kind, name, count in re.findall(r"^\t(__u8|__be16) (\w+)(?:\[(\w+)\])?;", struct, re.MULTILINE):
        found[name] = at
        at += {"__u8": 1, "__be16": 2}[kind] * counts.get(count, 1)
    return found, at


# The readers have no positions of their own

READERS: Final = (
    "wire/headers.py", "wire/frame.py", "wire/transport.py", "wire/icrc.py", "wire/syndrome.py", "wire/trigger.py",
    "wire/layers.py", "wire/walk.py", "wire/opcodes.py", "wire/craft/psn_stamper.py", "wire/filter/kernel_walk.py",
    "wire/filter/kernel_program.py", "analysis/decode/columns.py", "analysis/decode/filter_columns.py",
    "analysis/decode/header_walk_columns.py", "analysis/decode/opcode_tables.py", "analysis/flows/icmp.py",
    "analysis/flows/flow_sums.py", "analysis/pfc/pause_intervals.py", "analysis/read/mirrors.py",
    "analysis/views/follow.py", "analysis/analyser.py", "kernel/packets/sweep.py",
)  # fmt: skip
LOADS: Final = {"LD_BYTE", "LD_HALF", "LD_WORD"}


def own_positions(source: str) -> list[str]:
    """Expressions by which a module states where something is in a header.

    They are formats of big-endian structs, slices from one number to another, loads of a BPF program, and shifts by a
    number whose result is masked with another.
    """
    found: list[ast.AST] = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Constant(value=str(text)) if re.fullmatch(r"![0-9xBHIQs]*[BHIQs]+", text):
                found.append(node)
            case ast.Slice(lower=ast.Constant(value=int(first)), upper=ast.Constant(value=int(last))) if last > first:
                found.append(node)
            case ast.Slice(lower=ast.BinOp(op=ast.Add(), right=ast.Constant(value=int()))):
                found.append(node)
            case ast.BinOp(ast.BinOp(_, ast.RShift(), ast.Constant(value=int())), ast.BitAnd(), ast.Constant()):
                found.append(node)
            case ast.Call(args=[ast.Attribute(attr=name), ast.Constant(value=int()), *_]) if name in LOADS:
                found.append(node)
    return [ast.unparse(node) for node in found]


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_has_no_position_of_its_own(reader: str) -> None:
    found = own_positions((ROOM / reader).read_text(encoding="utf-8"))
    assert found == (["'!I'", "'!H'"] if reader == "wire/craft/psn_stamper.py" else [])


@pytest.mark.parametrize(
    "source",
    [
        'Struct("!BBHII")', "octets[12:16]", "data[at + 12 : at + 16]", "flags >> 4 & 3",
        "self.load(asm.LD_WORD, 4, 0xFFFFFF)", 'pack("!HHHH", 1, 2, 3, 4)',
    ],
)  # fmt: skip
def test_a_position_is_found(source: str) -> None:
    assert own_positions(source)
