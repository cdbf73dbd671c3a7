"""The arguments of each tool of ``rocelab mcp``, and the words of the command line that they become.

Values follow ``--`` or ``=``, so that none of them is read as an option. Names also have a pattern.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from lab.model.qos.port import CLASSES

_MOST_NAMES: Final = 64
_LONGEST_TEXT: Final = 1000
_LONGEST_CAPTURE: Final = 30.0
_LONGEST_VIEW: Final = 60.0
_MOST_PACKETS: Final = 200
_MOST_EVENTS: Final = 1000
_MOST_PINGS: Final = 20
_SNAPLEN: Final = 256
"""Bytes of each captured packet: all headers, and little of the payload."""

NodeName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*$", max_length=_LONGEST_TEXT)]
PlaceName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.:/-]*$", max_length=_LONGEST_TEXT)]
Ports = Annotated[list[PlaceName], Field(max_length=_MOST_NAMES)]
FreeText = Annotated[str, Field(max_length=_LONGEST_TEXT, pattern=r"^[^\x00-\x1f]*$")]


class NodeState(StrEnum):
    """Commands that only read the state of a node."""

    ADDRESSES = "addresses"
    LINKS = "links"
    NEIGHBOURS = "neighbours"
    QDISCS = "qdiscs"
    ROUTES = "routes"
    ROUTES_IPV6 = "routes-ipv6"
    RULES = "rules"
    SOCKETS = "sockets"


_SHOWN: Final = {
    NodeState.ADDRESSES: ("ip", "address", "show"),
    NodeState.LINKS: ("ip", "-s", "-s", "link", "show"),
    NodeState.NEIGHBOURS: ("ip", "neighbour", "show"),
    NodeState.QDISCS: ("tc", "-s", "qdisc", "show"),
    NodeState.ROUTES: ("ip", "route", "show", "table", "all"),
    NodeState.ROUTES_IPV6: ("ip", "-6", "route", "show", "table", "all"),
    NodeState.RULES: ("ip", "rule", "show"),
    NodeState.SOCKETS: ("ss", "-tuna"),
}


class ToolArguments(BaseModel):
    """The arguments of a tool; the base of those without any."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)

    def options(self) -> list[str]:
        """Return the options of the command."""
        return []

    def words(self) -> list[str]:
        """Return the words of the command after its options."""
        return []

    def patience(self) -> float:
        """Return the seconds that the command takes by intent."""
        return 0.0


class PortArguments(ToolArguments):
    """Ports whose state is read."""

    ports: Ports = []
    """Ports as leaf1:swp1, nodes as leaf1, or tiers as leaf; all ports if empty."""

    def words(self) -> list[str]:
        """Return the ports."""
        return list(self.ports)


class CounterArguments(PortArguments):
    """Arguments of ``counters``."""

    priority: Annotated[int, Field(ge=0, lt=CLASSES)] | None = None
    """Only this priority; RoCE is 3 in the presets."""

    def options(self) -> list[str]:
        """Return the priority."""
        return [] if self.priority is None else [f"--priority={self.priority}"]


class EventArguments(PortArguments):
    """Arguments of ``events``."""

    limit: Annotated[int, Field(ge=1, le=_MOST_EVENTS)] = 100
    """Only this many of the last events."""

    def options(self) -> list[str]:
        """Return the limit."""
        return [f"--limit={self.limit}"]


class NodesArguments(ToolArguments):
    """Arguments of ``nodes``."""

    nodes: Annotated[list[NodeName], Field(max_length=_MOST_NAMES)] = []
    """Names of nodes; all nodes if empty."""

    def words(self) -> list[str]:
        """Return the nodes."""
        return list(self.nodes)


class CongestionArguments(ToolArguments):
    """Arguments of ``congestion``."""

    seconds: Annotated[float, Field(gt=0, le=_LONGEST_VIEW)] = 1.0
    """How long to observe."""

    def options(self) -> list[str]:
        """Return the time."""
        return [f"--for={self.seconds:g}s"]

    def patience(self) -> float:
        """Return the time of the observation."""
        return self.seconds


class PathArguments(ToolArguments):
    """Arguments of ``path``."""

    source: PlaceName
    """A host, or one of its interfaces as h1:eth1."""
    destination: PlaceName
    """Another host, or one of its interfaces."""
    sport: Annotated[int, Field(ge=0, le=65535)] | None = None
    """UDP source port of RoCEv2 packets: only the path of this flow."""

    def options(self) -> list[str]:
        """Return the source port."""
        return [] if self.sport is None else [f"--sport={self.sport}"]

    def words(self) -> list[str]:
        """Return both ends."""
        return [self.source, self.destination]


class DiagnoseArguments(ToolArguments):
    """Arguments of ``diagnose``."""

    seconds: Annotated[float, Field(ge=1, le=_LONGEST_VIEW)] = 10.0
    """How long to observe."""
    settings: bool = False
    """Also read all settings of all nodes, which takes seconds. Without them the outcome is never healthy."""

    def options(self) -> list[str]:
        """Return the time, and whether settings are read."""
        return [f"--seconds={self.seconds:g}", *(["--settings"] if self.settings else [])]

    def patience(self) -> float:
        """Return the time of the observation."""
        return self.seconds


class CaptureArguments(ToolArguments):
    """Arguments of ``capture``."""

    links: Annotated[list[PlaceName], Field(min_length=1, max_length=_MOST_NAMES)]
    """leaf1:swp1; leaf1--spine1 (all links between two nodes); leaf1; leaf (a tier); h1..h5 (all paths)."""
    filter: FreeText = ""
    """Only matching packets, for example: host h1 and (cnp or nak). An empty filter matches all packets."""
    seconds: Annotated[float, Field(gt=0, le=_LONGEST_CAPTURE)] = 5.0
    """Stop after this time."""
    packets: Annotated[int, Field(ge=1, le=_MOST_PACKETS)] = 50
    """Stop after this many packets, of all links."""

    def options(self) -> list[str]:
        """Return the limits and the filter."""
        limits = [f"--seconds={self.seconds:g}", f"--packets={self.packets}", f"--snaplen={_SNAPLEN}"]
        return [*limits, *([f"--filter={self.filter}"] if self.filter else [])]

    def words(self) -> list[str]:
        """Return the links."""
        return list(self.links)

    def patience(self) -> float:
        """Return the time of the capture."""
        return self.seconds


class ShowArguments(ToolArguments):
    """Arguments of ``show``."""

    model_config = ConfigDict(strict=False)  # the name of an enumeration's member is text in JSON

    node: NodeName
    """The node."""
    what: NodeState
    """The state to read."""

    def words(self) -> list[str]:
        """Return the node and a command that only reads."""
        return [self.node, *_SHOWN[self.what]]


class RoutingArguments(ToolArguments):
    """Arguments of ``routing``."""

    node: NodeName
    """A switch."""
    command: Annotated[str, Field(pattern=r"^show [A-Za-z0-9 ._:/-]+$", max_length=200)]
    """A show command of FRR, for example: show bgp summary."""

    def options(self) -> list[str]:
        """Return the command."""
        return [f"--command={self.command}"]

    def words(self) -> list[str]:
        """Return the node."""
        return [self.node]


class PingArguments(ToolArguments):
    """Arguments of ``ping``."""

    node: NodeName
    """The node that sends."""
    destination: Annotated[str, Field(pattern=r"^[A-Za-z0-9:][\w.:-]*$", max_length=_LONGEST_TEXT)]
    """A node or an address."""
    count: Annotated[int, Field(ge=1, le=_MOST_PINGS)] = 3
    """Number of echo requests, 0.2 s apart."""
    size: Annotated[int, Field(ge=0, le=9000)] = 56
    """Bytes of payload. Packets are not fragmented."""

    def words(self) -> list[str]:
        """Return the command."""
        shape = [f"-c{self.count}", "-i0.2", "-W1", f"-s{self.size}", "-Mdo"]
        return [self.node, "ping", *shape, "--", self.destination]


class ExecArguments(ToolArguments):
    """Arguments of ``exec``."""

    node: NodeName
    """The node."""
    command: Annotated[
        list[Annotated[str, Field(max_length=_LONGEST_TEXT)]], Field(min_length=1, max_length=_MOST_NAMES)
    ]
    """The command and its arguments. There is no shell. A command is ended after two minutes."""

    def words(self) -> list[str]:
        """Return the node and the command."""
        return [self.node, *self.command]


class CheckArguments(ToolArguments):
    """Arguments of ``challenge_check``."""

    cause: NodeName
    """The cause, one of the names of challenge_causes, or capacity: a full link that is shared fairly."""
    place: PlaceName
    """Its location: leaf1, leaf1:swp1 or leaf1--spine1."""

    def options(self) -> list[str]:
        """Return the answer."""
        return [f"--cause={self.cause}", f"--where={self.place}"]


class InjectArguments(ToolArguments):
    """Arguments of ``fault_inject``."""

    kind: NodeName
    """A kind of fault, one of fault_kinds."""
    place: PlaceName
    """Its location: leaf1:swp1, leaf1--spine1, h1."""
    parameters: Annotated[dict[NodeName, FreeText], Field(max_length=_MOST_NAMES)] = {}
    """Parameters of the fault by name."""

    def words(self) -> list[str]:
        """Return the fault and its parameters."""
        return [self.kind, self.place, *(f"{name}={value}" for name, value in self.parameters.items())]


class HealArguments(ToolArguments):
    """Arguments of ``fault_heal``."""

    number: Annotated[int, Field(ge=1)]
    """The number that faults lists."""

    def words(self) -> list[str]:
        """Return the number."""
        return [str(self.number)]
