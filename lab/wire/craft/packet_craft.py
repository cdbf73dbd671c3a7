"""Build a packet from its description, and check that the keys of the description match.

The opcode determines the headers, and the headers determine the allowed keys.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from ipaddress import ip_address
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lab.units import format_rate, format_time, seconds_to_quanta
from lab.wire import icrc
from lab.wire.craft import build
from lab.wire.craft.packet_spec import PacketKind, Part
from lab.wire.craft.packet_values import MAX_QUANTA
from lab.wire.craft.psn_stamper import Template
from lab.wire.headers import Aeth, AtomicEth, Deth, Feth, PauseFrame, PfcFrame, Reth, Selectivity
from lab.wire.opcodes import Extension, Opcode, extensions, opcode_name
from lab.wire.syndrome import AckKind, Syndrome

if TYPE_CHECKING:
    from collections.abc import Iterator, Set

    from lab.wire.craft.packet_spec import PacketSpec
    from lab.wire.craft.packet_values import Span

PSN_MODULUS: Final = 2**24


@dataclass(frozen=True, slots=True)
class Crafted:
    """A frame, and a note on the receiver's reaction to its intended errors (often empty)."""

    frame: bytes
    note: str = ""


class Misfit(NamedTuple):
    """A key that contradicts other keys of the description: the key, the problem, and the remedy."""

    key: str
    message: str
    remedy: str


_OPERATIONS: Final = {
    PacketKind.WRITE: "RDMA_WRITE",
    PacketKind.SEND: "SEND",
    PacketKind.READ: "RDMA_READ_REQUEST",
    PacketKind.READ_RESPONSE: "RDMA_READ_RESPONSE",
    PacketKind.CMPSWAP: "CMPSWAP",
    PacketKind.FETCHADD: "FETCHADD",
    PacketKind.ATOMIC_ACK: "ATOMIC_ACKNOWLEDGE",
    PacketKind.ATOMIC_WRITE: "ATOMIC_WRITE",
    PacketKind.FLUSH: "FLUSH",
    PacketKind.ACK: "ACKNOWLEDGE",
    PacketKind.NAK: "ACKNOWLEDGE",
    PacketKind.RNR_NAK: "ACKNOWLEDGE",
}
_IN_PARTS: Final = {PacketKind.WRITE, PacketKind.SEND, PacketKind.READ_RESPONSE}
_WITH_DATA: Final = _IN_PARTS | {PacketKind.ATOMIC_WRITE}
_ATOMIC_WRITE_SIZE: Final = 8
"""Bytes written by an ATOMIC WRITE, always 8 (IBA vol. 1 annex A19)."""
_MAC_CONTROL: Final = {
    PacketKind.PFC: {"src_mac", "classes", "vector", "rate"},
    PacketKind.PAUSE: {"src_mac", "quanta", "rate"},
}
_PATH: Final = {"src", "dst", "src_mac", "dst_mac", "vlan", "pcp", "sport", "dscp", "ecn", "ttl"}
_TUNNEL: Final = {"vtep_src", "vtep_dst", "vtep_src_mac", "vtep_dst_mac", "vtep_sport"}
_DATA: Final = ("payload", "payload_hex", "payload_size")
_EXTENSION_KEYS: Final[dict[Extension, set[str]]] = {
    Extension.DETH: {"qkey", "srcqp"},
    Extension.FETH: {"selectivity", "placement"},
    Extension.RETH: {"va", "rkey", "dmalen"},
    Extension.ATOMIC_ETH: {"va", "rkey"},
    Extension.AETH: {"msn"},
    Extension.ATOMIC_ACK_ETH: {"original"},
    Extension.IMMDT: {"immdt"},
    Extension.IETH: {"invalidate"},
    Extension.CNP_RESERVED: set(),
}
_KIND_KEYS: Final = {
    PacketKind.CMPSWAP: {"compare", "swap"},
    PacketKind.FETCHADD: {"add"},
    PacketKind.ACK: {"credits"},
    PacketKind.READ_RESPONSE: {"credits"},
    PacketKind.ATOMIC_ACK: {"credits"},
    PacketKind.NAK: {"reason"},
    PacketKind.RNR_NAK: {"timer"},
}


def craft(spec: PacketSpec) -> Crafted:
    """Return the frame that ``spec`` describes. Raise ValueError if ``check`` finds a misfit."""
    misfits = check(spec, set())
    if misfits:
        raise ValueError("; ".join(f"{misfit.key}: {misfit.message}" for misfit in misfits))
    if spec.kind is PacketKind.PFC:
        return Crafted(build.pfc(spec.src_mac, _pfc(spec)))
    if spec.kind is PacketKind.PAUSE:
        return Crafted(build.pause(spec.src_mac, PauseFrame(_quanta(spec.quanta, spec.rate))))
    tag = spec.tag if spec.vni is None else None
    src, dst = spec.ends
    path = build.Path(
        src_mac=spec.src_mac,
        dst_mac=spec.dst_mac,
        src=src,
        dst=dst,
        entropy=spec.sport,
        dscp=spec.dscp,
        ecn=spec.ecn,
        hops=spec.ttl,
        tag=tag,
    )
    message = _message(spec)
    frame = build.rocev2(path, message)
    if spec.bad_icrc:  # built again, so that the UDP checksum is right and only the ICRC is wrong
        wrong = bytes(octet ^ 0xFF for octet in frame[-icrc.SIZE :])
        frame = build.rocev2(path, replace(message, icrc=wrong))
    return Crafted(_tunnelled(frame, spec), _note(spec))


def _pfc(spec: PacketSpec) -> PfcFrame:
    operands = PfcFrame.of({priority: _quanta(span, spec.rate) for priority, span in spec.classes.items()})
    return operands if spec.vector is None else replace(operands, vector=spec.vector)


def frames(spec: PacketSpec) -> Iterator[bytes]:
    """Yield ``spec.count`` frames with increasing PSNs; frames without a PSN, and CNPs, are all equal."""
    first = craft(spec).frame
    if spec.kind in _MAC_CONTROL or spec.kind is PacketKind.CNP:
        yield from repeat(first, spec.count)
        return
    template = Template(first)
    start = spec.psn + spec.wrong_psn
    yield from (template.stamp(psn) for psn in range(start, start + spec.count))


def check(spec: PacketSpec, given: Set[str]) -> list[Misfit]:
    """Return keys of ``spec`` that do not match each other, and keys in ``given`` that the packet cannot have."""
    return [*_families(spec), *_spans(spec), *_headers(spec, given)]


def opcode(spec: PacketSpec) -> Opcode | None:
    """Return the opcode of ``spec``; None for MAC control, or if the specification has no such opcode."""
    if spec.kind is PacketKind.CNP:
        return Opcode.CNP
    return Opcode.__members__.get(_opcode_key(spec))


def _opcode_key(spec: PacketSpec) -> str:
    words = [spec.transport.name, _OPERATIONS.get(spec.kind, "")]
    if spec.kind in _IN_PARTS:
        words.append(spec.part.name)
    if spec.immdt is not None and spec.kind in {PacketKind.WRITE, PacketKind.SEND}:
        words.append("WITH_IMMEDIATE")
    if spec.invalidate is not None and spec.kind is PacketKind.SEND:
        words.append("WITH_INVALIDATE")
    return "_".join(words)


def _families(spec: PacketSpec) -> Iterator[Misfit]:
    pairs = [("src", spec.ends)] + ([("vtep_src", spec.vtep_ends)] * (spec.vni is not None))
    for key, (src, dst) in pairs:
        ours, theirs = ip_address(src).version, ip_address(dst).version
        if ours != theirs and spec.kind not in _MAC_CONTROL:
            yield Misfit(key, f"is IPv{ours} and the receiver's IPv{theirs}", "give both addresses of one family")


def _spans(spec: PacketSpec) -> Iterator[Misfit]:
    spans = {PacketKind.PFC: list(spec.classes.values()), PacketKind.PAUSE: [spec.quanta]}.get(spec.kind, [])
    key = "classes" if spec.kind is PacketKind.PFC else "quanta"
    for span in spans:
        if isinstance(span, float) and spec.rate is None:
            yield Misfit(key, f"{format_time(span)} are no quanta yet", "give the rate of the link, like 10Gbit")
        elif (quanta := _quanta(span, spec.rate)) > MAX_QUANTA and spec.rate is not None:
            needed = f"{format_time(span)} are {quanta} quanta at {format_rate(spec.rate)}"
            yield Misfit(key, f"{needed}, and a frame has room for {MAX_QUANTA}", "choose a shorter time")


def _quanta(span: Span, rate: int | None) -> int:
    return seconds_to_quanta(span, rate) if isinstance(span, float) and rate is not None else int(span)


def _headers(spec: PacketSpec, given: Set[str]) -> Iterator[Misfit]:
    """Yield keys that the packet cannot have, and missing keys."""
    found = opcode(spec)
    if found is None and spec.kind not in _MAC_CONTROL:
        wanted = _opcode_key(spec).replace("_", " ")
        yield Misfit("kind", f"there is no {wanted}", "change transport, part, immdt or invalidate")
        return
    what = opcode_name(found) if found is not None else spec.kind.value
    for key in sorted(given - _places(spec, found) - {"kind", "count"}):
        remedy = "give a vni, or leave it out" if key in _TUNNEL else "leave it out"
        yield Misfit(key, f"has no place in {what}", remedy)
    if found is not None and Extension.RETH in extensions(found) and spec.dmalen is None and not _is_whole(spec):
        what = "there are to flush" if spec.kind is PacketKind.FLUSH else "the whole message has"
        yield Misfit("dmalen", "is missing", f"add it: how many bytes {what}")
    if spec.kind is PacketKind.ATOMIC_WRITE and len(spec.data) != _ATOMIC_WRITE_SIZE:
        wrong = f"has {len(spec.data)} bytes, and an ATOMIC WRITE writes {_ATOMIC_WRITE_SIZE}"
        yield Misfit("payload", wrong, f"give {_ATOMIC_WRITE_SIZE}")
    for key in [key for key in _DATA if key in given][1:]:
        yield Misfit(key, "is a second payload", f"give one of {', '.join(key.replace('_', '-') for key in _DATA)}")


def _is_whole(spec: PacketSpec) -> bool:
    """Return whether DMALen follows from the other keys."""
    if spec.kind is PacketKind.FLUSH:
        return spec.selectivity is Selectivity.REGION
    return spec.kind is PacketKind.ATOMIC_WRITE or (spec.kind is PacketKind.WRITE and spec.part is Part.ONLY)


def _places(spec: PacketSpec, found: Opcode | None) -> set[str]:
    """Return the keys that a packet of this kind and opcode can have."""
    if found is None:
        return _MAC_CONTROL[spec.kind]
    places = _PATH | {"qp", "bad_icrc", "vni"} | (_TUNNEL if spec.vni is not None else set())
    if spec.kind is PacketKind.CNP:
        return places
    places |= {"transport", "psn", "wrong_psn", "ackreq", "solicited", "pkey"} | _KIND_KEYS.get(spec.kind, set())
    places |= {"part"} if spec.kind in _IN_PARTS else set()
    places |= {*_DATA} if spec.kind in _WITH_DATA else set()
    return places.union(*(_EXTENSION_KEYS[extension] for extension in extensions(found)))


def _message(spec: PacketSpec) -> build.RoceMessage:
    found = opcode(spec)
    if found is None:  # rejected by check
        raise AssertionError(spec)
    if found is Opcode.CNP:
        return build.RoceMessage(found, spec.qp, becn=True, migreq=False, payload=bytes(Extension.CNP_RESERVED.size))
    values = _extension_values(spec)
    headers = dict(values[extension] for extension in extensions(found) if extension in values)
    return build.RoceMessage(
        found,
        spec.qp,
        (spec.psn + spec.wrong_psn) % PSN_MODULUS,
        ackreq=spec.ackreq,
        solicited=spec.solicited,
        pkey=spec.pkey,
        payload=spec.data if spec.kind in _WITH_DATA else b"",
        **headers,
    )


def _extension_values(spec: PacketSpec) -> dict[Extension, tuple[str, Any]]:
    """Return, by extension header, its attribute of ``RoceMessage``, and the value."""
    swap = spec.add if spec.kind is PacketKind.FETCHADD else spec.swap
    dmalen = len(spec.data) if spec.dmalen is None else spec.dmalen
    return {
        Extension.DETH: ("deth", Deth(spec.qkey, spec.srcqp)),
        Extension.FETH: ("feth", Feth(spec.selectivity, spec.placement)),
        Extension.RETH: ("reth", Reth(spec.va, spec.rkey, dmalen)),
        Extension.ATOMIC_ETH: ("atomiceth", AtomicEth(va=spec.va, rkey=spec.rkey, swapdt=swap, cmpdt=spec.compare)),
        Extension.AETH: ("aeth", Aeth(_syndrome(spec), spec.msn)),
        Extension.ATOMIC_ACK_ETH: ("origremdt", spec.original),
        Extension.IMMDT: ("immdt", spec.immdt),
        Extension.IETH: ("ieth", spec.invalidate),
    }


def _syndrome(spec: PacketSpec) -> Syndrome:
    if spec.kind is PacketKind.NAK:
        return Syndrome(AckKind.NAK, spec.reason)
    if spec.kind is PacketKind.RNR_NAK:
        return Syndrome(AckKind.RNR_NAK, spec.timer)
    return Syndrome(AckKind.ACK, spec.credits)


def _tunnelled(frame: bytes, spec: PacketSpec) -> bytes:
    """Return ``frame`` in its tunnel, if any. The outer header copies DSCP and ECN (RFC 6040 section 4.1)."""
    if spec.vni is None:
        return frame
    src, dst = spec.vtep_ends
    outer = build.Path(
        src_mac=spec.vtep_src_mac,
        dst_mac=spec.vtep_dst_mac,
        src=src,
        dst=dst,
        entropy=spec.vtep_sport,
        dscp=spec.dscp,
        ecn=spec.ecn,
        tag=spec.tag,
    )
    return build.vxlan(outer, spec.vni, frame)


def _note(spec: PacketSpec) -> str:
    notes = []
    if spec.bad_icrc:
        notes.append("the ICRC is wrong: the receiver drops this without an answer")
    if spec.wrong_psn > 0:
        notes.append(f"PSN {spec.psn} is due, {spec.wrong_psn} before this: RC answers NAK, PSN Sequence Error")
    elif spec.wrong_psn < 0:
        notes.append(f"PSN {spec.psn} is due, {-spec.wrong_psn} after this: a duplicate, answered and not done again")
    return "; ".join(notes)
