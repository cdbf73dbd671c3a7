"""``rocelab qos presets``: the values of QoS presets, their sources, and the differences between two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lab.cli.kit.fit_columns import Column, TableLayout
from lab.cli.kit.option_value import read_value
from lab.cli.kit.output import JsonFlag, print_json, stdout, table
from lab.errors import UsageError
from lab.model.qos.congestion.cc_summary import register_text, register_texts, scale_text
from lab.model.qos.headroom import roce_frame
from lab.model.qos.preset_values import PUBLISHED_MTU, REGISTER, differences, preset_values
from lab.model.qos.presets import PRESETS, suggest_profile
from lab.model.topology import MTU_RANGE
from lab.units import format_rate, format_size, format_time, parse_rate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_USUAL_RATE: Final = "100Gbit"
_SIZES: Final = ("kmin", "kmax", "pool")
_THRESHOLDS: Final = ("xoff", "xon", "drop")
"""Sizes that are None in presets without PFC, or with it."""
_HEADS: Final = {
    "rate": "rate",
    "lossless": "lossless priorities",
    "kmin": "Kmin",
    "kmax": "Kmax",
    "pmax": "Pmax",
    "alpha": "alpha",
    "xoff": "XOFF of one group",
    "xon": "XON",
    "drop": "one RoCE group drops above",
    "pool": "shared pool",
    "roce": "priority of RoCE",
    "cnp": "priority of CNPs",
    "cnp_queue": "queue of CNPs",
    "watchdog": "watchdog after",
    "cc": "congestion control",
    "cc_scale": "s",
}
_TEXTS: Final[Mapping[str, Callable[[Any], str]]] = {
    **dict.fromkeys(_SIZES, format_size),
    **dict.fromkeys(_THRESHOLDS, lambda size: "none" if size is None else format_size(size)),
    "rate": format_rate,
    "pmax": lambda share: f"{100 * share:g}%",
    "watchdog": lambda time: "off" if time is None else format_time(time),
    "cc": lambda algorithm: algorithm or "none",
    "cc_scale": lambda scale: "none" if scale is None else f"{scale:.6g}",
}
"""How to write the value of a setting; others are numbers, text or lists of them."""
_COLUMNS: Final = (
    Column("preset", "preset"), Column("rate", "rate", 1), Column("lossless", "lossless", 1), Column("kmin", "Kmin"),
    Column("kmax", "Kmax"), Column("pmax", "Pmax"), Column("xoff", "XOFF of one group", 2),
    Column("alpha", "alpha", 3), Column("cnp_queue", "queue of CNPs", 4), Column("watchdog", "watchdog after", 5),
    Column("cc", "congestion control", 1),
)  # fmt: skip


def presets(
    names: Annotated[
        list[str] | None, typer.Argument(help="Presets to show. \\[default: all]", metavar="[PRESET]...")
    ] = None,
    diff: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="PRESET PRESET", help="Show only what differs between two presets.", show_default=False),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            help="Scale to links of this rate. \\[default: the rate of the source; with --diff 100Gbit]",
            show_default=False,
        ),
    ] = None,
    mtu: Annotated[
        int | None,
        typer.Option(
            min=MTU_RANGE[0],
            max=MTU_RANGE[1],
            help="Largest IP packet in bytes. \\[default: 9000; 1500 without --rate]",
            show_default=False,
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """List the QoS presets for qos: and --qos, with thresholds, classes and sources (rocelab docs presets)."""
    for name in (*(names or ()), *(diff or ())):
        if name not in PRESETS:
            remedy = suggest_profile(name, PRESETS, f"there is {', '.join(PRESETS)}")
            raise UsageError(f"there is no preset {name}", remedy)
    if diff is not None and names:
        raise UsageError("both --diff and presets to list are given", "leave one of them out")
    scaled = None if rate is None else _rate(rate)
    if diff is not None:
        _print_difference(*diff, _rate(_USUAL_RATE) if scaled is None else scaled, mtu, as_json)
    else:
        _print_list(names or list(PRESETS), scaled, mtu, as_json, asked=dict.fromkeys(names or ()))


def _rate(text: str) -> int:
    rate = read_value("--rate", text, parse_rate)
    if rate < 1:
        raise UsageError(f"--rate: {text} is not a rate", "write it like 100Mbit or 10Gbit")
    return rate


def _print_list(
    names: Iterable[str], rate: int | None, mtu: int | None, as_json: bool, *, asked: Iterable[str]
) -> None:
    """Print the presets, and the registers of the ``asked`` ones."""
    values = {name: preset_values(name, rate, mtu) for name in dict.fromkeys(names)}
    if as_json:
        print_json([{"preset": name, "source": PRESETS[name].source, **_data(each)} for name, each in values.items()])
        return
    rows = [
        [name if column.key == "preset" else _text(column.key, each[column.key]) for column in _COLUMNS]
        for name, each in values.items()
    ]
    title = "presets, as published" if rate is None else f"presets, on links of {format_rate(rate)}"
    drawn, _ = TableLayout(_COLUMNS).draw(title, rows, stdout.width)
    stdout.print(drawn)
    stdout.print(table("where the values come from", ("preset", "source"), [(n, PRESETS[n].source) for n in values]))
    for name in asked:
        if (cc := PRESETS[name].cc) is not None:
            qos = cc.qos(rate or cc.real_rate, roce_frame(mtu or PUBLISHED_MTU))
            lines = [(each.name, each.published, each.here, cc.sources[each.name]) for each in register_texts(qos)]
            heads = ("register", f"at {format_rate(cc.real_rate)}", f"at {format_rate(qos.lab_rate)}", "source")
            stdout.print(table(f"registers of {name}: {scale_text(qos)}", heads, lines))


def _print_difference(first: str, second: str, rate: int, mtu: int | None, as_json: bool) -> None:
    found = differences(first, second, rate, mtu)
    if as_json:
        values = [{first: each.first, second: each.second} for each in found]
        print_json([{"setting": each.setting, "values": v} for each, v in zip(found, values, strict=True)])
        return
    if not found:
        stdout.print(f"{first} and {second} do not differ on links of {format_rate(rate)}.")
        return
    rows = [
        (_HEADS.get(each.setting, each.setting), _text(each.setting, each.first), _text(each.setting, each.second))
        for each in found
    ]
    stdout.print(table(f"differences on links of {format_rate(rate)}", ("setting", first, second), rows))


def _data(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a preset by name; the maps of priorities are in one value, and so are the registers."""
    named = {key: value for key, value in values.items() if key in _HEADS}
    registers = {key.removeprefix(REGISTER): value for key, value in values.items() if key.startswith(REGISTER)}
    maps = {key: value for key, value in values.items() if key not in _HEADS and not key.startswith(REGISTER)}
    return {**named, "registers": None if values["cc"] is None else registers, "maps": maps}


def _text(setting: str, value: Any) -> str:
    if setting.startswith(REGISTER):
        return "none" if value is None else register_text(setting.removeprefix(REGISTER), value)
    shown = _TEXTS.get(setting)
    if shown is not None:
        return shown(value)
    return (",".join(map(str, value)) or "none") if isinstance(value, list) else str(value)
