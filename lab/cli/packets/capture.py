"""``rocelab capture``: capture packets of many links into one file."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import asdict
from functools import partial
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.live import Live

from lab.backends import fabric_state
from lab.backends.capture_points import points_of
from lab.cli.kit.complete import FabricOption
from lab.cli.kit.interrupt import ends_on_signals
from lab.cli.kit.open_fabric import open_fabric
from lab.cli.kit.option_value import read_optional_seconds
from lab.cli.kit.output import JsonFlag, print_json, stderr, stdout, table
from lab.cli.packets import on_event as on_event_words
from lab.cli.tables.capture_view import Printed
from lab.errors import LabError, OperationFailed, UsageError, writing
from lab.kernel.packets.live_capture import LiveCapture
from lab.kernel.process import files
from lab.model.hosts import addresses_of
from lab.units import counted, format_size, parse_size
from lab.vm.calls.call import room
from lab.wire.filter.parse import parse
from lab.wire.pcapng import MAX_SNAPLEN, Writer
from lab.wire.pcapng_ring import SMALLEST, RingWriter
from lab.wire.trigger import KeepOnEvent, Watcher

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.table import Table

    from lab.kernel.packets.live_capture import LinkCount, Progress
    from lab.wire.pcapng import Sink
    from lab.wire.trigger import TriggerEvent, TriggerKind

_MIN_SNAPLEN: Final = 64
_STANDARD_OUTPUT: Final = "-"


def _link_names() -> list[str]:
    """Complete the link ends of all fabrics on this machine."""
    names: list[str] = []
    for fabric in fabric_state.all_fabrics():
        with contextlib.suppress(LabError, OSError):
            names += [str(end) for link in fabric.load_topology().links for end in link.ends]
    return names


def capture(
    links: Annotated[
        list[str],
        typer.Argument(
            help="leaf1:swp1; leaf1--spine1 (all links between two nodes); leaf1; leaf (a tier); h1..h5 (all paths).",
            metavar="LINK...",
            autocompletion=_link_names,
        ),
    ],
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="The pcapng file to write; - is standard output.")
    ] = None,
    name: FabricOption = None,
    select: Annotated[
        str | None,
        typer.Option(
            "--filter", metavar="EXPR", help="Only matching packets: qpn==0x11 and not ack. The kernel filters."
        ),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Print a line for each packet as it arrives.")] = False,
    ring: Annotated[
        str | None,
        typer.Option(
            metavar="FILES:SIZE", help="Write file_00001, file_00002, ... and keep the last ones, like 10:100MB."
        ),
    ] = None,
    seconds: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop after this time, like 2 or 500ms.")
    ] = None,
    packets: Annotated[int | None, typer.Option(min=1, help="Stop after this many packets, of all links.")] = None,
    snaplen: Annotated[
        int, typer.Option(min=_MIN_SNAPLEN, max=MAX_SNAPLEN, help="Bytes of each packet to keep.")
    ] = MAX_SNAPLEN,
    on_event: Annotated[
        str | None,
        typer.Option(metavar="KIND,...", help=f"Write nothing until one of these happens: {on_event_words.WORDS}."),
    ] = None,
    before: Annotated[
        str, typer.Option(metavar="SIZE", help="With --on-event: bytes of earlier packets to keep, in memory.")
    ] = "16MB",
    after: Annotated[
        str, typer.Option(metavar="TIME", help="With --on-event: time to continue after the event.")
    ] = "1s",
    json: JsonFlag = False,
) -> None:
    """Capture packets of links, in both directions, into one file; Ctrl-C stops it.

    Watch it in Wireshark: rocelab capture h1..h5 -o - | wireshark -k -i -

    Filters are those of rocelab dissect; they resolve host names: host h1 and (cnp or nak).

    Wait for an event: rocelab capture leaf --on-event nak,drop,storm -o trouble.pcapng
    """
    _check_outputs(output, live=live, ring=ring, json=json)
    kinds = None if on_event is None else _kinds(on_event, output, alone=not (live or ring))
    sizes = on_event_words.parse_before(before), on_event_words.parse_after(after)
    limit = read_optional_seconds("--seconds", seconds)
    fabric = open_fabric(name)
    wanted = None if select is None else parse(select, partial(addresses_of, fabric.plan))
    points = points_of(fabric, links)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_reader_may_leave(output))
        # Lambdas, because ``running`` exists only after its sink.
        if kinds is not None:
            opened = partial(_file, stack, output or "", select or "")
            kept = KeepOnEvent(Watcher(kinds), *sizes, opened, lambda: running.interrupt())  # noqa: PLW0108
        file = _opened(stack, output, ring, select or "") if kinds is None else kept
        sink = Printed(file, lambda: running.interrupt()) if live or file is None else file  # noqa: PLW0108
        running = stack.enter_context(LiveCapture(points, sink, snaplen=snaplen, wanted=wanted))
        stack.enter_context(ends_on_signals(running.interrupt))
        progress = None if live else stack.enter_context(_watched(output or ""))
        if kinds is not None:
            progress = on_event_words.watched_ports(fabric, kinds, kept, progress)
            _say(f"waiting for {', '.join(sorted(kinds))} at {counted(len(points), 'link')}")
        counts = running.run(seconds=limit, packets=packets, progress=progress)
    _report(output if kinds is None or kept.event else None, counts, json=json, event=kept.event if kinds else None)
    if kinds is not None:
        _tell(kept.event, output)


@contextlib.contextmanager
def _reader_may_leave(output: str | None) -> Iterator[None]:
    """End as all commands do if the reader of standard output is gone, for example Wireshark: that is no failure."""
    try:
        yield
    except OperationFailed as error:
        if output == _STANDARD_OUTPUT and isinstance(error.__cause__, BrokenPipeError):
            raise error.__cause__ from None
        raise


def _kinds(text: str, output: str | None, *, alone: bool) -> frozenset[TriggerKind]:
    """Parse the events of ``--on-event``; UsageError without an output file of its own."""
    if output in {None, _STANDARD_OUTPUT} or not alone:
        raise UsageError("--on-event keeps one file", "give -o its name, and omit --live and --ring")
    on_event_words.check_folder(output or "")
    return on_event_words.parse_kinds(text)


def _tell(event: TriggerEvent | None, output: str | None) -> None:
    kept = f"nothing happened: {output} was not written"
    _say(kept if event is None else f"{event.link}: {event.what}; kept in {output}")


def _say(text: str) -> None:
    stderr.print(text, markup=False, highlight=False, soft_wrap=True)


def _check_outputs(output: str | None, *, live: bool, ring: str | None, json: bool) -> None:
    """Raise UsageError if the packets have no destination, or two outputs share one."""
    if output is None and not live:
        raise UsageError("packets have no destination", "give -o a file, or --live to see them")
    if json and output == _STANDARD_OUTPUT:
        raise UsageError("packets and JSON cannot both go to standard output", "give -o a file, or omit --json")
    if live and output == _STANDARD_OUTPUT:
        raise UsageError("packets and lines cannot both go to standard output", "give -o a file, or omit --live")
    if json and live:
        raise UsageError("lines and JSON cannot both go to standard output", "omit --live or --json")
    if ring is not None and output in {None, _STANDARD_OUTPUT}:
        raise UsageError("a ring is made of files", "give -o the name of a file")


def _opened(stack: contextlib.ExitStack, output: str | None, ring: str | None, select: str) -> Sink | None:
    """Return the sink for ``output``; None without one."""
    if output is None:
        return None
    if ring is not None:
        return stack.enter_context(RingWriter(Path(output), *_ring(ring), select))
    return _file(stack, output, select)


def _file(stack: contextlib.ExitStack, output: str, select: str) -> Sink:
    """Return an unbuffered writer, so that a killed capture keeps all packets that it has seen."""
    if output != _STANDARD_OUTPUT and (most := room()) is not None:
        files.limit_size(most)
    if output == _STANDARD_OUTPUT:
        with writing(output):
            return Writer(stack.enter_context(FileIO(sys.stdout.fileno(), "w", closefd=False)), select=select)
    with writing(Path(output)):
        file = stack.enter_context(FileIO(output, "w"))
        try:
            return Writer(file, select=select)
        except OperationFailed as error:  # not even the header fits: a file without it is no capture
            raise (error.__cause__ or error) from None


def _ring(text: str) -> tuple[int, int]:
    """Parse ``10:100MB``: the number of files, and the size of each."""
    files, _, size = text.partition(":")
    if not (files.isascii() and files.isdigit()):
        raise UsageError(f"--ring {text} is not FILES:SIZE", "write for example 10:100MB")
    try:
        count, limit = int(files), parse_size(size)
    except ValueError as error:
        raise UsageError(f"--ring {text}: {error}", "write for example 10:100MB") from error
    if count < 2 or limit < SMALLEST:
        raise UsageError(f"--ring {text} is too small", f"at least 2 files of {format_size(SMALLEST)}")
    return count, limit


@contextlib.contextmanager
def _watched(output: str) -> Iterator[Progress | None]:
    """Yield a callback that updates a table on standard error; None if that is not a terminal."""
    if not stderr.is_terminal:
        yield None
        return
    with Live(console=stderr, auto_refresh=False, transient=True) as live:
        yield lambda counts: live.update(_table(output, counts), refresh=True)


def _table(output: str, counts: Sequence[LinkCount]) -> Table:
    rows = [(count.label, count.packets, format_size(count.bytes), count.dropped) for count in counts]
    return table(output, ("link", "packets", "on the wire", "lost by the kernel"), rows)


def _report(
    output: str | None, counts: Sequence[LinkCount], *, json: bool, event: TriggerEvent | None = None
) -> None:
    """Print the final table; on standard error if the packets went to standard output."""
    if json:
        links = [{"link": c.label, "packets": c.packets, "bytes": c.bytes, "dropped": c.dropped} for c in counts]
        print_json({"file": output, "links": links} | ({"event": asdict(event)} if event else {}))
    else:
        (stderr if output == _STANDARD_OUTPUT else stdout).print(_table(output or "", counts))
    if lost := sum(count.dropped for count in counts):
        stderr.print(
            f"{counted(lost, 'packet')} came faster than they could be written: try --snaplen 128, or fewer links"
        )
