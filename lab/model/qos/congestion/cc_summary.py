"""Registers as text: as published and at the lab's rate, with the arithmetic of the scaling law."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Final, NamedTuple

from lab.model.qos.congestion.cc_presets import LINK_DELAY
from lab.model.qos.congestion.cc_registers import ALPHA_RANGE, RATES, TIMES, CcRegisters
from lab.units import format_rate, format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.model.qos.congestion.cc_registers import CcQos
    from lab.model.qos.port import NodeQos

REGISTERS: Final = tuple(each.name for each in fields(CcRegisters))
_OF_1024: Final = ("dce_tcp_g", "initial_alpha_value")
_SHOWN: Final = 3


class RegisterText(NamedTuple):
    """A register on the real NIC and in the lab; ``why`` is set where scaling alone does not explain the value."""

    name: str
    published: str
    here: str
    why: str


def register_text(name: str, value: float) -> str:
    """Return the value of a register with its unit."""
    if name in (*TIMES, *RATES):
        shown = format_time if name in TIMES else format_rate
        return shown(value) if value else "0"
    if name == "rpg_byte_reset":
        return format_size(value) if value else "off"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name in _OF_1024:
        return f"{value}/{ALPHA_RANGE}"
    return f"{value}%" if name == "rpg_min_dec_fac" else f"{value:g}"


def scale_text(cc: CcQos) -> str:
    """Return s with its arithmetic, like ``s = 25 Gb/s / 100 Mb/s = 250``."""
    return f"s = {format_rate(cc.real_rate)} / {format_rate(cc.lab_rate)} = {float(cc.scale):.6g}"


def register_texts(cc: CcQos) -> Iterator[RegisterText]:
    """Yield every register of a port's algorithm."""
    here = cc.registers
    for name in cc.names:
        ours, published = getattr(here, name), getattr(cc.published, name)
        floored = name == "rpg_min_rate" and ours == cc.floor and ours * cc.scale != published
        why = "one packet in a quarter of the QP timeout" if floored else ""
        yield RegisterText(name, register_text(name, published), register_text(name, ours), why)


def scaling_lines(nodes: Mapping[str, NodeQos]) -> Iterator[str]:
    """Yield a line for each distinct congestion control of a fabric: its ports, s, and the values that s changes."""
    ports: dict[CcQos, list[str]] = {}
    for node, qos in nodes.items():
        for interface, port in qos.ports.items():
            if port.cc is not None:
                ports.setdefault(port.cc, []).append(f"{node}:{interface}")
    for cc, names in ports.items():
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        scaled = [
            f"{each.name} {each.here}" + (f" ({each.why})" if each.why else "")
            for each in register_texts(cc)
            if each.name in (*TIMES, *RATES)
        ]
        delay = f"a link delay of {format_time(LINK_DELAY)} becomes {format_time(LINK_DELAY * float(cc.scale))}"
        yield f"{' '.join(names[:_SHOWN])}{more}: {cc.algorithm}, {scale_text(cc)}: {', '.join(scaled)}; {delay}"
