"""Commands of rocelab that answer instead of tools that a node lacks: those of SONiC, of NVIDIA, and of lldpd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_LLDP: Final = "rocelab lldp"
_COUNTERS: Final = "rocelab counters"
_SETTINGS: Final = "rocelab qos show and rocelab qos set"
_DEVICES: Final = "rocelab rdma show, or show_gids in a host"
_BY_TOOL: Final = {
    "lldpcli": _LLDP,
    "lldpctl": _LLDP,
    "config": _SETTINGS,
    "counterpoll": _COUNTERS,
    "ecnconfig": _SETTINGS,
    "pfc": _SETTINGS,
    "pfcwd": _SETTINGS,
    "sonic-clear": "rocelab counters clear",
    "cma_roce_mode": _DEVICES,
    "ibdev2netdev": _DEVICES,
    "ibstat": _DEVICES,
    "ibstatus": _DEVICES,
    "ibv_devices": _DEVICES,
    "ibv_devinfo": _DEVICES,
    "mlnx_perf": "rocelab counters --watch",
    "mlxlink": "rocelab status",
    "birdc": "vtysh: the routers are FRR",
    "gobgp": "vtysh: the routers are FRR",
}
"""By the name of a tool."""
_BY_WORD: Final = {
    "buffer": _SETTINGS,
    "buffer_pool": _COUNTERS,
    "dropcounters": _COUNTERS,
    "ecn": _SETTINGS,
    "headroom-pool": _COUNTERS,
    "interfaces": "rocelab counters, rocelab status, and FRR's show interface",
    "lldp": _LLDP,
    "pfc": "show pfc counters, and rocelab qos show",
    "pfcwd": _SETTINGS,
    "priority-group": "show priority-group watermark shared, and rocelab counters",
    "queue": "show queue counters, and rocelab counters",
}
"""By the first word after ``show``: commands of SONiC that FRR does not have."""


def instead_of_tool(program: str) -> str:
    """Return which command answers instead of a program, by its path or name; empty if none is known."""
    return _BY_TOOL.get(program.rpartition("/")[2], "")


def instead_of_show(words: Sequence[str]) -> str:
    """Return which command answers instead of a ``show`` command of SONiC; empty for those that FRR may have."""
    return _BY_WORD.get(words[0], "") if words else ""
