"""Explain a frame header by header: each field, its value, and the meaning of the value.

``lab.wire.frame`` decides where a frame is damaged. Fields come from scapy, whose layers have all of them, with the
specification's names, widths and order. Crafting and explaining need all fields; analysis needs a dozen.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import scapy.contrib.geneve
import scapy.contrib.mpls  # noqa: F401 - both bind their layers
from scapy.fields import BitField
from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import NoPayload, Packet, Padding, Raw

from lab.wire import icrc
from lab.wire.explain.header_figure import draw
from lab.wire.explain.header_rationale import ICRC_REASON, REASONS
from lab.wire.explain.meanings import MEANINGS, TITLES, Scene, data_meaning
from lab.wire.frame import DecodedFrame, Icrc, decode
from lab.wire.layers import ETHERNET_SIZE
from lab.wire.rocev2 import BTH

if TYPE_CHECKING:
    from collections.abc import Iterator

logging.getLogger("scapy.runtime").setLevel(logging.ERROR)  # packets are untrusted, so warnings about them are noise

_IP: Final = (IP, IPv6)
MAX_TEXT: Final = 64
"""Characters of one value; longer ones are truncated."""
_SHOWN: Final = 16


@dataclass(frozen=True, slots=True)
class ExplainedField:
    """A field of a header."""

    name: str
    """The name in the specification."""
    value: str
    meaning: str = ""
    """Empty if the value needs no explanation."""
    bits: int = 0
    """Size on the wire; 0 if it is variable."""


@dataclass(frozen=True, slots=True)
class ExplainedHeader:
    """A header of a packet, or its payload."""

    name: str
    size: int
    """Bytes on the wire."""
    fields: tuple[ExplainedField, ...]
    """Fields in wire order."""
    why: str = ""
    """Why the header matters; may be empty."""

    @property
    def figure(self) -> list[str]:
        """The header as a figure in the style of RFCs; empty for fewer than two fields or a variable width."""
        widths = [(field.name, field.bits) for field in self.fields if field.bits]
        whole = sum(bits for _, bits in widths) == self.size * 8
        return list(draw(tuple(widths))) if whole and len(widths) > 1 else []


@dataclass(frozen=True, slots=True)
class FrameExplanation:
    """All headers of a frame. ``fault`` describes the damage, and is empty without any."""

    headers: tuple[ExplainedHeader, ...]
    fault: str


def explain(data: bytes, length: int | None = None, rate: int | None = None) -> FrameExplanation:
    """Explain a frame; like ``decode``, this never raises.

    ``rate``, in bit/s of the link, converts the quanta of pause frames to times.
    """
    frame = decode(data, length)
    return FrameExplanation(tuple(_headers(data, frame, rate)), frame.damage)


def _headers(data: bytes, frame: DecodedFrame, rate: int | None) -> Iterator[ExplainedHeader]:
    whole = len(data) >= frame.length and not frame.cut
    scene = Scene(frame, rate, whole)
    sealed: Packet | None = None
    addressed = False
    for number, layer in enumerate(_layers(data)):
        opens = number > 0 if isinstance(layer, Ether) else addressed and isinstance(layer, _IP)
        addressed = isinstance(layer, _IP) or (addressed and not isinstance(layer, Ether))
        if opens and scene.frame.inner is not None:
            scene = Scene(scene.frame.inner, rate, whole)
        if sealed is not None and isinstance(layer, Padding):
            yield _icrc(sealed, scene)
            sealed = None
        yield _cut(layer, sealed, scene) if sealed is not None and _is_cut(layer, scene) else _header(layer, scene)
        if isinstance(layer, BTH):
            sealed = layer
    if sealed is not None:
        yield _icrc(sealed, scene)


def _layers(data: bytes) -> Iterator[Packet]:
    """Yield the stacked layers; a frame too short for Ethernet is all data."""
    layer = Ether(data) if len(data) >= ETHERNET_SIZE else Raw(data)
    while isinstance(layer, Packet) and not isinstance(layer, NoPayload):
        yield layer
        layer = layer.payload


def _header(layer: Packet, scene: Scene) -> ExplainedHeader:
    if isinstance(layer, Raw):
        return _data(bytes(layer.load), scene, "Padding" if isinstance(layer, Padding) else "Data")
    meanings = MEANINGS.get(type(layer), {})
    fields = []
    for description in layer.fields_desc:
        if isinstance(layer, BTH) and description.name == "ICRC":
            continue  # it comes after the data
        value = layer.getfieldval(description.name)
        meaning = meanings[description.name](value, scene) if description.name in meanings else ""
        fields.append(
            ExplainedField(
                name=description.name,
                value=_text(description.i2repr(layer, value)),
                meaning=meaning,
                bits=_bits(description),
            )
        )
    title, why = TITLES.get(type(layer), layer.name), REASONS.get(type(layer), "")
    return ExplainedHeader(name=title, size=len(layer.self_build()), fields=tuple(fields), why=why)


def _bits(description: Any) -> int:
    """Return the width of a scapy field in bits, 0 for lists."""
    if description.islist:
        return 0
    return int(description.size if isinstance(description, BitField) else description.sz * 8)


def _icrc(bth: Packet, scene: Scene) -> ExplainedHeader:
    verdict = scene.frame.icrc
    if verdict is Icrc.UNKNOWN and not scene.whole:
        return ExplainedHeader(
            name="ICRC, invariant CRC",
            size=icrc.SIZE,
            fields=(ExplainedField(name="ICRC", value="not captured", meaning="", bits=32),),
            why=ICRC_REASON,
        )
    meaning = "not checked" if verdict is Icrc.UNKNOWN else verdict.value if verdict is not None else ""
    return ExplainedHeader(
        name="ICRC, invariant CRC",
        size=icrc.SIZE,
        fields=(ExplainedField(name="ICRC", value=f"{bth.ICRC:#010x}", meaning=meaning, bits=32),),
        why=ICRC_REASON,
    )


def _is_cut(layer: Packet, scene: Scene) -> bool:
    return (
        isinstance(layer, Raw)
        and not isinstance(layer, Padding)
        and scene.frame.icrc is Icrc.UNKNOWN
        and not scene.whole
    )


def _cut(layer: Packet, bth: Packet, scene: Scene) -> ExplainedHeader:
    """Explain truncated data. scapy takes its last four bytes for the ICRC, but they are data, too."""
    load = bytes(layer.load) + bth.ICRC.to_bytes(icrc.SIZE)
    size = scene.frame.payload or 0
    told = _data(load, scene, "Data")
    return ExplainedHeader(
        "Data", size, (ExplainedField("bytes", str(size), f"captured are {len(load)}"), *told.fields[1:])
    )


def _data(load: bytes, scene: Scene, name: str) -> ExplainedHeader:
    meaning = data_meaning(scene) if name == "Data" else ""
    shown = load[:_SHOWN].hex(" ") + (" ..." if len(load) > _SHOWN else "")
    return ExplainedHeader(
        name, len(load), (ExplainedField("bytes", str(len(load)), meaning), ExplainedField("content", shown))
    )


def _text(value: object) -> str:
    text = str(value)
    if not text.isprintable():
        text = "".join(char if char.isprintable() else "?" for char in text)
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "..."
