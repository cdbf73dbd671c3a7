"""ARP probes: leaves probe their hosts; hosts probe their gateways, and another host of their network.

The probed addresses are those of the fabric's plan, as for the pings of ``lab.scenario.probes.probe_traffic``.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface
from typing import TYPE_CHECKING, Final

from lab.kernel.packets.arp import Question, ask
from lab.model.hosts import parse_pair
from lab.model.topology import Role
from lab.scenario.probes.nic_rings import host_of, is_named

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from lab.scenario.stage import Stage

LONGEST_ARP: Final = 2
"""Seconds: two requests, each with a second for answers."""

Asked = tuple[str, Question]
"""An ARP probe, and the node that sends it."""


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
    for (node, question), macs in zip(asked, answers, strict=True):
        stage.recorder.note(
            "asked", node=node, port=question.interface, address=str(question.target), answers=sorted(macs)
        )


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
