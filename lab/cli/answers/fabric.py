"""What is answered about fabrics: their files, nodes, links, sessions, addresses and paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from pydantic import Field

from lab.backends import health, overlay_health
from lab.cli.answers.base import Answer, Models
from lab.kernel.netlink import bridges, interfaces
from lab.model import topology
from lab.model.output import fabric_summary
from lab.routing import evpn, show
from lab.routing.paths import tunnel_path
from lab.routing.wait import adjacency

if TYPE_CHECKING:  # a model has the attributes of the dataclass that it is made of
    from lab.backends.health import NodeHealth
    from lab.backends.overlay_health import OverlayHealth
    from lab.model.output.fabric_summary import FabricSummary
    from lab.routing.paths.tunnel_path import TunnelHop
else:
    _OTHERWISE = {health.NodeHealth: {"healthy": bool}, tunnel_path.TunnelHop: {"end": str}}
    _MODELS = Models((interfaces, bridges, show, evpn, topology, adjacency), _OTHERWISE)
    TunnelHop = _MODELS.of(tunnel_path.TunnelHop)
    NodeHealth, FabricSummary = _MODELS.of(health.NodeHealth), _MODELS.of(fabric_summary.FabricSummary)
    OverlayHealth = _MODELS.of(overlay_health.OverlayHealth)

Role: TypeAlias = Literal["superspine", "spine", "leaf", "host"]


class ListedFabric(Answer):
    """A fabric of ``rocelab ls``."""

    fabric: str
    state: Literal["up", "changing", "in pieces"]
    nodes: int
    place: Literal["here", "VM"]


class Up(Answer):
    """``rocelab up``."""

    fabric: str
    nodes: int
    seconds: dict[str, float]
    """How long each stage took."""
    restored: bool
    """The VM continued from a checkpoint of it."""


class Adopted(Answer):
    """``rocelab adopt``."""

    fabric: str
    nodes: int
    links: int
    left_out: list[str]
    """What of the lab is not in the fabric, and why."""


class SpanningTreeAnswer(Answer):
    """The tree of a fabric of plain VLANs; the ports are each node's."""

    root: str
    """The switch that all take for the root; "" where they do not agree."""
    links: int
    """Between switches."""
    blocked: list[str]
    """Those that are whole and carry nothing."""
    gaps: list[str]
    """Why it is no tree, or not yet."""


class Status(Answer):
    """``rocelab status``."""

    fabric: str
    healthy: bool
    nodes: list[NodeHealth]
    tree: SpanningTreeAnswer | None = None
    """Of plain VLANs alone."""


class StatusEvpn(OverlayHealth):
    """``rocelab status --evpn``."""

    fabric: str
    healthy: bool


class InspectedInterface(Answer):
    """An interface of ``rocelab inspect``."""

    name: str
    mac: str
    address: str | None
    """With its prefix length; None on links between switches, which have none."""
    peer: str
    """node:interface at the other end."""


class InspectedNode(Answer):
    """A node of ``rocelab inspect``."""

    name: str
    role: Role
    asn: int | None = Field(alias="as")
    loopbacks: list[str]
    namespace: str
    get_in: str
    interfaces: list[InspectedInterface]


class Inspect(Answer):
    """``rocelab inspect``."""

    fabric: str
    nodes: list[InspectedNode]


class Paths(Answer):
    """``rocelab path``."""

    src: str
    dst: str
    sport: int | None
    paths: list[list[str]]
    """Of each path, the interfaces by which packets leave."""
    hops: list[list[TunnelHop]]
    """Of each path through a tunnel, what the tables of its nodes say; empty in the underlay."""


class PlannedInterface(Answer):
    """An interface of ``rocelab topology show``."""

    name: str
    mac: str
    address: str | None
    gateway: str | None


class PlannedNode(Answer):
    """A node of ``rocelab topology show``."""

    name: str
    role: Role
    pod: int
    """0 where there are none."""
    rdma: bool
    interfaces: list[PlannedInterface]
    asn: int | None = None
    """Of a switch that speaks BGP."""
    loopbacks: list[str] | None = None
    """Of a switch."""


class PlannedLink(Answer):
    """A link of ``rocelab topology show``."""

    name: str
    a: str
    """node:interface."""
    b: str
    rate: int
    """bit/s."""
    mtu: int
    delay: float
    """Seconds, one way."""


class AdviceAnswer(Answer):
    """What is legal but unwise, of ``rocelab topology show``."""

    ports: list[str]
    field: str
    """Of their profiles, as ecn.3.kmax."""
    message: str
    remedy: str


class TopologyShow(FabricSummary):
    """``rocelab topology show``."""

    underlay: Literal["ebgp", "ospf", "isis"]
    node_list: list[PlannedNode]
    link_list: list[PlannedLink]
    advice: list[AdviceAnswer]
