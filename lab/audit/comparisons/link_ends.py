"""Differences between the two ends of a link."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from lab.audit.difference import Difference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.audit.audited import FabricAudit, NodeAudit
    from lab.model.topology import Endpoint, Topology

Settings: TypeAlias = "dict[tuple[str, str, str], str]"
"""Values by kind, object and setting."""
_PORT: Final = (
    "rate", "mtu", "delay", "trust", "pfc.priorities",
    *(f"dscp_to_priority.{code}" for code in range(64)),
)  # fmt: skip
"""Settings of an emulated port that both ends of a link share."""
_SHAPER: Final = ("rate", "delay", "overhead")
_SHAPED: Final = frozenset({"tbf", "netem"})


def of_link_ends(state: FabricAudit, topology: Topology) -> list[Difference]:
    """Return the settings in which the ends of a link differ: of each end, against the other."""
    found: list[Difference] = []
    for link in topology.links:
        a, b = ((end, state.nodes.get(end.node)) for end in link.ends)
        if a[1] is not None and b[1] is not None:
            mine, theirs = _settings(a[1], a[0].interface), _settings(b[1], b[0].interface)
            found += _of_end(a[0], b[0], mine, theirs)
            found += _of_end(b[0], a[0], theirs, mine)
    return found


def _of_end(end: Endpoint, peer: Endpoint, mine: Settings, theirs: Settings) -> Iterator[Difference]:
    for (kind, name, setting), value in mine.items():
        expected = theirs.get((kind, name, setting), value)
        if value != expected and (setting, value) != ("up", "yes"):  # the other end is the one that is shut
            named = name.replace("<port>", end.interface)
            yield Difference(
                node=end.node,
                kind=kind,
                object=named,
                field=setting,
                value=value,
                expected=expected,
                against=str(peer),
                interface=end.interface,
            )


def _settings(node: NodeAudit, interface: str) -> Settings:
    """Return the settings of a port that should equal those of the other end, by kind, object and setting."""
    found: Settings = {}
    for each in node.interfaces:
        if each.name == interface:
            found["interface", "interface <port>", "mtu"] = str(each.mtu)
            found["interface", "interface <port>", "up"] = "yes" if each.up else "no"
    for queue in node.qdiscs:
        if queue.interface == interface and queue.parent == "root":
            found["qdisc", "qdisc <port> root", "kind"] = queue.kind
        if queue.interface == interface and queue.kind in _SHAPED:
            for setting in _SHAPER:
                if setting in queue.options:
                    found["qdisc", f"qdisc <port> {queue.parent}", setting] = queue.options[setting]
    for port in node.ports:
        if port.interface == interface:
            found |= {("port", "port <port>", name): port.settings_in_full[name] for name in _PORT
                      if name in port.settings_in_full}  # fmt: skip
    return found
