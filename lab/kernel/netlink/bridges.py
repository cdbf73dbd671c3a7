"""The spanning tree state of a bridge, in one read: the parameters of IEEE 802.1D-1998 section 8.5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from lab.kernel.netlink import ip_state

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.kernel.process.netns import Namespace

Role: TypeAlias = Literal["root", "designated", "alternate", "disabled"]
State: TypeAlias = Literal["disabled", "listening", "learning", "forwarding", "blocking"]
SETTLED: Final = frozenset({"forwarding", "blocking"})
"""Final states: a port stays in them until the tree changes."""


@dataclass(frozen=True, slots=True)
class BridgePort:
    """A port of a bridge in its spanning tree."""

    name: str
    state: State
    role: Role
    """root: leads to the root bridge. designated: forwards for its segment. alternate: a redundant path, blocked."""
    cost: int
    designated: str
    """Identifier of the designated bridge of its segment: the one that is nearest to the root."""


@dataclass(frozen=True, slots=True)
class TreeState:
    """A bridge's view of the tree. Identifiers are a hex priority and a MAC: ``1000.02:1a:00:01:00:00``."""

    bridge: str
    root: str
    cost: int
    """Cost of its path to the root."""
    ports: tuple[BridgePort, ...]


def tree_state(namespace: Namespace, bridge: str) -> TreeState | None:
    """Return the current state of a namespace's bridge; None if it is gone, or runs no spanning tree."""
    return parse_tree(ip_state.ask(namespace, "-details", "link", "show"), bridge)


def parse_tree(shown: list[dict[str, Any]], bridge: str) -> TreeState | None:
    """Return the state of a bridge from the output of ``ip -json -details link show``, as ``tree_state``."""
    own = next((each["linkinfo"]["info_data"] for each in shown if each.get("ifname") == bridge), None)
    if own is None or not own["stp_state"]:
        return None
    itself = _identifier(own["bridge_id"])
    ports = [each for each in shown if each.get("master") == bridge]
    return TreeState(
        bridge=itself,
        root=_identifier(own["root_id"]),
        cost=own["root_path_cost"],
        ports=tuple(_port(each, itself, own["root_port"]) for each in ports),
    )


def _port(shown: Mapping[str, Any], itself: str, root_port: int) -> BridgePort:
    told = shown["linkinfo"]["info_slave_data"]
    designated = _identifier(told["bridge_id"])
    role: Role = "alternate"
    if told["state"] == "disabled":
        role = "disabled"
    elif int(told["no"], 16) == root_port:
        role = "root"
    elif designated == itself:
        role = "designated"
    return BridgePort(name=shown["ifname"], state=told["state"], role=role, cost=told["cost"], designated=designated)


def _identifier(text: str) -> str:
    """Return the kernel's bridge identifier with two digits for each byte of the MAC."""
    priority, _, mac = text.partition(".")
    return f"{priority}.{':'.join(octet.zfill(2) for octet in mac.split(':'))}"
