"""ARP probes: leaves probe their hosts; hosts probe their gateways, and another host of their network.

Hosts that do not answer are probed at the other ports of their leaf that get no answers.

The probed addresses are those of the fabric's plan, as for the pings of ``lab.scenario.probes.probe_traffic``.
"""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Interface
from typing import TYPE_CHECKING, Final

from lab.kernel.packets.arp import Question, ask
from lab.model.hosts import parse_pair
from lab.model.topology import Role
from lab.scenario.probes.nic_rings import host_of, is_named

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from lab.scenario.stage import Stage

LONGEST_ARP: Final = 4
"""Seconds: two requests, each with a second for answers; as long again if leaves get no answers."""

Asked = tuple[str, Question]
"""An ARP probe, and the node that sends it."""
_Answered = tuple[Asked, frozenset[str]]
"""An ARP probe, and the MAC addresses that answered."""


def ask_around(stage: Stage, pairs: Sequence[str], absent: Collection[str] = ()) -> None:
    """Probe all hosts and gateways, and the second host of each pair from the first; record the answers.

    Nodes that are ``absent`` do not probe, and are not probed.
    """
    asked = [*_on_links(stage, absent), *_within_networks(stage, pairs)]
    try:
        answers = ask([question for _, question in asked])
    except OSError as error:
        stage.recorder.note("gave up", said=f"no ARP: {error}")
        return
    found = list(zip(asked, answers, strict=True))
    for each, macs in [*found, *_at_other_ports(stage, found)]:
        _record(stage, each, macs)


def _record(stage: Stage, asked: Asked, macs: Collection[str]) -> None:
    node, question = asked
    stage.recorder.note(
        "asked", node=node, port=question.interface, address=str(question.target), answers=sorted(macs)
    )


def _at_other_ports(stage: Stage, found: Sequence[_Answered]) -> list[_Answered]:
    """Probe hosts that did not answer their switch at its other ports without answers: cables may be swapped.

    Return the probes that were answered.
    """
    switches = {node.name for node in stage.fabric.topology.switches}
    silent = [each for each, macs in found if not macs and each[0] in switches]
    asked = [
        (node, replace(question, interface=other.interface, source=other.source))
        for node, question in silent
        for there, other in silent
        if node == there and question.interface != other.interface
    ]
    if not asked:
        return []
    try:
        answers = ask([question for _, question in asked])
    except OSError:
        return []
    return [(each, macs) for each, macs in zip(asked, answers, strict=True) if macs]


def _on_links(stage: Stage, absent: Collection[str]) -> Iterator[Asked]:
    topology = stage.fabric.topology
    for host in (each for each in topology.having(Role.HOST) if each.name not in absent):
        for name, address in _interfaces(stage, host.name).items():
            gateway = stage.fabric.plan[host.name].interfaces[name].gateway
            if isinstance(gateway, IPv4Address):
                yield _asked(stage, host.name, name, address, gateway)
        for link in topology.links_of(host.name):
            here, leaf = link.end_at(host.name), link.other(link.end_at(host.name))
            there, own = _interfaces(stage, leaf.node), _interfaces(stage, host.name)
            if leaf.node not in absent and leaf.interface in there and here.interface in own:
                yield _asked(stage, leaf.node, leaf.interface, there[leaf.interface], own[here.interface].ip)


def _within_networks(stage: Stage, pairs: Sequence[str]) -> Iterator[Asked]:
    for pair in pairs:
        src, dst = parse_pair(pair)
        for name, address in _interfaces(stage, src).items():
            for other in _interfaces(stage, dst).values():
                if other.ip in address.network and other != address:
                    yield _asked(stage, host_of(src), name, address, other.ip)


def _interfaces(stage: Stage, nic: str) -> dict[str, IPv4Interface]:
    """Return a node's addresses by interface, or only that of one of its NICs."""
    plans = stage.fabric.plan[host_of(nic)].interfaces.items()
    return {
        name: plan.address for name, plan in plans if isinstance(plan.address, IPv4Interface) and is_named(nic, name)
    }


def _asked(stage: Stage, node: str, interface: str, address: IPv4Interface, target: IPv4Address) -> Asked:
    return node, Question(
        namespace=stage.fabric.namespace(node), interface=interface, source=address.ip, target=target
    )
