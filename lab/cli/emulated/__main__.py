"""The entry of all emulated tools: ``python -m lab.cli.emulated TOOL ARGUMENTS``, run by the commands in ``bin``."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, NoReturn

from lab.backends.lifecycle import open_fabric
from lab.cli.emulated import COMMANDS, FABRIC, FOLDER, NODE, nic_tools, switch_show
from lab.cli.emulated.devices import devices_of
from lab.cli.emulated.emulated_node import EmulatedNode
from lab.cli.emulated.substitutes import instead_of_show
from lab.errors import LabError
from lab.rdma import sysfs

if TYPE_CHECKING:
    from collections.abc import Iterable

_MISSING = 127


def main(words: list[str]) -> int:
    """Run the tool that ``words`` begin with, and return its exit code."""
    tool, *arguments = words
    try:
        node = EmulatedNode(open_fabric(os.environ.get(FABRIC)), os.environ.get(NODE, ""))
        lines = _answer(node, tool, arguments)
    except LabError as error:
        return _refuse(f"{tool}: {error}")
    if lines is None:
        _pass_on(tool, arguments)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def _answer(node: EmulatedNode, tool: str, arguments: list[str]) -> Iterable[str] | None:
    """Return the output lines of a tool; None if the real tool must run. LabError without emulated ports."""
    if tool == "show_gids":
        return nic_tools.gid_table({device: sysfs.gids(device) for device in devices_of(node.fabric, node.name)})
    has_ports = node.fabric.topology.qos is not None
    if tool == "ethtool":
        return _statistics(node, arguments) if has_ports else None
    if tool == "show" and (draw := switch_show.SHOW.get(" ".join(arguments[:3]))) is None:
        if instead := instead_of_show(arguments):
            command = " ".join(arguments)
            raise LabError(f"{command!r} is neither emulated nor a command of FRR", f"use {instead}")
        return None
    if not has_ports:
        from lab.backends.live_qos import how_to_get_ports  # noqa: PLC0415 - NumPy, for which other answers do not wait

        raise LabError(f"fabric {node.fabric.name} has no lossless ports", how_to_get_ports())
    if tool == "show":
        return [switch_show.EMULATED, *draw(node.counters())] if draw is not None else None
    return _settings(node, arguments)


def _statistics(node: EmulatedNode, arguments: list[str]) -> Iterable[str] | None:
    if len(arguments) == 2 and arguments[0] in {"-S", "--statistics"} and arguments[1] in node.ports:
        return nic_tools.statistics(node.counters()[arguments[1]])
    return None


def _settings(node: EmulatedNode, arguments: list[str]) -> Iterable[str]:
    interface = arguments[1] if len(arguments) == 2 and arguments[0] == "-i" else ""
    if interface not in node.ports:
        raise LabError(
            "the emulated mlnx_qos only reads: mlnx_qos -i INTERFACE", f"interfaces: {', '.join(node.ports)}"
        )
    return nic_tools.qos_settings(node.fabric.qos[node.name], node.ports[interface])


def _pass_on(tool: str, arguments: list[str]) -> NoReturn:
    """Replace this process by the real tool; other ``show`` commands of SONiC are run by FRR's vtysh."""
    own = {str(COMMANDS), os.environ.get(FOLDER)}  # the checkout may be seen by two paths, as in the VM
    path = os.pathsep.join(each for each in os.environ.get("PATH", os.defpath).split(os.pathsep) if each not in own)
    real = shutil.which("vtysh" if tool == "show" else tool, path=path)
    if real is None:
        sys.exit(_refuse(f"{tool}: the real tool is not installed", _MISSING))
    words = ["-c", " ".join([tool, *arguments])] if tool == "show" else arguments
    os.execv(real, [real, *words])  # noqa: S606 - the program that the user has typed


def _refuse(line: str, code: int = 1) -> int:
    sys.stderr.write(f"{line}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
