"""What is answered about fabrics: their files, nodes, links, sessions, addresses and paths."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from lab.cli.answers.base import Answer

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


class Session(Answer):
    """A BGP session of ``rocelab status``."""

    interface: str
    description: str
    """What it leads to, as leaf1:swp1."""
    state: str
    """As RFC 4271 section 8.2.2 has it: Established."""
    prefixes: int
    """Received, of all address families."""
    uptime: float
    """Seconds since it was established."""


class Interface(Answer):
    """An interface of ``rocelab status``; counters since it was made."""

    name: str
    up: bool
    mtu: int
    rx_bytes: int
    rx_packets: int
    tx_bytes: int
    tx_packets: int
    drops: int
    """Packets, of both directions, those of its queue included."""


class NodeStatus(Answer):
    """A node of ``rocelab status``."""

    name: str
    role: Role
    healthy: bool
    daemons: dict[str, bool]
    """Whether each lives."""
    sessions: list[Session]
    bfd: dict[str, Literal["up", "starting", "down"]]
    """By interface."""
    interfaces: dict[str, Interface]
    rdma: dict[str, str]
    """State of each RDMA device: ACTIVE."""
    complaint: str
    """Why its router gave no answer, or which interfaces are gone."""


class Status(Answer):
    """``rocelab status``."""

    fabric: str
    healthy: bool
    nodes: list[NodeStatus]


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


class Tier(Answer):
    """All nodes of one role, of ``rocelab topology show``."""

    role: Role
    nodes: int
    rate_down: int
    """Of all their links down: bit/s."""
    rate_up: int
    """Of all their links up: bit/s."""
    oversubscription: tuple[float, float] | None
    """The least and the largest of them; None where no node has links both up and down."""


class LinkClass(Answer):
    """Links that are alike, of ``rocelab topology show``."""

    lower: Role
    upper: Role
    rate: int
    """bit/s."""
    mtu: int
    delay: float
    """Seconds, one way."""
    links: int


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
    """Of a switch."""
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


class Advice(Answer):
    """What is legal but unwise, of ``rocelab topology show``."""

    ports: list[str]
    field: str
    """Of their profiles, as ecn.3.kmax."""
    message: str
    remedy: str


class TopologyShow(Answer):
    """``rocelab topology show``."""

    name: str
    description: str
    nodes: int
    links: int
    pods: int
    hosts: int
    rdma_nics: int
    tiers: list[Tier]
    link_classes: list[LinkClass]
    oversubscription: dict[str, float]
    """By switch: what its links down could bring, over what its links up can carry."""
    bisection_bandwidth: int
    """bit/s from the first half of the hosts to the second."""
    host_bandwidth: int
    """bit/s that all hosts can send."""
    diameter: int
    """Links between the two hosts farthest apart."""
    node_list: list[PlannedNode]
    link_list: list[PlannedLink]
    advice: list[Advice]
