"""Output of ``ethtool -S``, ``mlnx_qos`` and ``show_gids`` for an emulated NIC, in the format of the real tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.dataplane.counter_names import COUNTERS, CounterScope
from lab.model.qos.port import CLASSES, Trust, members
from lab.units import format_rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lab.model.qos.port import NodeQos, PortQos
    from lab.rdma.sysfs import Gid

_PER_LINE: Final = 8
"""Code points on a line of ``mlnx_qos``."""


def statistics(counted: Mapping[str, int]) -> Iterator[str]:
    """``ethtool -S``: the counters that mlx5 has, with mlx5's names."""
    yield "NIC statistics (emulated):"
    for name, value in mlx5_counters(counted).items():
        yield f"     {name}: {value}"


def mlx5_counters(counted: Mapping[str, int]) -> dict[str, int]:
    """Return the values of rocelab's counters by their names in mlx5."""
    found: dict[str, int] = {}
    for counter in COUNTERS:
        if counter.mlx5:
            for number in range(1) if counter.scope is CounterScope.PORT else range(CLASSES):
                name = counter.mlx5.replace("prion", f"prio{number}")
                found[name] = found.get(name, 0) + counted[counter.name_of(number)]
    return found


def qos_settings(node: NodeQos, port: PortQos) -> Iterator[str]:
    """``mlnx_qos -i INTERFACE``: trust, maps, buffers, PFC and scheduling."""
    yield "DCBX mode: OS controlled (emulated)"
    yield f"Priority trust state: {'dscp' if port.trust is Trust.DSCP else 'pcp'}"
    if port.trust is Trust.DSCP:
        yield "dscp2prio mapping:"
        for priority in range(CLASSES):
            points = [f"{dscp:02d}" for dscp, each in enumerate(port.dscp_to_priority) if each == priority]
            for start in range(0, len(points), _PER_LINE):
                yield f"\tprio:{priority} dscp:{','.join(reversed(points[start : start + _PER_LINE]))},"
    sizes = (group.headroom + group.alone(node.shared) for group in port.groups)
    yield f"Receive buffer size (bytes): {''.join(f'{size},' for size in sizes)}"
    yield "PFC configuration:"
    yield f"\tpriority    {_row(range(CLASSES))}"
    yield f"\tenabled     {_row(int(each in members(port.pfc.priorities)) for each in range(CLASSES))}"
    yield f"\tbuffer      {_row(port.priority_to_group)}"
    for number, queue in enumerate(port.queues):
        share = "tsa: strict" if queue.strict else f"tsa: ets, bw: {_share(port, number)}%"
        yield f"tc: {number} ratelimit: {format_rate(port.rate)}, {share}"
        for priority in range(CLASSES):
            if port.priority_to_queue[priority] == number:
                yield f"\t priority:  {priority}"


def _row(values: Iterable[int]) -> str:
    return "   ".join(map(str, values))


def _share(port: PortQos, number: int) -> int:
    """Return the percentage of a queue's DWRR weight in the sum of all weights."""
    weights = [queue.weight or 0 for queue in port.queues]
    return round(100 * weights[number] / sum(weights))


def gid_table(devices: Mapping[str, Iterable[Gid]]) -> Iterator[str]:
    """``show_gids``: the GIDs of RDMA devices."""
    yield "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV"
    yield "---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---"
    count = 0
    for device, gids in devices.items():
        for gid in gids:
            count += 1
            text, ipv4 = _gid(gid)
            version = "v2" if gid.kind == "RoCE v2" else "v1"
            yield f"{device}\t1\t{gid.index}\t{text}\t{ipv4:14}\t{version}\t{gid.netdev}"
    yield f"n_gids_found={count}"


def _gid(gid: Gid) -> tuple[str, str]:
    if gid.address.version == 4:
        return f"0000:0000:0000:0000:0000:ffff:{gid.address.packed.hex(':', 2)}", str(gid.address)
    return gid.address.exploded, ""
