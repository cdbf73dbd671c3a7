"""Reads all objects of all nodes, in parallel. A node without an answer is reported, and stops no other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from lab.audit.audited import FabricAudit, NodeAudit, UnreadPart
from lab.audit.readers.device_reader import read_ports, read_rdma
from lab.audit.readers.kernel_reader import read_ipsec_here, read_kernel
from lab.audit.readers.legacy_reader import read_legacy_rules_here
from lab.audit.readers.namespace_files import read_stack_counters_here, read_sysctls_here
from lab.audit.readers.nft_reader import read_nft
from lab.audit.readers.router_reader import RouterState
from lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lab.backends.backend import Fabric
    from lab.dataplane.port_maps import PortMaps

_READERS: Final = 16


def audit(fabric: Fabric) -> FabricAudit:
    """Return the state of all nodes. Never raises for a node, daemon or device that is dead or silent."""
    fabric = replace(fabric)  # other commands may have configured its ports since it was opened
    gone = fabric.backend.complaints(fabric.state)
    maps = _maps(fabric)
    with ThreadPoolExecutor(_READERS) as readers:
        found = readers.map(
            lambda node: read_node(fabric, node.name, maps, gone.get(node.name, "")), fabric.topology.nodes
        )
        return FabricAudit(fabric.name, {each.name: each for each in found})


def _maps(fabric: Fabric) -> PortMaps | None:
    """Return the maps of the fabric's emulated ports; None without ports, or if the maps are gone."""
    if fabric.topology.qos is None:
        return None
    from lab.dataplane import port_maps  # noqa: PLC0415 - NumPy, which only fabrics with ports need

    try:
        return port_maps.open_maps(fabric.name)
    except (LabError, OSError):
        return None


def read_node(fabric: Fabric, name: str, maps: PortMaps | None = None, complaint: str = "") -> NodeAudit:
    """Return the state of one node; ``complaint`` is the reason why it cannot answer."""
    node = fabric.topology.node(name)
    unread = [UnreadPart("node", complaint)] if complaint else []
    parts: dict[str, Any] = {}

    def read(part: str, reader: Callable[[], Mapping[str, Any]]) -> None:
        try:
            parts.update(reader())
        except (LabError, OSError) as error:
            unread.append(UnreadPart(part, str(error)))
        except (ValueError, LookupError, TypeError, AttributeError) as error:  # another version of a program
            unread.append(UnreadPart(part, f"unknown form of an answer: {type(error).__name__}: {error}"))

    namespace = fabric.namespace(name)
    read("kernel", lambda: _fields(read_kernel(namespace)))
    read("ipsec", lambda: {"filters": (*parts.get("filters", ()), *namespace.inside(read_ipsec_here))})
    read("sysctls", lambda: namespace.inside(lambda: {"sysctls": read_sysctls_here()}))
    read("counters", lambda: namespace.inside(lambda: {"counters": read_stack_counters_here()}))
    read("nft", lambda: {"nft": read_nft(namespace)})
    read("nft", lambda: {"nft": (*parts.get("nft", ()), *namespace.inside(read_legacy_rules_here))})
    read("router", lambda: _router(fabric, name, unread))
    read("ports", lambda: {"ports": read_ports(fabric, name, maps)})
    read("rdma", lambda: dict(zip(("rdma", "gids"), read_rdma(fabric, name), strict=True)))
    return NodeAudit(name=name, role=str(node.role), **parts, unread=tuple(unread))


def _fields(state: object) -> dict[str, Any]:
    return {name: getattr(state, name) for name in type(state).__slots__}  # type: ignore[attr-defined]


def _router(fabric: Fabric, name: str, unread: list[UnreadPart]) -> dict[str, Any]:
    router = fabric.router(name)
    if not router.directory.is_dir():
        return {}
    state = RouterState(router, fabric.state.digest_key)
    unread += state.unread
    return {part: getattr(state, part) for part in ("daemons", "frr", "bgp", "bfd", "vnis")}
