"""The ``--json`` answers about fabrics: topologies, nodes, links, sessions, addresses and paths."""

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
    """Duration of each stage."""
    restored: bool
    """Whether the fabric was restored from a checkpoint of the VM."""


class Adopted(Answer):
    """``rocelab adopt``."""

    fabric: str
    nodes: int
    links: int
    left_out: list[str]
    """Parts of the lab that are not in the fabric, with the reason."""


class SpanningTreeAnswer(Answer):
    """The spanning tree of a fabric of plain VLANs; its ports are listed with each node."""

    root: str
    """The root bridge; empty if the switches do not agree on one."""
    links: int
    """Number of links between switches."""
    blocked: list[str]
    """Links that are up but blocked by the spanning tree."""
    gaps: list[str]
    """Reasons why the tree is incomplete or has not converged."""


class Status(Answer):
    """``rocelab status``."""

    fabric: str
    healthy: bool
    nodes: list[NodeHealth]
    tree: SpanningTreeAnswer | None = None
    """The spanning tree, for fabrics of plain VLANs only."""


class StatusEvpn(OverlayHealth):
    """``rocelab status --evpn``."""

    fabric: str
    healthy: bool


class InspectedInterface(Answer):
    """An interface of ``rocelab inspect``."""

    name: str
    mac: str
    address: str | None
    """Address with prefix length; null on links between switches, which have no addresses."""
    peer: str
    """The other end of the link, as node:interface."""


class InspectedNode(Answer):
    """A node of ``rocelab inspect``."""

    name: str
    role: Role
    asn: int | None = Field(alias="as")
    loopbacks: list[str]
    addresses: list[str]
    """All addresses of the node, without prefix lengths: also those of tagged networks, and of a tunnel end."""
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
    """The egress interfaces of each path."""
    hops: list[list[TunnelHop]]
    """For each path through a tunnel, the table entries of its nodes; empty in the underlay."""


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
    """0 in fabrics without pods."""
    rdma: bool
    interfaces: list[PlannedInterface]
    asn: int | None = None
    """AS number of a switch that runs BGP."""
    loopbacks: list[str] | None = None
    """Loopback addresses of a switch."""


class PlannedLink(Answer):
    """A link of ``rocelab topology show``."""

    name: str
    a: str
    """One end, as node:interface."""
    b: str
    rate: int
    """bit/s."""
    mtu: int
    delay: float
    """Seconds, one way."""


class AdviceAnswer(Answer):
    """A warning of ``rocelab topology show``: a setting that is valid but unwise."""

    ports: list[str]
    field: str
    """The setting in the ports' QoS, for example ecn.3.kmax."""
    message: str
    remedy: str


class TopologyShow(FabricSummary):
    """``rocelab topology show``."""

    underlay: Literal["ebgp", "ospf", "isis"]
    node_list: list[PlannedNode]
    link_list: list[PlannedLink]
    advice: list[AdviceAnswer]
