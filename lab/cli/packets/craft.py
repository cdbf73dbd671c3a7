"""``rocelab craft``: build packets from a description; print them field by field, write them to a file, send them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from lab.cli.kit.complete import FabricOption
from lab.cli.kit.output import JsonFlag, print_json, stderr, stdout
from lab.cli.tables.packet_view import print_headers
from lab.errors import UsageError
from lab.model.load import read_text
from lab.result_files import write_result
from lab.units import counted
from lab.wire.craft.craft_file import load_packets, packet_from_options
from lab.wire.craft.packet_craft import craft as build_frame
from lab.wire.craft.packet_craft import frames
from lab.wire.craft.packet_spec import PacketSpec
from lab.wire.explain.explanation import explain
from lab.wire.explain.hexview import hex_lines
from lab.wire.pcapng import Direction, Interface, Record, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lab.cli.packets.inject import InjectReport, Sender
    from lab.model.values.yamltext import Value
    from lab.wire.explain.explanation import FrameExplanation

_SPACING: Final = 1000
"""Nanoseconds between the packets of a file. Times start at zero, so that equal descriptions give equal files."""
_ADDRESSES: Final = {"src", "dst", "vtep_src", "vtep_dst"}
"""Options that accept a node's name with ``--send``, which selects the fabric."""
_PANELS: Final = {
    "count": "How many",
    "src": "Path",
    "transport": "Base transport header",
    "va": "Requests",
    "msn": "Answers",
    "payload": "Data and ICRC",
    "classes": "PFC and Pause",
    "vni": "VXLAN tunnel",
}
"""The first key of each group of options, and the group's title."""


@dataclass(frozen=True)
class _Packet:
    """A crafted packet, the first of ``spec.count``, and its explanation."""

    spec: PacketSpec
    frame: bytes
    note: str
    told: FrameExplanation


def _with_options_of_the_model(command: Callable[..., None]) -> Callable[..., None]:
    """Give ``command`` an option for every key of ``PacketSpec``, in place of its ``**options``."""
    own = inspect.signature(command, eval_str=True)
    parameters = [each for each in own.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    panel = ""
    for name in PacketSpec.model_fields:
        panel = _PANELS.get(name, panel)
        if name != "kind":
            parameters.append(_option(name, panel))
    cast("Any", command).__signature__ = own.replace(parameters=parameters)
    return command


def _described(name: str) -> str:
    return " ".join((PacketSpec.model_fields[name].description or "").split())


def _default(value: object) -> str | bool:
    """Return a default as a user would write it; False if none is shown."""
    if isinstance(value, Mapping):
        return ",".join(f"{key}={each}" for key, each in value.items())
    if isinstance(value, Enum):
        return str(value.value if isinstance(value.value, str) else value.name.lower().replace("_", "-"))
    if isinstance(value, bool) or value in {None, b"", ""}:
        return False
    return str(value)


def _option(name: str, panel: str) -> inspect.Parameter:
    field = PacketSpec.model_fields[name]
    is_flag = field.annotation is bool
    told = _default(field.default)
    option = typer.Option(f"--{field.alias}", help=_described(name), show_default=told, rich_help_panel=panel)
    annotation = Annotated[bool, option] if is_flag else Annotated[str | None, option]
    default = False if is_flag else None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


@_with_options_of_the_model
def craft(
    kind: Annotated[
        str | None,
        typer.Argument(metavar="KIND", help=_described("kind")),
    ] = None,
    *,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="A YAML file with one packet, or a list of packets.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the packets to this pcapng file.")
    ] = None,
    send: Annotated[
        str | None,
        typer.Option(
            metavar="NODE:IF",
            help="Send the packets from this interface of a running fabric, like h1:eth1. Addresses that are not "
            "given are the interface's own and, by its routes, the next hop's. Ctrl-C ends it.",
        ),
    ] = None,
    pace: Annotated[
        str | None,
        typer.Option(help="Send rate: 1000 (packets per second) or 10Mbit. \\[default: as fast as possible]"),
    ] = None,
    name: FabricOption = None,
    json: JsonFlag = False,
    **options: str | bool | None,
) -> None:
    """Build packets, valid or deliberately malformed, and show each header, field and octet.

    A request:  [bold]craft write --dst 10.0.0.3 --qp 0x12 --psn 7 --payload hello --ackreq[/]

    A read, an atomic:  [bold]craft read --va 0x1000 --rkey 0x3a1 --dmalen 4096[/]  [bold]craft fetchadd --add 1[/]

    A response:  [bold]craft nak --qp 0x12 --psn 7 --reason psn-sequence-error[/]

    A notification:  [bold]craft cnp --qp 0x12 --send h4:eth1 --dst 10.0.0.1[/]

    A pause, a storm:  [bold]craft pfc --classes 3=65535[/]  [bold]craft pfc --count 1000 --pace 100 --send h1:eth1[/]

    In a tunnel, or broken:  [bold]craft send --vni 10 --payload x[/]  [bold]craft write --bad-icrc[/]
    """
    written: dict[str, Value] = {name: value for name, value in options.items() if value not in {None, False}}
    sender = _sender(send, name, pace)
    if sender is not None:
        written |= {key: sender.address(str(written[key])) for key in _ADDRESSES & written.keys()}
    specs = _specs(kind, file, written)
    crafted = [_shown(spec) for spec in (sender.complete(specs) if sender is not None else specs)]
    if output is not None:
        _write(output, crafted)
    if json:
        shown: Any = [_facts(packet) for packet in crafted]
        print_json(shown if sender is None else {"packets": shown, "sent": _send(sender, crafted).facts})
        return
    _print(crafted)
    if output is not None:
        _say(f"{counted(_total(crafted), 'packet')} written to {output}")
    if sender is not None:
        _say(str(_send(sender, crafted)))


def _sender(send: str | None, name: str | None, pace: str | None) -> Sender | None:
    if send is not None:
        from lab.cli.packets.inject import Sender  # noqa: PLC0415 - needed only to send

        return Sender(send, name, pace)
    for option, value in (("--pace", pace), ("--fabric", name)):
        if value is not None:
            raise UsageError(f"{option} needs --send", f"add --send NODE:IF, or omit {option}")
    return None


def _send(sender: Sender, crafted: Sequence[_Packet]) -> InjectReport:
    return sender.send([packet.spec for packet in crafted])


def _total(crafted: Sequence[_Packet]) -> int:
    return sum(packet.spec.count for packet in crafted)


def _say(line: str) -> None:
    stderr.print(line, markup=False, highlight=False, soft_wrap=True)


def _specs(kind: str | None, file: Path | None, written: dict[str, Value]) -> list[PacketSpec]:
    if file is not None:
        if kind is not None or written:
            raise UsageError("a file and options cannot both describe packets", "move the options into the file")
        return load_packets(read_text(file, "a YAML file of packets", "rocelab craft --help has the keys"), str(file))
    if kind is None:
        raise UsageError("no packet is described", "name a kind, like `rocelab craft write`, or give --file")
    keys = {PacketSpec.model_fields[name].alias or name: value for name, value in written.items()}
    return [packet_from_options({"kind": kind, **keys})]


def _shown(spec: PacketSpec) -> _Packet:
    made = build_frame(spec)
    return _Packet(spec=spec, frame=made.frame, note=made.note, told=explain(made.frame, rate=spec.rate))


def _write(output: Path, crafted: Sequence[_Packet]) -> None:
    made = BytesIO()
    writer = Writer(made)
    writer.add_interface(Interface("craft", speed=_common_rate(crafted)))
    writer.write(_records(crafted))
    write_result(output, made.getvalue())


def _common_rate(crafted: Sequence[_Packet]) -> int | None:
    """Return the link rate if all packets have the same one, so that readers can convert quanta to times."""
    rates = {packet.spec.rate for packet in crafted}
    return rates.pop() if len(rates) == 1 else None


def _records(crafted: Sequence[_Packet]) -> Iterator[Record]:
    every = chain.from_iterable(frames(packet.spec) for packet in crafted)
    for number, frame in enumerate(every):
        yield Record(number * _SPACING, 0, len(frame), Direction.UNKNOWN, frame)


def _print(crafted: Sequence[_Packet]) -> None:
    for number, packet in enumerate(crafted, 1):
        title = f"Packet {number}  {packet.spec.kind.value}  {len(packet.frame)} bytes"
        stdout.print(title, style="bold cyan", markup=False, highlight=False)
        print_headers(packet.told)
        stdout.print("  Octets", style="bold", markup=False, highlight=False)
        for line in hex_lines(packet.frame, packet.told.headers):
            stdout.print(f"    {line}", markup=False, highlight=False, soft_wrap=True)
        if packet.note:
            stdout.print(f"  wrong by intent: {packet.note}", style="yellow", markup=False, soft_wrap=True)
        if packet.spec.count > 1:
            stdout.print(f"  and {packet.spec.count - 1} more like it", markup=False, highlight=False)
        stdout.print()


def _facts(packet: _Packet) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "kind": packet.spec.kind.value,
        "count": packet.spec.count,
        "length": len(packet.frame),
        "octets": packet.frame.hex(),
    }
    return facts | {"wrong_by_intent": packet.note} | asdict(packet.told)
