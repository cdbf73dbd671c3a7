"""Rates of the QPs that congestion control limits: a row for each whose rate, alpha, CNPs or RTT have changed.

The limiters are read from the kernel's memory ten times a second. A QP that recovers has a last row, with ``limited``
0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lab.dataplane.limited_qps import limited_qps
from lab.telemetry.store.row_tables import RowSchema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.dataplane.limited_qps import LimitedQp
    from lab.dataplane.numbering import NodePorts
    from lab.dataplane.port_maps import PortMaps

INTERVAL: Final = 10**8
"""The interval between two readings, in ns."""
SCHEMA: Final = RowSchema(
    "qp_rates",
    3,
    (
        ("node", "S64"), ("interface", "S16"), ("qpn", "u4"),
        ("peer", "S40"), ("remote", "u4"), ("limited", "u1"), ("rate", "u8"), ("target", "u8"), ("alpha", "f8"),
        ("cnps", "u8"), ("rtt", "u8"), ("waiting", "u4"),
    ),
)  # fmt: skip
"""``remote`` is the peer's QPN; rates are in bit/s, RTTs in ns. alpha is DCQCN's, rtt TIMELY's; 0 with another."""
_LIMITED: Final = "limited"


class QpRates:
    """Reads the limiters of hosts' NICs."""

    def __init__(self, maps: PortMaps, hosts: Sequence[NodePorts], now: int) -> None:
        self._maps = maps
        self._hosts = hosts
        self._next_look = now
        self._known: dict[tuple[str, str, int], dict[str, Any]] = {}

    def look(self, now: int) -> Iterator[dict[str, Any]]:
        """Yield a row of ``SCHEMA`` for each QP that has changed since the last reading, if one is due."""
        if now < self._next_look:
            return
        self._next_look = now + INTERVAL
        found = {(qp.node, qp.interface, qp.qpn): _row(qp) for host in self._hosts for qp in self._limited(host)}
        for key in [*found, *(self._known.keys() - found.keys())]:
            row = found.get(key) or {**self._known[key], _LIMITED: 0, "waiting": 0}
            if row != self._known.get(key):
                yield row
        self._known = found

    def _limited(self, host: NodePorts) -> Iterator[LimitedQp]:
        """Yield the limited QPs of a host; its counters show whether there are any."""
        ports = slice(host.first + 1, host.first + 1 + host.nics)
        if self._maps.ports["state"]["limited"][ports].any():
            yield from limited_qps(self._maps, host)


def _row(qp: LimitedQp) -> dict[str, Any]:
    return {
        "node": qp.node,
        "interface": qp.interface,
        "qpn": qp.qpn,
        "peer": str(qp.peer),
        "remote": qp.peer_qpn,
        _LIMITED: 1,
        "rate": qp.rate,
        "target": qp.target,
        "alpha": qp.alpha or 0.0,
        "cnps": qp.cnps,
        "rtt": round((qp.rtt or 0) * 10**9),
        "waiting": qp.waiting,
    }
