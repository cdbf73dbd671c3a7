"""Overlay state for scenarios: MACs behind tunnels, next hops, routes and FRR output."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from lab.scenario.phase_measures import ACTS
from lab.scenario.traffic.workload import commands, probe, said

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from lab.scenario.stage import Stage
    from lab.telemetry.read.recording import Recording

_HOPS: Final = ("ip", "-json", "nexthop", "show")


def _words(vni: int) -> tuple[str, ...]:
    return "bridge", "-json", "fdb", "show", "dev", f"vni{vni}"


def _behind(shown: str, vtep: str) -> set[str]:
    entries: list[dict[str, Any]] = json.loads(shown or "[]")
    return {str(entry["mac"]) for entry in entries if entry.get("dst") == vtep}


def tunnel_has(stage: Stage, leaf: str, vni: int, vtep: str, macs: AbstractSet[str]) -> bool:
    """Return whether a leaf has all these MACs behind a VTEP now. Not recorded."""
    return macs <= _behind(stage.fabric.namespace(leaf).run(_words(vni)).stdout, vtep)


def show_fdb(stage: Stage, leaf: str, vni: int) -> None:
    """Record the FDB of a leaf's tunnel of a VNI."""
    stage.run(leaf, *_words(vni))


def macs_behind(rec: Recording, phase: str, vtep: str) -> set[str]:
    """Return the MACs behind a VTEP from a phase's ``show_fdb``. Raises UsageError if there was none."""
    return _behind(said(rec, phase, "bridge"), vtep)


def _ways(database: str, hops: str, mac: str) -> set[str]:
    known = {hop["id"]: hop for hop in json.loads(hops or "[]")}
    groups = {entry["nhid"] for entry in json.loads(database or "[]") if entry["mac"] == mac and "nhid" in entry}
    members = [member["id"] for group in groups for member in known[group].get("group", ({"id": group},))]
    return {str(known[member]["gateway"]) for member in members}


def ways_to(stage: Stage, leaf: str, vni: int, mac: str) -> set[str]:
    """Return the VTEPs by which a leaf now sends to a MAC of an Ethernet segment. Not recorded."""
    database, hops = (stage.fabric.namespace(leaf).run(words).stdout for words in (_words(vni), _HOPS))
    return _ways(database, hops, mac)


def show_ways(stage: Stage, leaf: str, vni: int) -> None:
    """Record the VTEPs by which a leaf sends to MACs of Ethernet segments: next-hop groups."""
    show_fdb(stage, leaf, vni)
    stage.run(leaf, *_HOPS)


def ways_shown(rec: Recording, phase: str, mac: str) -> set[str]:
    """Return the VTEPs of a MAC from a phase's ``show_ways``. Raises UsageError if there was none."""
    return _ways(said(rec, phase, "bridge"), said(rec, phase, "ip"), mac)


def _paths(shown: str) -> int:
    return sum(len(route.get("nexthops", [route])) for route in json.loads(shown.strip() or "[]"))


def paths_to(stage: Stage, switch: str, address: str) -> int:
    """Return how many equal-cost paths a switch has to an address now. Not recorded."""
    return _paths(stage.fabric.namespace(switch).run(_route(address)).stdout)


def show_paths(stage: Stage, switch: str, address: str) -> None:
    """Record the route of a switch to an address."""
    stage.run(switch, *_route(address))


def paths_shown(rec: Recording, phase: str) -> int:
    """Return the number of equal-cost paths from a phase's ``show_paths``. Raises UsageError if there was none."""
    return _paths(said(rec, phase, "ip"))


def _route(address: str) -> tuple[str, ...]:
    return "ip", "-json", "route", "show", address


def ping_each(stage: Stage, src: str, *hosts: str) -> None:
    """Ping each of these hosts for a second: for repetition while a challenge waits."""
    for host in hosts:
        probe(stage, src, host, count=5)


def reaches(stage: Stage, host: str, address: str) -> bool:
    """Return whether an address answers a host's ping now. Not recorded."""
    words = ("ping", "-n", "-q", "-c1", "-W1", address)
    return stage.fabric.namespace(host).run(words, check=False).returncode == 0


def hosts_reached(rec: Recording, host: str) -> list[list[bool]]:
    """Return, by act, whether each ping of a host was answered. Raises UsageError if an act has no ping."""
    return [[each.exit_code == 0 for each in commands(rec, act, "ping") if each.node == host] for act in ACTS]


def all_reached(rec: Recording, host: str) -> list[bool]:
    """Return, by act, whether all pings of a host were answered; False if it sent none."""
    return [bool(answers) and all(answers) for answers in hosts_reached(rec, host)]


def until_reached(stage: Stage, host: str, *addresses: str) -> None:
    """Wait until all addresses answer a host. After a path recovers, ARP entries may be incomplete for a second."""
    what = f"{host} to reach {' and '.join(addresses)}"
    stage.until(lambda: all(reaches(stage, host, each) for each in addresses), what)


def frr(stage: Stage, switch: str, *commands: str) -> None:
    """Record the output of vtysh commands."""
    stage.run(switch, "vtysh", *stage.fabric.router(switch).vtysh(*commands)[1:])
