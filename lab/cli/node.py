"""``rocelab exec``, ``shell`` and ``vtysh``: a node as if you were logged in to it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lab.backends.selection import node_of
from lab.cli.complete import FabricOption, node_names
from lab.cli.opening import open_fabric
from lab.errors import UsageError
from lab.kernel import cgroup, process
from lab.model.overlay.plan import plan_overlay

if TYPE_CHECKING:
    from lab.backends.base import Fabric

NodeArgument = Annotated[str, typer.Argument(help="Which node.", autocompletion=node_names)]
CONTEXT: Final = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def _interact(fabric: Fabric, node: str, argv: list[str], *, is_shell: bool = False) -> int:
    """``ip netns exec`` also gives the program a /sys of the namespace, as a login would."""
    namespace = fabric.namespace(node)
    words = [process.find_tool("ip", "iproute2"), "netns", "exec", namespace.name, *argv]
    with cgroup.opened(namespace.group) as group:
        return process.interact(words, group, is_shell=is_shell)


def execute(
    node: NodeArgument,
    command: Annotated[list[str], typer.Argument(help="The command and its arguments, after --.")],
    name: FabricOption = None,
) -> None:
    """Run a command in a node; its exit code is ours."""
    fabric = open_fabric(name)
    node_of(fabric, node)
    sys.exit(_interact(fabric, node, command))


def shell(node: NodeArgument, name: FabricOption = None) -> None:
    """Open a shell in a node."""
    fabric = open_fabric(name)
    node_of(fabric, node)
    program = os.environ.get("SHELL", "/bin/sh")
    prompt = ["env", f"PS1={fabric.name}/{node}# ", f"ROCELAB_NODE={node}"]
    sys.exit(_interact(fabric, node, [*prompt, program], is_shell=True))


def vtysh(
    node: NodeArgument,
    command: Annotated[list[str] | None, typer.Option("-c", "--command", help="Run this and return.")] = None,
    name: FabricOption = None,
) -> None:
    """Talk to a switch's routing daemons, or to those of a router outside."""
    fabric = open_fabric(name)
    overlay = plan_overlay(fabric.topology)
    if not node_of(fabric, node).role.is_switch and node not in (overlay.externals if overlay else ()):
        switches = ", ".join(switch.name for switch in fabric.topology.switches)
        raise UsageError(f"{node} is a host and runs no router", f"switches are {switches}")
    if overlay is not None and overlay.bridges:
        raise UsageError(f"{node} bridges plain VLANs and runs no router", f"rocelab exec {node} -- bridge link")
    router = fabric.router(node)
    with cgroup.opened(router.namespace.group) as group:  # outside the node: see Router.ask
        sys.exit(process.interact(router.vtysh(*(command or ())), group))
