"""Facts of windows that never were, on the fabric incast: two spines, two leaves, four hosts at each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lab.diagnose.cause_engine import diagnose
from lab.diagnose.facts import Lane, PortFacts, StartedTransfer, WindowFacts
from lab.model.load import read_topology
from lab.model.qos.headroom import VIRTUAL_REACTION
from lab.model.qos.resolve import resolve
from lab.scenario import library

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.diagnose.diagnosis import Diagnosis
    from lab.model.qos.port import NodeQos, PortQos

TOPOLOGY = read_topology(library.OWN.parent / "topologies" / "incast.yaml")
QOS = resolve(TOPOLOGY, VIRTUAL_REACTION)
PEERS = {str(end): str(link.other(end)) for link in TOPOLOGY.links for end in link.ends}
HOSTS = [host.name for host in TOPOLOGY.hosts]
ADDRESSES = {host: f"10.0.0.{2 * number + 1}" for number, host in enumerate(HOSTS)}
SECONDS = 2.0
FULL = int(SECONDS * 98e6 / 8)
"""Bytes that a full link of 100 Mb/s sends."""
PACKETS = FULL // 4170

Lanes = dict[str, dict[str, Any]]
"""By port, and priority where that is not 3: ``leaf1:swp6``, ``spine1:swp2/0``."""


def facts(lanes: Lanes, **others: Any) -> WindowFacts:
    """What was counted of lanes, and on top of a healthy fabric what else is given."""
    made: dict[tuple[str, int], Lane] = {}
    ports = {name: PortFacts(name, peer, name.startswith("h")) for name, peer in PEERS.items()}
    for key, counts in lanes.items():
        port, _, number = key.partition("/")
        made[port, int(number or 3)] = Lane(port, int(number or 3), **counts)
    frames: Mapping[str, dict[str, Any]] = others.pop("frames", {})
    for port, counts in frames.items():
        ports[port] = replace(ports[port], **counts)
    known: dict[str, Any] = {
        "start": 0.0, "end": SECONDS, "devices": {}, "addresses": ADDRESSES, "routes": routes(), "qos": QOS,
    }  # fmt: skip
    given = {**known, **others}
    for of_nics in ("devices", "addresses", "readdressed"):
        given[of_nics] = {nic(name): value for name, value in given.get(of_nics, {}).items()}
    return WindowFacts(ports=ports, lanes=made, **given)


def nic(host: str) -> str:
    """The name of a host's NIC: each host of this fabric has one, and tests may leave it out."""
    return host if ":" in host else f"{host}:eth1"


def routes() -> dict[str, dict[str, tuple[str, ...]]]:
    """Both leaves use both spines."""
    found: dict[str, dict[str, tuple[str, ...]]] = {"spine1": {}, "spine2": {}, "leaf1": {}, "leaf2": {}}
    for number, host in enumerate(HOSTS):
        prefix = f"10.0.0.{2 * number}/31"
        own, other = ("leaf1", "leaf2") if number < 4 else ("leaf2", "leaf1")
        found[own][prefix] = (PEERS[f"{host}:eth1"].partition(":")[2],)
        found[other][prefix] = ("swp1", "swp2")
        for spine in ("spine1", "spine2"):
            found[spine][prefix] = ("swp1",) if own == "leaf1" else ("swp2",)
    return found


def writing(*pairs: str, qps: int = 8) -> tuple[StartedTransfer, ...]:
    """Transfers that a job's owner knows of, as ``h1:h4``."""
    ends = (pair.split(":") for pair in pairs)
    return tuple(StartedTransfer(nic(src), nic(dst), qps) for src, dst in ends)


def configured(*ports: str, **changes: Any) -> dict[str, NodeQos]:
    """The configuration of a healthy fabric but for some ports; ``ecn`` and ``watchdog`` are fields within."""
    found = dict(QOS)
    for port in ports:
        node, _, interface = port.partition(":")
        changed = _changed(found[node].ports[interface], dict(changes))
        found[node] = replace(found[node], ports={**found[node].ports, interface: changed})
    return found


def _changed(port: PortQos, changes: dict[str, Any]) -> PortQos:
    if ecn := changes.pop("ecn", None):
        queues = tuple(replace(each, ecn=replace(each.ecn, **ecn)) for each in port.queues)
        port = replace(port, queues=queues)
    if watchdog := changes.pop("watchdog", None):
        port = replace(port, pfc=replace(port.pfc, watchdog=replace(port.pfc.watchdog, **watchdog)))
    return replace(port, **changes)


def first(made: WindowFacts) -> tuple[str, tuple[str, ...]]:
    """The cause that is named first and its places, or the outcome where none is."""
    return named(diagnose(made))


def named(found: Diagnosis) -> tuple[str, tuple[str, ...]]:
    """See ``first``."""
    return (found.causes[0].cause, found.causes[0].places) if found.causes else (found.outcome.value, ())


def full(port: str, **others: Any) -> Lanes:
    """A lane that sends as much as its link carries."""
    return {port: {"tx_bytes": FULL, "tx_packets": PACKETS, "depth": 20_000.0, "deepest": 30_000, **others}}


def incast(*, marked: int = PACKETS // 2) -> Lanes:
    """h1, h2 and h3 write to h4; leaf1 marks, pauses them, and they obey."""
    queue = {"depth": 250_000.0, "deepest": 302_000, "shallowest": 90_000, "spread": 90_000, "marked": marked}
    lanes = full("leaf1:swp6", **queue)
    for number in (3, 4, 5):
        sender = {"tx_bytes": FULL // 3, "tx_packets": PACKETS // 3}
        lanes[f"leaf1:swp{number}"] = {
            "rx_bytes": FULL // 3, "rx_packets": PACKETS // 3, "pauses_out": 60, "resumes_out": 60,
        }  # fmt: skip
        lanes[f"h{number - 2}:eth1"] = {
            **sender,
            "pauses_in": 60,
            "resumes_in": 60,
            "paused": 0.66,
            "deepest": 90_000,
        }
    lanes["h4:eth1"] = {"rx_bytes": FULL, "rx_packets": PACKETS}
    return lanes


def with_lanes(lanes: Lanes, more: Lanes) -> Lanes:
    """Both; what is in both is as the second has it, counter by counter."""
    return {port: {**lanes.get(port, {}), **more.get(port, {})} for port in {**lanes, **more}}
