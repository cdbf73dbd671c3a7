"""The QPs that congestion control holds below the line rate, from the rate limiters of hosts' NICs.

A limiter catches up with the time when a packet of its QP leaves or a CNP arrives, so its rate is that of the last
packet or CNP. The port updates alpha only before a CNP or a cut: its present value is computed here. With DCQCN, a QP
that has recovered to the line rate has no limiter. With TIMELY, each QP has one from its first acknowledgement on.
A QP that has ended has none, even if its NIC has not yet given it back.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Any, Final

from lab.dataplane.port_layout import ALPHA_ONE, LIMITERS, RateAlgorithm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ipaddress import IPv4Address

    from lab.dataplane.numbering import NodePorts
    from lab.dataplane.port_maps import PortMaps

_NS: Final = 10**9
_RETENTION_UNIT: Final = 1024
"""The unit of the register ``dce_tcp_g``."""


@dataclass(frozen=True, slots=True)
class LimitedQp:
    """A QP at a NIC by which it may send, with the state of its rate limiter there."""

    node: str
    interface: str
    qpn: int
    address: IPv4Address | IPv6Address
    peer: IPv4Address | IPv6Address
    peer_qpn: int
    rate: int
    """In bit/s on the wire, with preamble, FCS and gap."""
    target: int
    """The rate to which it recovers, in bit/s. TIMELY has none but the rate."""
    alpha: float | None
    """DCQCN's estimate of congestion now, from 0 to 1; None with another algorithm."""
    rtt: float | None
    """The last RTT in seconds, from a packet's leaving the NIC to its ACK's arrival; None where none was measured."""
    rtts: int
    """RTTs measured since the QP is limited."""
    cnps: int
    packets: int
    """Sent since the QP is limited."""
    waiting: int
    """Packets that wait for their time."""


def limited_qps(maps: PortMaps, node: NodePorts) -> Iterator[LimitedQp]:
    """Yield the limited QPs of a host at each of its NICs; nothing for a switch."""
    for interface in node.interfaces[: node.nics]:
        limiters = _of_nic(maps, node.nic(interface))
        names = _of_nic(maps, node.first_nic)
        registers, now = maps.config[node.port(interface)]["cc"], time.monotonic_ns()
        limited = (limiters["started"] != 0) & ((names["closed"] != names["generation"]) | (names["closed"] == 0))
        for number in limited.nonzero()[0]:
            alpha = _alpha(limiters[number], registers, now)
            yield _limited(node.node, interface, limiters[number], names[number], alpha)


def _of_nic(maps: PortMaps, nic: int) -> Any:
    return maps.limiters[nic * LIMITERS : (nic + 1) * LIMITERS]


def _alpha(limiter: Any, cc: Any, now: int) -> float:
    """Return alpha after all updates up to ``now`` in ns, as ``rl_run_alpha`` of ``dcqcn.h`` makes them."""
    alpha, retained = int(limiter["alpha"]) / ALPHA_ONE, int(cc["dce_tcp_g"]) / _RETENTION_UNIT
    updates = max((now - int(limiter["alpha_at"])) // max(int(cc["dce_tcp_rtt"]), 1) + 1, 0)
    if updates and limiter["alpha_flag"]:
        alpha = retained * alpha + 1 - retained
        updates -= 1
    return int(alpha * retained**updates * ALPHA_ONE) / ALPHA_ONE


def _limited(node: str, interface: str, limiter: Any, named: Any, alpha: float) -> LimitedQp:
    """Combine the state of a limiter with the QP that has it, which is in the record of the host's first NIC."""
    return LimitedQp(
        node=node,
        interface=interface,
        qpn=int(named["qpn"]),
        address=gid_address(named["address"]),
        peer=gid_address(named["peer"]),
        peer_qpn=int(named["peer_qpn"]),
        rate=int(limiter["rate"]),
        target=int(limiter["target"]),
        alpha=alpha if limiter["algorithm"] == RateAlgorithm.DCQCN else None,
        rtt=int(limiter["rtt"]) / _NS if limiter["rtt"] else None,
        rtts=int(limiter["rtts"]),
        cnps=int(limiter["cnps"]),
        packets=int(limiter["packets"]),
        waiting=int(limiter["waiting"]),
    )


def gid_address(octets: Any) -> IPv4Address | IPv6Address:
    """Convert an address as a GID has it: an IPv4 address is mapped into IPv6."""
    found = IPv6Address(octets.tobytes())
    return ip_address(found.ipv4_mapped or found)
