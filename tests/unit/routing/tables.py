"""Tables that no kernel has, for those who follow packets by them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from lab.model.addressing import plan_addresses
from lab.model.overlay.plan import plan_overlay
from lab.model.qos.resolve import resolve
from lab.routing.paths.traffic_end import stations_of
from lab.routing.paths.tunnel_path import TunnelWalker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.model.topology import Topology


def device(name: str, kind: str, **data: Any) -> dict[str, Any]:
    return {"ifname": name, "linkinfo": {"info_kind": kind, "info_data": data}}


def vxlan(vni: int, local: str, tos: str = "0x1") -> dict[str, Any]:
    return device(f"vni{vni}", "vxlan", id=vni, local=local, tos=tos, port_range={"low": 0, "high": 0})


def untagged(name: str) -> dict[str, Any]:
    return {"ifname": name, "vlans": [{"vlan": 10, "flags": ["PVID", "Egress Untagged"]}]}


def entry(mac: str, name: str, **more: Any) -> dict[str, Any]:
    return {"mac": mac, "ifname": name, "flags": [], "state": "", **more}


class Tables:
    """What each node answers, by the words of the question."""

    def __init__(self) -> None:
        self.said: dict[str, dict[str, list[dict[str, Any]]]] = {}

    def inside(self, node: str) -> Any:
        def run(argv: Sequence[str], **_: Any) -> Any:
            words = " ".join(argv)
            key = next(key for key in self.said[node] if f" {key} " in f"{words} ")
            return SimpleNamespace(stdout=json.dumps(self.said[node][key]), stderr="")

        return SimpleNamespace(run=run, name=node, inside=lambda work: work())


def walk(topology: Topology, tables: Tables, src: str, dst: str, sport: int | None = None) -> TunnelWalker:
    """Who follows packets between two interfaces."""
    plan, overlay = plan_addresses(topology), plan_overlay(topology)
    start, goal = (stations_of(host, plan[host], overlay)[name] for host, name in (src.split(":"), dst.split(":")))
    return TunnelWalker(topology, tables.inside, resolve(topology), start, goal, sport)
