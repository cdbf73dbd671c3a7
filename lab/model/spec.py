"""The models of a topology file: every key with its meaning, default and bounds.

Editors complete from the JSON Schema of these models, so the description of each field is also its manual. ``load``
turns a spec into a resolved ``topology.Topology``. A new section of the file is a new field here.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from lab.model.overlay.overlay_spec import OverlaySpec
from lab.model.qos.qos_spec import Qos
from lab.model.topology import Addressing, HashPolicy, HostFamily, Role, SeedPolicy, Underlay
from lab.model.values.fields import (
    SECTION,
    Delay,
    End,
    FabricName,
    FrrLines,
    Interval,
    LinkName,
    Moment,
    Mtu,
    NodeName,
    Pool4,
    Pool6,
    Rate,
    Scalar,
    Span,
)

MAX_POD: Final = 999
"""The highest pod number; the AS numbers of spines leave room for so many."""
MAX_NODES: Final = 2000
"""The most nodes of one fabric: one kernel can hold as many, with a router in each."""
MAX_LINKS: Final = 20_000
"""The most links of one fabric."""

_POOLS: Final = Addressing()
_NAMED_ONLY: Final = Field(json_schema_extra={"additionalProperties": False})


class _Section(BaseModel):
    """Base of all mappings in the file."""

    model_config = SECTION


class DefaultsSpec(_Section):
    """Defaults of all links."""

    rate: Rate = 10**9
    """Bandwidth each way, like 1Gbit. Links are shaped to it, so that thresholds in bytes keep their meaning."""
    mtu: Mtu = 9000
    """Largest IP packet in bytes. RDMA with an MTU of 4096 needs 4200 or more."""
    delay: Delay = 0.0
    """Added one-way latency, like 5us. It needs the emulated port or netem."""


class LinkSettings(_Section):
    """Settings of one link that may differ from the defaults."""

    rate: Rate | None = None
    """Bandwidth each way, like 100Mbit; otherwise the default."""
    mtu: Mtu | None = None
    """Largest IP packet in bytes; otherwise the default."""
    delay: Delay | None = None
    """Added one-way latency, like 5us; otherwise the default."""


class LinkSpec(LinkSettings):
    """A cable between neighbouring tiers: host and leaf, leaf and spine, spine and super-spine."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"ends": ["h1", "leaf1"]}]})

    ends: Annotated[list[End], Field(min_length=2, max_length=2, examples=[["h1", "leaf1"]])]
    """The two ends, each a node (leaf1: the next free interface) or an interface (leaf1:swp3)."""


class NodeSpec(_Section):
    """A switch or a host."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"role": "leaf"}]})

    role: Annotated[Role, Field(strict=False)]
    """Its tier: superspine, spine, leaf or host."""
    pod: Annotated[int, Field(ge=1, le=MAX_POD)] | None = None
    """The pod of the node. Needed with super-spines, because the spines of one pod share an AS number."""
    rdma: bool | None = None
    """Hosts only: whether every NIC gets an RDMA device (rxe); by default true."""


class BfdSpec(_Section):
    """Fast detection of a dead link (RFC 5880), on every link between switches."""

    enabled: bool | None = None
    """Whether BFD runs; by default yes, except in an overlay with ``flooding: multicast`` over eBGP. There, FRR 10.3
    does not bring a session back that BFD has ended: both ends reject each other's connections.
    """
    interval: Interval = 1.0
    """Time between two packets, each way. Detection takes interval x multiplier."""
    multiplier: Annotated[int, Field(ge=2, le=255)] = 3
    """Packets missed before the session goes down."""


class RoutingSpec(_Section):
    """The underlay: its protocol and its ECMP."""

    underlay: Annotated[Underlay, Field(strict=False)] | None = None
    """Routing protocol between switches, on unnumbered links. ebgp (default): a session on each link, an AS for each
    leaf. ospf: one area, OSPFv2 and OSPFv3. isis: level 2, for IPv4 and IPv6. With an overlay, ospf and isis need
    design: ibgp.
    """
    hash_policy: Annotated[HashPolicy, Field(strict=False)] = HashPolicy.L4
    """Fields that ECMP hashes. l3: addresses only (all QPs of two hosts share a path). l4: also the UDP ports."""
    hash_seed: Annotated[SeedPolicy, Field(strict=False)] = SeedPolicy.PER_SWITCH
    """per-switch, or shared: every switch hashes alike, which polarises a fabric of three tiers."""
    host_family: Annotated[HostFamily, Field(strict=False)] = HostFamily.IPV4
    """Addresses of links to hosts: ipv4 (a /31 each) or ipv6 (a /64 each)."""
    bfd: BfdSpec = BfdSpec()
    """BFD on links between switches."""


class AddressingSpec(_Section):
    """The address pools. They must be disjoint and large enough; the defaults always are."""

    leaf_loopbacks: Pool4 = _POOLS.leaf_loopbacks
    """Loopback of leaf n is the n-th address."""
    spine_loopbacks: Pool4 = _POOLS.spine_loopbacks
    """Loopback of spine n is the n-th address."""
    superspine_loopbacks: Pool4 = _POOLS.superspine_loopbacks
    """Loopback of super-spine n is the n-th address."""
    vteps: Pool4 = _POOLS.vteps
    """Tunnel end point of leaf n is the n-th address."""
    host_links: Pool4 = _POOLS.host_links
    """A /31 for each link to a host, the leaf's end first."""
    loopbacks6: Pool6 = _POOLS.loopbacks6
    """A /64 for each tier: leaves ::1:0:0:0:n, spines ::2:0:0:0:n, super-spines ::3:0:0:0:n."""
    host_links6: Pool6 = _POOLS.host_links6
    """A /64 for each link to a host, the leaf ::1 and the host ::2."""


class FaultSpec(_Section):
    """A fault that `up` injects, like `rocelab fault inject`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"kind": "link-down", "place": "leaf1--spine1"}]})

    kind: Annotated[str, Field(max_length=64)]
    """The fault kind, from `rocelab fault ls --kinds`."""
    place: Annotated[str, Field(max_length=1000)]
    """The place, as `rocelab fault show KIND` describes it: leaf1:swp1, leaf1--spine1, h1, leaf1, ..."""
    parameters: dict[str, Scalar] = {}
    """Parameters of the fault, from `rocelab fault show KIND`."""
    after: Moment = 0.0
    """Time between convergence and the fault."""
    lasting: Annotated[Span | None, Field(alias="for")] = None
    """Duration of the fault; by default until it is healed."""
    every: Span | None = None
    """Period of a fault that recurs; needs `for`."""
    times: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Number of occurrences; by default unlimited."""
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = None
    """With `every`: occurrences are at random times with that mean, reproducible with the same seed."""


class _Generated(_Section):
    host_rate: Rate | None = None
    """Rate of links to hosts; otherwise the default."""
    fabric_rate: Rate | None = None
    """Rate of links between switches; otherwise the default."""
    fabric_mtu: Mtu | None = None
    """MTU of links between switches; otherwise the default. An overlay needs 50 bytes more than the MTU of its
    hosts.
    """
    rdma: bool = True
    """Whether every host NIC gets an RDMA device (rxe)."""


class LeafSpineSpec(_Generated):
    """Two tiers: every leaf is linked to every spine."""

    shape: Literal["leaf-spine"]
    spines: Annotated[int, Field(ge=1, le=64)]
    """Spines, each linked to every leaf."""
    leaves: Annotated[int, Field(ge=1, le=512)]
    """Leaves, each linked to every spine."""
    hosts_per_leaf: Annotated[int, Field(ge=0, le=128)] = 2
    """Hosts on each leaf, one NIC each."""
    uplinks_per_pair: Annotated[int, Field(ge=1, le=16)] = 1
    """Parallel links between each leaf and each spine."""


class ClosSpec(_Generated):
    """Three tiers: pods of leaves and spines, joined by super-spines."""

    shape: Literal["clos"]
    pods: Annotated[int, Field(ge=1, le=128)]
    """Pods, each a leaf-spine fabric of its own."""
    superspines: Annotated[int, Field(ge=1, le=64)]
    """Super-spines, each linked to every spine of every pod."""
    spines_per_pod: Annotated[int, Field(ge=1, le=64)]
    """Spines of each pod, each linked to every leaf of its pod."""
    leaves_per_pod: Annotated[int, Field(ge=1, le=512)]
    """Leaves of each pod."""
    hosts_per_leaf: Annotated[int, Field(ge=0, le=128)] = 2
    """Hosts on each leaf, one NIC each."""
    uplinks_per_pair: Annotated[int, Field(ge=1, le=16)] = 1
    """Parallel links between each leaf and each of its spines."""
    superspine_rate: Rate | None = None
    """Rate of links between spines and super-spines; otherwise fabric_rate."""


class RailOptimisedSpec(_Generated):
    """GPU hosts with one NIC per rail: NIC r of every host of a unit is on the unit's leaf for rail r."""

    shape: Literal["rail-optimised"]
    rails: Annotated[int, Field(ge=1, le=16)]
    """NICs of each host (one per GPU), and leaves of each unit (one per rail)."""
    hosts_per_unit: Annotated[int, Field(ge=1, le=256)]
    """Hosts that share one set of rail leaves."""
    units: Annotated[int, Field(ge=1, le=128)] = 1
    """Scalable units. The spines join them, and the rails of one unit."""
    spines: Annotated[int, Field(ge=1, le=64)]
    """Spines, each linked to every leaf."""
    uplinks_per_pair: Annotated[int, Field(ge=1, le=16)] = 1
    """Parallel links between each leaf and each spine."""


SHAPES: Final[dict[str, type[_Generated]]] = {
    "leaf-spine": LeafSpineSpec,
    "clos": ClosSpec,
    "rail-optimised": RailOptimisedSpec,
}
"""The models of generated fabrics by shape."""

Generate: TypeAlias = Annotated[LeafSpineSpec | ClosSpec | RailOptimisedSpec, Field(discriminator="shape")]


class TopologySpec(_Section):
    """A rocelab fabric: either `generate`, or `nodes` and `links`."""

    name: FabricName
    """Name of the fabric; its namespaces are named rl-<fabric>.<node>."""
    description: Annotated[str, Field(max_length=2000)] = ""
    """One or two sentences for the reader."""
    defaults: DefaultsSpec = DefaultsSpec()
    """Settings of links that do not set their own."""
    routing: RoutingSpec = RoutingSpec()
    """The underlay."""
    addressing: AddressingSpec = AddressingSpec()
    """The address pools."""
    qos: Qos = None
    """A preset like lab, or profiles with their places. Without it links are shaped, and lossy."""
    overlay: OverlaySpec | None = None
    """Tenants and their networks, with BGP EVPN and VXLAN. Without it hosts are in the underlay."""
    frr: Annotated[dict[NodeName, FrrLines], _NAMED_ONLY] = {}
    """Additional FRR configuration by switch, as typed in `vtysh` after `configure terminal`."""
    faults: Annotated[list[FaultSpec], Field(max_length=1000)] = []
    """Faults that are active from the start or scheduled; `rocelab fault heal` heals them."""
    generate: Generate | None = None
    """A regular fabric from a few counts."""
    overrides: Annotated[dict[LinkName, LinkSettings], _NAMED_ONLY] = {}
    """Generated links that differ: leaf2--spine1 (all between the two) or leaf2:swp1--spine1:swp2 (that one)."""
    nodes: Annotated[dict[NodeName, NodeSpec], _NAMED_ONLY] = {}
    """Every node by its name, when not generated."""
    links: Annotated[list[LinkSpec], Field(max_length=MAX_LINKS)] = []
    """Every cable, when not generated. Interfaces without a number get one in this order."""


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a topology file, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **TopologySpec.model_json_schema()}
