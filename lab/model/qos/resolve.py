"""Resolve QoS intent to numbers: each port starts from a preset, and its profiles are applied in turn.

The least specific comes first: the preset ``lab``, then the names of the fabric, the role, the node and the
interface. A preset replaces all settings; a profile replaces the fields that it sets.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from lab.model.qos.headroom import HOST_REACTION, roce_frame
from lab.model.qos.port import CLASSES, EcnQos, GroupQos, NodeQos, PfcQos, PortQos, QueueQos, vector
from lab.model.qos.presets import DEFAULT, PRESETS
from lab.model.qos.profile import STRICT, UNLIMITED, QosProfile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lab.model.qos.profile import Amount, EcnProfile, GroupProfile, PfcProfile, QosIntent
    from lab.model.topology import Link, Node, Topology


def resolve(topology: Topology, reaction: float = HOST_REACTION) -> Mapping[str, NodeQos]:
    """Return every node's QoS by name; empty for a fabric without QoS, whose links are only shaped.

    The topology must have passed the checks of loading. Headroom that is not set allows a port ``reaction`` seconds
    to pause, which depends on the machine that runs the fabric.
    """
    if topology.qos is None:
        return {}
    return {node.name: _node(topology, topology.qos, node, reaction) for node in topology.nodes}


def _node(topology: Topology, intent: QosIntent, node: Node, reaction: float) -> NodeQos:
    """Return one node's QoS. By default its pool is the sum of its ports' needs and the preset's shared pool."""
    links = {link.end_at(node.name).interface: link for link in topology.links_of(node.name)}
    ports = {name: _port(intent, intent.at_port(node, name), node, link, reaction) for name, link in links.items()}
    names = intent.at_node(node)
    said = [intent.profiles[name].buffer.pool for name in names if name in intent.profiles]
    pools = [pool for pool in said if pool is not None]
    if pools:
        return NodeQos(pools[-1], ports)
    preset = PRESETS[next((name for name in reversed(names) if name in PRESETS), DEFAULT)]
    kinds = {(link.rate, link.mtu) for link in links.values()}
    shared = max((preset.shared(rate, mtu) for rate, mtu in kinds), default=0)
    return NodeQos(shared + sum(port.committed for port in ports.values()), ports)


def _port(intent: QosIntent, names: Sequence[str], node: Node, link: Link, reaction: float) -> PortQos:
    preset = partial(_preset, rate=link.rate, mtu=link.mtu, delay=link.delay, reaction=reaction)
    if node.role.is_switch:
        return replace(_written_over(preset, intent, names), drain=None, cc=None)
    # Presets and profiles of the whole fabric are meant for switches; a curve attached to hosts is meant for hosts.
    whole = len(intent.fabric)
    port = unmarked(_written_over(preset, intent, names[:whole]))
    for name in names[whole:]:
        port = unmarked(preset(name)) if name in PRESETS else overlay(port, intent.profiles[name])
    return port


def _written_over(preset: Callable[[str], PortQos], intent: QosIntent, names: Iterable[str]) -> PortQos:
    port = preset(DEFAULT)
    for name in names:
        port = preset(name) if name in PRESETS else overlay(port, intent.profiles[name])
    return port


def unmarked(port: PortQos) -> PortQos:
    """Return ``port`` for a host, whose NIC does not mark its own packets. The curves stay, and can be turned on."""
    return replace(port, queues=tuple(replace(queue, ecn=replace(queue.ecn, enabled=False)) for queue in port.queues))


@lru_cache(maxsize=256)
def _preset(name: str, rate: int, mtu: int, delay: float, reaction: float) -> PortQos:
    return PRESETS[name].port(rate, mtu, delay, reaction)


def overlay(port: PortQos, profile: QosProfile) -> PortQos:
    """Return ``port`` with the settings of ``profile``."""
    return replace(
        port,
        trust=profile.map.trust or port.trust,
        dscp_to_priority=_entries(port.dscp_to_priority, profile.map.dscp),
        pcp_to_priority=_entries(port.pcp_to_priority, profile.map.pcp),
        priority_to_queue=_entries(port.priority_to_queue, profile.map.queue),
        priority_to_group=_entries(port.priority_to_group, profile.map.group),
        groups=tuple(
            _group(group, profile.buffer.groups[number], port.rate) if number in profile.buffer.groups else group
            for number, group in enumerate(port.groups)
        ),
        queues=tuple(_queue(port.queues[number], profile, number, port.rate) for number in range(CLASSES)),
        pfc=_pfc(port.pfc, profile.pfc),
        drain=port.drain if profile.nic.drain is None else _drain(profile.nic.drain),
        cc=profile.nic.cc.applied(port.cc, port.rate, roce_frame(port.mtu)),
    )


def _entries(table: tuple[int, ...], said: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(said.get(key, value) for key, value in enumerate(table))


def _drain(drain: int | str) -> int | None:
    return None if drain == UNLIMITED else int(drain)


def _bytes(amount: Amount, rate: int) -> int:
    """Return ``amount`` in bytes, rounded down; seconds are converted at ``rate`` bit/s."""
    return int(Fraction(amount) * rate / 8) if isinstance(amount, float) else amount


def _sized(rate: int, **amounts: Amount | None) -> dict[str, Any]:
    return {name: _bytes(amount, rate) for name, amount in amounts.items() if amount is not None}


def _said(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _group(group: GroupQos, said: GroupProfile, rate: int) -> GroupQos:
    sizes = _sized(rate, reserved=said.reserved, xoff=said.xoff, xon=said.xon, headroom=said.headroom)
    if said.alpha is not None:
        return replace(group, **sizes, alpha=said.alpha, xoff=None)
    if "xoff" not in sizes:
        return replace(group, **sizes)
    # An XON chosen for another threshold must not exceed this one.
    sizes.setdefault("xon", min(group.xon, sizes["xoff"] // 2))
    return replace(group, **sizes, alpha=None)


def _queue(queue: QueueQos, profile: QosProfile, number: int, rate: int) -> QueueQos:
    changed = queue
    if number in profile.scheduler:
        weight = profile.scheduler[number]
        changed = replace(changed, weight=None if weight == STRICT else weight)
    if number in profile.buffer.queues:
        changed = replace(changed, limit=_bytes(profile.buffer.queues[number], rate))
    if number in profile.ecn:
        changed = replace(changed, ecn=_ecn(changed.ecn, profile.ecn[number], rate))
    return changed


def _ecn(ecn: EcnQos, said: EcnProfile, rate: int) -> EcnQos:
    """Apply a profile's marking. Setting a threshold enables marking, unless ``enabled`` is false."""
    sizes = _sized(rate, kmin=said.kmin, kmax=said.kmax)
    others = _said(pmax=said.pmax, enabled=said.enabled)
    return replace(ecn, **{"enabled": True, **sizes, **others})


def _pfc(pfc: PfcQos, said: PfcProfile) -> PfcQos:
    dog = said.watchdog
    times = _said(detection=dog.detection, restoration=dog.restoration, action=dog.action)
    enabled = dog.enabled if dog.enabled is not None else pfc.watchdog.enabled or bool(times)
    watchdog = replace(pfc.watchdog, enabled=enabled, **times)
    lossless = None if said.priorities is None else vector(said.priorities)
    return replace(pfc, watchdog=watchdog, **_said(priorities=lossless, tx=said.tx, rx=said.rx, quanta=said.quanta))
