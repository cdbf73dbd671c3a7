"""The tools of ``rocelab mcp``: for each one its command, its arguments and its access."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lab.cli.agents import tool_arguments as given

if TYPE_CHECKING:
    from pathlib import Path


class ToolAccess(StrEnum):
    """The access that a tool needs; ``rocelab mcp --allow`` adds to reading."""

    READ = "read"
    EXEC = "exec"
    """Run any command in a node, as root. Such a command can leave the node."""
    INJECT = "inject"
    """Inject and heal faults."""


class AgentTool(NamedTuple):
    """A tool: the command that it runs, and its presentation to clients."""

    name: str
    command: tuple[str, ...]
    title: str
    description: str
    arguments: type[given.ToolArguments] = given.ToolArguments
    access: ToolAccess = ToolAccess.READ
    option: str = ""
    """The option that selects the answer, such as ``--evpn``."""
    prints_json: bool = True
    """Whether the command has ``--json``; the output of others is returned as text."""
    on_fabric: bool = True
    """Whether the command has ``--fabric``."""
    changes: bool = False
    """Whether a call changes the fabric, or the score of a challenge."""

    @property
    def answer(self) -> str:
        """The name of the answer's model in ``lab.cli.schemas``; "" for text."""
        return f"{' '.join(self.command)} {self.option}".rstrip() if self.prints_json else ""

    def argv(self, values: given.ToolArguments, fabric: str | None, output: Path | None = None) -> list[str]:
        """Return the command line after ``rocelab``; ``output`` is the file for the command's ``--output``."""
        return [
            *self.command,
            *([self.option] if self.option else []),
            *(["--json"] if self.prints_json else []),
            *([f"--fabric={fabric}"] if fabric and self.on_fabric else []),
            *([f"--output={output}"] if output else []),
            *values.options(),
            *(["--", *words] if (words := values.words()) else []),
        ]


def _tool(name: str, command: str, title: str, description: str, **more: Any) -> AgentTool:
    return AgentTool(name, tuple(command.split()), title, description, **more)


CAPTURE: Final = "capture"
_READING: Final = (
    _tool("fabrics", "ls", "Fabrics", "List the fabrics that run.", on_fabric=False),
    _tool(
        "nodes",
        "inspect",
        "Nodes",
        "Nodes with roles, addresses, and the peer of each interface: the topology.",
        arguments=given.NodesArguments,
    ),
    _tool("status", "status", "Status", "Health of nodes, routing sessions, links and RDMA devices."),
    _tool(
        "overlay",
        "status",
        "Overlay",
        "Health of the EVPN overlay: VNIs, and the routes of each VTEP.",
        option="--evpn",
    ),
    _tool(
        "counters",
        "counters",
        "Counters",
        "Counters of lossless ports by name; zeros are left out. They only grow: compare two readings.",
        arguments=given.CounterArguments,
    ),
    _tool(
        "congestion",
        "congestion",
        "Congestion",
        "Observe PFC for some seconds, and return pause trees: the congested queue first, then the paused ports.",
        arguments=given.CongestionArguments,
    ),
    _tool(
        "events",
        "qos events",
        "Events",
        "The last pauses, storms and drops of lossless ports, by time.",
        arguments=given.EventArguments,
    ),
    _tool(
        "qos",
        "qos show",
        "QoS",
        "The configuration of lossless ports: classification, thresholds, ECN, PFC, scheduling, congestion control.",
        arguments=given.PortArguments,
    ),
    _tool("rdma", "rdma show", "RDMA", "RDMA devices, and the QPs that congestion control slows down."),
    _tool(
        "path",
        "path",
        "Path",
        "All equal-cost paths between two hosts, or the path of one flow, as each node's kernel resolves it.",
        arguments=given.PathArguments,
    ),
    _tool(
        "lldp",
        "lldp",
        "LLDP",
        "The neighbour that LLDP sees on each port, and the planned one: shows cables in wrong ports.",
    ),
    _tool("faults", "fault ls", "Faults", "Faults that were injected on purpose. A challenge hides its own."),
    _tool(
        "diagnose",
        "diagnose",
        "Diagnose",
        "Observe the fabric, and return likely root causes with place, evidence and fix. "
        "The outcome unchecked means that no fault was seen, but that the parts in unchecked were not checked.",
        arguments=given.DiagnoseArguments,
    ),
    _tool(
        CAPTURE,
        "capture",
        "Capture",
        "Capture packets of links, decoded: RoCEv2, PFC, CNP, TCP and others. Bounded in time and packets.",
        arguments=given.CaptureArguments,
    ),
    _tool(
        "show",
        "exec",
        "Show",
        "The state of a node as its kernel reports it: links, addresses, routes, neighbours, qdiscs, sockets.",
        arguments=given.ShowArguments,
        prints_json=False,
    ),
    _tool(
        "routing",
        "vtysh",
        "Routing",
        "Run a show command of FRR on a switch. Append json to get JSON from most of them.",
        arguments=given.RoutingArguments,
        prints_json=False,
    ),
    _tool(
        "ping",
        "exec",
        "Ping",
        "Send some pings from a node to a node or an address, without fragmentation.",
        arguments=given.PingArguments,
        prints_json=False,
    ),
    _tool(
        "challenge_causes",
        "scenario ls",
        "Causes",
        "The names of causes that a challenge may have.",
        on_fabric=False,
    ),
    _tool(
        "challenge_check",
        "scenario check",
        "Check an answer",
        "Judge an answer to the challenge: cause and place. Wrong answers are counted.",
        arguments=given.CheckArguments,
        changes=True,
    ),
    _tool(
        "challenge_hint",
        "scenario hint",
        "Hint",
        "The next of five hints for the challenge. Hints are counted.",
        changes=True,
    ),
)
_CHANGING: Final = (
    _tool(
        "exec",
        "exec",
        "Execute",
        "Run any command in a node, as root, without a shell. Not available during a challenge.",
        arguments=given.ExecArguments,
        access=ToolAccess.EXEC,
        option="--not-in-challenge",
        prints_json=False,
        changes=True,
    ),
    _tool(
        "fault_kinds",
        "fault ls",
        "Kinds of faults",
        "Faults that can be injected: their meaning, possible places and parameters.",
        access=ToolAccess.INJECT,
        option="--kinds",
    ),
    _tool(
        "fault_inject",
        "fault inject",
        "Inject a fault",
        "Inject a fault, which lasts until fault_heal.",
        arguments=given.InjectArguments,
        access=ToolAccess.INJECT,
        changes=True,
    ),
    _tool(
        "fault_heal",
        "fault heal",
        "Heal a fault",
        "Remove an injected fault, and restore the previous state.",
        arguments=given.HealArguments,
        access=ToolAccess.INJECT,
        changes=True,
    ),
)
TOOLS: Final = {tool.name: tool for tool in (*_READING, *_CHANGING)}
"""All tools by name, in the order in which clients list them."""
