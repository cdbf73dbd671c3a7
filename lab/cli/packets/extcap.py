"""``rocelab extcap``: links of running fabrics in Wireshark's list of interfaces, by its extcap protocol.

``--install`` writes a program into Wireshark's extcap folder. Wireshark runs it to list interfaces, link types and
options (``--extcap-...``), and to capture into a pipe (``--capture --fifo``): extcap(4).
"""

from __future__ import annotations

import contextlib
import os
import sys
from functools import partial
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lab import __version__
from lab.backends import fabric_state
from lab.cli.kit.interrupt import ends_on_signals
from lab.cli.kit.open_fabric import open_fabric
from lab.cli.kit.output import stdout
from lab.errors import EnvironmentLacks, LabError, OperationFailed, UsageError, writing
from lab.kernel.packets.live_capture import LiveCapture
from lab.kernel.process.process import find_tool, run
from lab.model.hosts import addresses_of
from lab.model.topology import Endpoint
from lab.result_files import write_results
from lab.wire.filter.parse import parse
from lab.wire.pcapng import Writer

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME: Final = "rocelab"
"""The name of the program in Wireshark's folder, and the prefix of its interfaces."""
_FOLDERS: Final = ("Personal Extcap path", "Extcap path", "Global Extcap path")
"""Keys in the output of ``tshark -G folders``, the user's folder first; before 4.2 there was only one."""
_PROGRAM: Final = '''#!{python}
"""Links of rocelab's fabrics for Wireshark; made by rocelab extcap --install."""

import sys

from lab.cli.app import main

sys.argv[1:1] = ["extcap"]
main()
'''
_CONFIG: Final = (
    "arg {number=0}{call=--filter}{display=Filter}{type=string}"
    "{tooltip=Only packets like: qpn==0x11 and not ack. See rocelab dissect --help.}"
)


def extcap(
    install: Annotated[bool, typer.Option("--install", help="Install into Wireshark's extcap folder.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Uninstall.")] = False,
    folder: Annotated[
        Path | None, typer.Option("--to", help="Extcap folder. \\[default: as Wireshark reports]")
    ] = None,
    interfaces: Annotated[bool, typer.Option("--extcap-interfaces", hidden=True)] = False,
    dlts: Annotated[bool, typer.Option("--extcap-dlts", hidden=True)] = False,
    config: Annotated[bool, typer.Option("--extcap-config", hidden=True)] = False,
    capturing: Annotated[bool, typer.Option("--capture", hidden=True)] = False,
    interface: Annotated[str, typer.Option("--extcap-interface", hidden=True)] = "",
    fifo: Annotated[Path | None, typer.Option("--fifo", hidden=True)] = None,
    select: Annotated[str, typer.Option("--filter", hidden=True)] = "",
    capture_filter: Annotated[str, typer.Option("--extcap-capture-filter", hidden=True)] = "",
    version: Annotated[str, typer.Option("--extcap-version", hidden=True)] = "",  # noqa: ARG001 - ours fits any
) -> None:
    """Show the links of running fabrics as interfaces in Wireshark: rocelab extcap --install, then restart Wireshark.

    In Wireshark, as in tshark -i rocelab:FABRIC:leaf1:swp1, a capture filter is one of rocelab's: qpn==0x11 or cnp.
    This covers fabrics on this machine. For a fabric in the VM: rocelab --vm capture ... -o - | wireshark -k -i -
    """
    if install or remove:
        _install(folder or wiresharks_folder(), remove=remove)
    elif interfaces:
        for line in (f"extcap {{version={__version__}}}{{display={NAME}}}", *_interfaces()):
            _line(line)
    elif dlts:
        _line("dlt {number=1}{name=EN10MB}{display=Ethernet}")
    elif config:
        _line(_CONFIG)
    elif capture_filter and not capturing:  # Wireshark validates a filter: any output is its error
        _check(interface, capture_filter)
    elif capturing and fifo is not None:
        _capture(interface, fifo, " and ".join(f"({text})" for text in (select, capture_filter) if text))
    else:
        raise UsageError("Wireshark calls rocelab extcap", "run rocelab extcap --install")


def _line(text: str) -> None:
    sys.stdout.write(f"{text}\n")


# Installing


def wiresharks_folder() -> Path:
    """Return Wireshark's extcap folder; EnvironmentLacks if tshark is missing or does not report one."""
    done = run([find_tool("tshark", "tshark"), "-G", "folders"])
    told = dict(line.split(":", 1) for line in done.stdout.splitlines() if ":" in line)
    for name in _FOLDERS:
        if name in told:
            return Path(told[name].strip())
    raise EnvironmentLacks(
        "tshark -G folders names no folder for extcap", "name it: rocelab extcap --install --to DIR"
    )


def _install(folder: Path, *, remove: bool) -> None:
    program, remedy = folder / NAME, "use sudo, or --to DIR"
    if not remove:
        write_results({program: _PROGRAM.format(python=sys.executable)}, remedy, folders=[folder])
    with writing(program, remedy):
        if remove:
            program.unlink(missing_ok=True)
        else:
            program.chmod(0o755)
    done = "removed from" if remove else "installed in"
    stdout.print(f"{done} {folder}; start Wireshark anew", markup=False, highlight=False, soft_wrap=True)


# Answers to Wireshark


def _interfaces() -> Iterator[str]:
    """Yield each fabric as one interface for all links, and each end of every link."""
    for fabric in fabric_state.all_fabrics():
        with contextlib.suppress(LabError, OSError):  # a fabric that is being built or removed
            topology = fabric.load_topology()
            whole = f"{NAME}:{fabric.name}"
            yield f"interface {{value={whole}}}{{display=rocelab {fabric.name}, all links}}"
            for link in topology.links:
                for end in link.ends:
                    display = f"rocelab {fabric.name} {end} to {link.other(end)}"
                    yield f"interface {{value={whole}:{end}}}{{display={display}}}"


def _chosen(interface: str) -> tuple[str, str | None]:
    """Return the fabric and end of an interface's name; UsageError if it is not one of rocelab's."""
    program, _, rest = interface.partition(":")
    fabric, _, end = rest.partition(":")
    if program != NAME or not fabric:
        raise UsageError(f"{interface!r} is not a link of a fabric", f"write it like {NAME}:FABRIC:leaf1:swp1")
    return fabric, end or None


def _check(interface: str, text: str) -> None:
    fabric, _ = _chosen(interface)
    try:
        parse(text, partial(addresses_of, open_fabric(fabric).plan))
    except UsageError as error:
        _line(str(error))


def _capture(interface: str, fifo: Path, select: str) -> None:
    """Capture into the pipe until Wireshark closes it."""
    from lab.backends.capture_points import points_of  # noqa: PLC0415 - not needed to list interfaces

    name, end = _chosen(interface)
    fabric = open_fabric(name)
    links = (
        [str(link.ends[0]) for link in fabric.topology.links] if end is None else [str(Endpoint(*end.split(":", 1)))]
    )
    wanted = parse(select, partial(addresses_of, fabric.plan)) if select else None
    with writing(fifo, "Wireshark creates it"):
        output = FileIO(os.open(fifo, os.O_WRONLY | os.O_CLOEXEC), "w")
    try:
        with (
            output,
            LiveCapture(points_of(fabric, links), Writer(output, select=select), wanted=wanted) as running,
            ends_on_signals(running.interrupt),
        ):
            running.run()
    except OperationFailed as error:
        if not isinstance(error.__cause__, BrokenPipeError):
            raise
