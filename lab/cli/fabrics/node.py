"""``rocelab exec``, ``shell`` and ``vtysh``: run programs in a node."""

from __future__ import annotations

import os
import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer.core import TyperCommand

from lab.backends.fabric_state import all_fabrics, rdma_needs_the_vm
from lab.backends.node_selection import node_of
from lab.cli import emulated
from lab.cli.emulated.devices import devices_of
from lab.cli.emulated.substitutes import instead_of_tool
from lab.cli.kit.complete import FabricOption, node_names
from lab.cli.kit.open_fabric import open_fabric
from lab.cli.kit.warnings import warn
from lab.errors import EnvironmentLacks, UsageError
from lab.kernel.bpf.pins import BPF_FILES
from lab.kernel.process import cgroup, process
from lab.kernel.process.node_session import NodeSession, with_hostname
from lab.model.overlay.plan import plan_overlay
from lab.rdma.sysfs import DEVICES
from lab.routing.daemons import NO_ROUTER
from lab.routing.frr_config.render import has_routers

if TYPE_CHECKING:
    from pathlib import Path

    from lab.backends.backend import Fabric
    from lab.cli.typer_internals import Context

NodeArgument = Annotated[str, typer.Argument(help="The node.", autocompletion=node_names)]
_SEPARATOR: Final = "--"
_RDMA_PROGRAM: Final = re.compile("rdma|rping|ibv?_.+|raw_ethernet_.+")
"""The names of programs that need an RDMA device."""


class NodeCommand(TyperCommand):
    """Passes everything after the node to the command, including options, with or without ``--`` before it."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Parse as Typer does, with a ``--`` added if it is missing."""
        return super().parse_args(ctx, self._separated(ctx, args))

    def _separated(self, ctx: Context, args: list[str]) -> list[str]:
        """Return ``args`` with ``--`` before the second word that is neither an option nor an option's value."""
        valued = {name for each in self.get_params(ctx) if not getattr(each, "is_flag", False) for name in each.opts}
        words, place = 0, 0
        while place < len(args) and args[place] != _SEPARATOR:
            if not args[place].startswith("-"):
                words += 1
                if words > 1:
                    return [*args[:place], _SEPARATOR, *args[place:]]
            place += 2 if args[place] in valued else 1
        return args


def _interact(fabric: Fabric, node: str, argv: list[str], *, is_shell: bool = False) -> int:
    """Run a program in a node, with the node's hostname, /sys, and routing daemons."""
    session = NodeSession(
        fabric.namespace(node),
        hostname=node,
        directories=fabric.router(node).in_node if _routes(fabric, node) else NO_ROUTER,
        kept=[BPF_FILES, *_rdma_ports(fabric, node)],
        environment=_environment(fabric, node),
    )
    try:
        return session.interact(argv, is_shell=is_shell)
    except EnvironmentLacks as error:
        instead = instead_of_tool(argv[0])
        remedy = f"use {instead}" if instead else "check its name: a node has the programs of this machine"
        raise EnvironmentLacks(error.message, remedy) from error


def _environment(fabric: Fabric, node: str) -> dict[str, str]:
    """Return the environment for the commands of ``lab.cli.emulated``, which come first in PATH."""
    folder = str(emulated.COMMANDS)
    return {
        emulated.NODE: node,
        emulated.FABRIC: fabric.name,
        emulated.PYTHON: sys.executable,
        emulated.FOLDER: folder,
        "PATH": os.pathsep.join([folder, os.environ.get("PATH", os.defpath)]),
    }


def _rdma_ports(fabric: Fabric, node: str) -> list[Path]:
    """Return the folders in /sys of a node's RDMA ports: a namespace's own /sys lacks their counters."""
    return [DEVICES / device / "ports" / "1" for device in devices_of(fabric, node)]


def _routes(fabric: Fabric, node: str) -> bool:
    """Return whether routing daemons run in a node: a switch, or a host that acts as an external router."""
    overlay = plan_overlay(fabric.topology)
    outside = node in (overlay.externals if overlay else ())
    return outside or (fabric.topology.node(node).role.is_switch and has_routers(fabric.topology))


def execute(
    node: NodeArgument,
    command: Annotated[list[str], typer.Argument(help="The command and its arguments.")],
    name: FabricOption = None,
    not_in_challenge: Annotated[bool, typer.Option("--not-in-challenge", hidden=True)] = False,
) -> None:
    """Run a command in a node, and exit with its exit code: rocelab exec h1 ping -c1 h2.

    Options of rocelab go before the command; everything after it is passed to the command.
    """
    fabric = open_fabric(name)
    if not_in_challenge:
        _refuse_in_challenge()
    node_of(fabric, node)
    code = _interact(fabric, node, command)
    if code and _RDMA_PROGRAM.fullmatch(command[0].rpartition("/")[2]) and not devices_of(fabric, node):
        warn(_why_no_rdma(fabric, node))
    elif code and "/" not in command[0] and (instead := instead_of_tool(command[0])):  # ./config is a user's own
        warn(f"use {instead}")
    sys.exit(code)


execute.command_class = NodeCommand  # type: ignore[attr-defined]


def _why_no_rdma(fabric: Fabric, node: str) -> str:
    """Return why a program found no RDMA device in a node, and the remedy."""
    other = next((host.name for host in fabric.topology.hosts if devices_of(fabric, host.name)), None)
    if other is not None:
        return f"{node} has no RDMA device: run it in a host with RDMA, like {other}"
    there = " --vm" if rdma_needs_the_vm(os.uname().release) else ""
    remedy = f"rocelab down, then rocelab{there} up without --no-rdma, and with rdma: true for hosts in the topology"
    return f"fabric {fabric.name} has no RDMA: {remedy}"


def _refuse_in_challenge() -> None:
    """Raise UsageError while any fabric of this machine has a challenge: root can read its answer."""
    from lab.scenario.challenges.challenge_record import lasting  # noqa: PLC0415 - scenarios, and rarely needed

    for state in all_fabrics():
        if lasting(state) is not None:
            raise UsageError(
                f"fabric {state.name} has a challenge, whose answer a command could read as root",
                "use the tools that only read, or end the challenge: rocelab scenario fix",
            )


def shell(node: NodeArgument, name: FabricOption = None) -> None:
    """Open a shell in a node."""
    fabric = open_fabric(name)
    node_of(fabric, node)
    place = f"{fabric.name}/{node}"
    # Debian's and Ubuntu's bashrc replaces the prompt, and begins it with the name of a chroot.
    prompt = [f"PS1={place}# ", f"debian_chroot={place}"]
    sys.exit(_interact(fabric, node, ["env", *prompt, os.environ.get("SHELL", "/bin/sh")], is_shell=True))


def vtysh(
    node: NodeArgument,
    command: Annotated[
        list[str] | None, typer.Option("-c", "--command", help="Run this FRR command, then exit.")
    ] = None,
    name: FabricOption = None,
) -> None:
    """Open FRR's shell on a switch or an external router."""
    fabric = open_fabric(name)
    is_switch = node_of(fabric, node).role.is_switch
    if not _routes(fabric, node):
        if is_switch:
            raise UsageError(f"{node} bridges plain VLANs and runs no router", f"rocelab exec {node} bridge link")
        switches = ", ".join(switch.name for switch in fabric.topology.switches)
        raise UsageError(f"{node} is a host and runs no router", f"switches are {switches}")
    router = fabric.router(node)
    with cgroup.opened(router.namespace.group) as group:  # outside the node: see Router.ask
        sys.exit(process.interact(router.vtysh(*(command or ())), group, place=partial(with_hostname, node)))
