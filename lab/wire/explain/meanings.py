"""The meanings of field values, for fields whose number alone is not enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether

from lab.units import counted, format_size, format_time, quanta_to_seconds
from lab.wire.ethernet import PFC, VXLAN, MACControl, Pause
from lab.wire.header_fields import DSCP, ECN
from lab.wire.headers import CLASSES, Placement, Selectivity
from lab.wire.layers import VNI_VALID
from lab.wire.opcodes import Extension, Opcode, extensions
from lab.wire.rocev2 import AETH, BTH, CNP, DETH, FETH, IETH, RDETH, RETH, XRCETH, AtomicAckETH, AtomicETH, ImmDt
from lab.wire.summary import ECN_NAMES
from lab.wire.syndrome import AckKind, NakCode, Syndrome
from lab.wire.udp_ports import PAUSE_OPCODE, PFC_OPCODE, ROCEV1_TYPE, ROCEV2_PORT, VLAN_TYPES, VXLAN_PORTS

if TYPE_CHECKING:
    from scapy.packet import Packet

    from lab.wire.frame import DecodedFrame

_DEFAULT_PKEY: Final = 0xFFFF
_CONTROLLED_QKEY: Final = 0x80000000
_ALL_CLASSES: Final = (1 << CLASSES) - 1


@dataclass(frozen=True, slots=True)
class Scene:
    """The context of a field: its frame, and the rate of the link in bit/s, if known.

    ``whole``: the packet was captured completely.
    """

    frame: DecodedFrame
    rate: int | None = None
    whole: bool = True


Meaning: TypeAlias = Callable[[int, Scene], str]


def _is(scene: Scene, opcode: Opcode) -> bool:
    return scene.frame.bth is not None and scene.frame.bth.opcode == opcode


def _tos(value: int, _: Scene) -> str:
    return f"DSCP {DSCP.of(value)}, {ECN_NAMES[ECN.of(value)]}"


def _port(value: int, scene: Scene) -> str:
    if value == ROCEV2_PORT:
        return "RoCEv2"
    if value in VXLAN_PORTS:
        return "VXLAN"
    if scene.frame.bth is not None:
        return "one value per QP, the only one that ECMP sees"
    return "a hash of the inner frame, for ECMP to separate its flows" if scene.frame.vni is not None else ""


def _flag(meaning: str) -> Meaning:
    return lambda value, _: meaning if value else ""


def _constant(meaning: str) -> Meaning:
    return lambda _, __: meaning


def _opcode(value: int, _: Scene) -> str:
    follows = [extension.label for extension in extensions(value) if extension is not Extension.CNP_RESERVED]
    return f"{value:#04x}" + (f": {' and '.join(follows)} must follow" if follows else "")


def _pkey(value: int, _: Scene) -> str:
    if value == _DEFAULT_PKEY:
        return "default partition, full member"
    return "full member" if value >> 15 else "limited member"


def _pad(value: int, _: Scene) -> str:
    return f"{counted(value, 'byte')} of padding before the ICRC" if value else ""


def _qkey(value: int, _: Scene) -> str:
    return "the receiver's QP must have the same" + (", a privileged one" if value & _CONTROLLED_QKEY else "")


_NAK_EFFECTS: Final = {
    NakCode.PSN_SEQUENCE_ERROR: "packets before it are missing; the requester goes back to this PSN",
    NakCode.INVALID_REQUEST: "the responder does not support this; the QP goes to error",
    NakCode.REMOTE_ACCESS_ERROR: "key, address or right is wrong; the QP goes to error",
    NakCode.REMOTE_OPERATIONAL_ERROR: "the responder failed; the QP goes to error",
    NakCode.INVALID_RD_REQUEST: "the datagram's key or QP is wrong",
}


def _syndrome(value: int, _: Scene) -> str:
    syndrome = Syndrome.decode(value)
    if syndrome.kind is AckKind.RNR_NAK:
        return f"{syndrome}: no receive was posted"
    effect = _NAK_EFFECTS.get(NakCode(syndrome.code)) if syndrome.is_known_nak else None
    return f"{syndrome}: {effect}" if effect else str(syndrome)


_SELECTIVITIES: Final[dict[int, str]] = {
    Selectivity.RANGE: "range: the bytes that the RETH names",
    Selectivity.REGION: "region: all memory of the R_Key",
}
_PLACEMENTS: Final = {
    Placement.GLOBAL_VISIBILITY: "visible to all readers of this memory",
    Placement.PERSISTENCE: "preserved in a power failure",
}


def _selectivity(value: int, _: Scene) -> str:
    return _SELECTIVITIES.get(value, "reserved")


def _placement(value: int, _: Scene) -> str:
    promises = [meaning for bit, meaning in _PLACEMENTS.items() if value & bit]
    reserved = ["reserved bits"] if value & ~sum(_PLACEMENTS) else []
    return ", and ".join(promises + reserved) or "requests nothing"


def _is_ignored(scene: Scene) -> bool:
    """Return whether VA and DMALen have no meaning, as in a FLUSH of a whole region."""
    return scene.frame.feth is not None and scene.frame.feth.sel == Selectivity.REGION


def _va(_: int, scene: Scene) -> str:
    if _is_ignored(scene):
        return "not used to flush a region"
    return "address in the receiver's memory" + (", a multiple of 8" if _is(scene, Opcode.RC_ATOMIC_WRITE) else "")


def _dmalen(value: int, scene: Scene) -> str:
    if _is_ignored(scene):
        return "not used to flush a region"
    return f"{'the range' if scene.frame.feth is not None else 'the whole message'}: {format_size(value)}"


def _swap(_: int, scene: Scene) -> str:
    return "added to the value in memory" if _is(scene, Opcode.RC_FETCHADD) else "written if the comparison holds"


def _compare(_: int, scene: Scene) -> str:
    return "not used by FetchAdd" if _is(scene, Opcode.RC_FETCHADD) else "compared with the value in memory"


def _control(value: int, _: Scene) -> str:
    return {PAUSE_OPCODE: "stops the whole link", PFC_OPCODE: "stops single classes"}.get(value, "")


def _pause_time(value: int, scene: Scene) -> str:
    if value == 0:
        return "go on (XON)"
    if scene.rate is None:
        return f"stop for {value} times 512 bit times of the link"
    return f"stop for {format_time(quanta_to_seconds(value, scene.rate))} at the link's rate"


def _class_time(priority: int) -> Meaning:
    def meaning(value: int, scene: Scene) -> str:
        if scene.frame.pfc is None or priority not in scene.frame.pfc.classes:
            return "not enabled" + (", so not heeded" if value else "")
        return f"class {priority}: {_pause_time(value, scene)}"

    return meaning


def _vector(value: int, _: Scene) -> str:
    enabled = [str(priority) for priority in range(CLASSES) if value >> priority & 1]
    reserved = ", and reserved bits, which must be zero" if value & ~_ALL_CLASSES else ""
    return f"classes {', '.join(enabled) or 'none'}{reserved}"


def _vxlan_flags(value: int, _: Scene) -> str:
    if not value & VNI_VALID:
        return "I is not set: the VNI is not valid"
    return "I: the VNI is valid" + ("; reserved bits are set, and Linux drops that" if value & ~VNI_VALID else "")


def _ethertype(value: int, _: Scene) -> str:
    if value == ROCEV1_TYPE:
        return "RoCEv1, which no router forwards: take a GID index of type RoCE v2"
    return "an 802.1Q tag follows" if value in VLAN_TYPES else ""


def _vlan(value: int, _: Scene) -> str:
    return "the VLAN that the frame belongs to" if value else "no VLAN: the tag is there for its priority"


def data_meaning(scene: Scene) -> str:
    """Return the meaning of a packet's data: an ATOMIC WRITE, a management datagram, or padding; else empty."""
    if _is(scene, Opcode.RC_ATOMIC_WRITE):
        return "written in one step, never visible in part"
    if scene.frame.mad is not None:
        return f"a management datagram: {scene.frame.mad.name}"
    bth = scene.frame.bth
    return f"the last {bth.pad} are padding" if bth is not None and bth.pad else ""


_TAG: Final[dict[str, Meaning]] = {
    "prio": lambda value, _: f"PCP: priority {value}",
    "dei": _flag("drop eligible: dropped first under congestion"),
    "vlan": _vlan,
    "type": _ethertype,
}
MEANINGS: Final[dict[type[Packet], dict[str, Meaning]]] = {
    Ether: {"type": _ethertype},
    Dot1Q: _TAG,
    Dot1AD: _TAG,
    IP: {"tos": _tos},
    IPv6: {"tc": _tos},
    UDP: {"sport": _port, "dport": _port},
    MACControl: {"opcode": _control},
    Pause: {"pause_time": _pause_time},
    PFC: {"priority_enable_vector": _vector}
    | {f"time_{priority}": _class_time(priority) for priority in range(CLASSES)},
    VXLAN: {"Flags": _vxlan_flags, "VNI": _constant("the segment that the inner frame belongs to")},
    BTH: {
        "OpCode": _opcode,
        "SE": _flag("solicited event: wake the receiver's application"),
        "M": _flag("path migration state: migrated"),
        "PadCnt": _pad,
        "P_KEY": _pkey,
        "FECN": _flag("congestion on the path"),
        "BECN": _flag("slow down: the receiver of this QP's packets saw congestion marks"),
        "DestQP": _constant("queue pair at the receiver"),
        "A": _flag("acknowledge this packet"),
        "PSN": _constant("packet sequence number"),
    },
    XRCETH: {"XRCSRQ": _constant("the shared receive queue at the receiver")},
    DETH: {"Q_Key": _qkey, "SrcQP": _constant("the sender's queue pair, for responses")},
    FETH: {"SEL": _selectivity, "PLT": _placement},
    RETH: {"VA": _va, "R_Key": _constant("the receiver's key to that memory"), "DMALen": _dmalen},
    AtomicETH: {
        "VA": _constant("address in the receiver's memory, a multiple of 8"),
        "R_Key": _constant("the receiver's key to that memory"),
        "SwapDt": _swap,
        "CmpDt": _compare,
    },
    AETH: {"Syndrome": _syndrome, "MSN": _constant("messages completed by the responder")},
    AtomicAckETH: {"OrigRemDt": _constant("the previous value")},
    ImmDt: {"ImmDt": _constant("delivered to the receiver with the completion")},
    IETH: {"R_Key": _constant("the key that the receiver is to invalidate")},
}
"""By layer and field name."""

TITLES: Final[dict[type[Packet], str]] = {
    BTH: "BTH, base transport header",
    DETH: "DETH, datagram extended transport header",
    XRCETH: "XRCETH, XRC extended transport header",
    RDETH: "RDETH, reliable datagram extended transport header",
    FETH: "FETH, flush extended transport header",
    RETH: "RETH, RDMA extended transport header",
    AtomicETH: "AtomicETH, atomic extended transport header",
    AETH: "AETH, acknowledge extended transport header",
    AtomicAckETH: "AtomicAckETH, atomic acknowledge extended transport header",
    ImmDt: "ImmDt, immediate data",
    IETH: "IETH, invalidate extended transport header",
    CNP: "CNP, congestion notification",
    Dot1Q: "802.1Q, VLAN tag",
    Dot1AD: "802.1ad, VLAN tag of a provider",
    PFC: "PFC, priority flow control",
    VXLAN: "VXLAN, a frame in a tunnel",
}
"""Full names of layers; the others use their own name."""
