"""The catalogue: all kinds of faults by name, in the order of lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lab.faults.kinds.cable import LinkDelay, LinkJitter, LinkReorder
from lab.faults.kinds.host import (
    DefaultRouteLost,
    GidMoved,
    ProcessKilled,
    ProcessStopped,
    RdmaDeviceLost,
    StaleNeighbour,
    WrongAddress,
    WrongGateway,
)
from lab.faults.kinds.job_faults import SlowCompute
from lab.faults.kinds.link_faults import LinkDown, LinkMtu, LinkRate, PowerLost
from lab.faults.kinds.nic_faults import (
    BroadcastStorm,
    GlobalPause,
    MalformedPfc,
    PausesIgnored,
    PauseStorm,
    SlowReceiver,
)
from lab.faults.kinds.node_faults import CpuStarved, UdpFiltered
from lab.faults.kinds.overlay_faults import GatewayMac, NicMac, TunnelVni
from lab.faults.kinds.packet_faults import DscpRewritten, LinkCorrupt, LinkCut, LinkDuplicate, LinkLoss, NotEct
from lab.faults.kinds.port_faults import PortConfig
from lab.faults.kinds.routing import DaemonKilled, DaemonStopped, EcmpHash, FrrConfig, OnePath
from lab.faults.kinds.static_route import RoutingLoop, StaticRoute
from lab.faults.kinds.swapped_cables import CableSwapped
from lab.faults.kinds.tunnel import TunnelDscp

if TYPE_CHECKING:
    from lab.faults.fault import Fault

_ALL: Final[tuple[type[Fault[Any]], ...]] = (
    LinkDown, LinkCut, LinkLoss, LinkCorrupt, LinkDuplicate, LinkDelay, LinkJitter, LinkReorder,
    LinkMtu, LinkRate, CableSwapped,
    PortConfig,
    PauseStorm, SlowReceiver, PausesIgnored, GlobalPause, MalformedPfc, BroadcastStorm,
    NotEct, DscpRewritten,
    PowerLost, DaemonKilled, DaemonStopped, FrrConfig, OnePath, EcmpHash, StaticRoute, RoutingLoop, TunnelDscp,
    TunnelVni, GatewayMac, CpuStarved,
    NicMac, WrongAddress, WrongGateway, DefaultRouteLost, UdpFiltered, GidMoved, RdmaDeviceLost,
    ProcessStopped, ProcessKilled, StaleNeighbour, SlowCompute,
)  # fmt: skip

KINDS: Final = {kind.name: kind for kind in _ALL}
