"""A snapshot of a fabric's state: forwarding tables and configuration.

Each node has links, routes and neighbours in the format of ``ip -json``, and the FDB in that of ``bridge -json``. It
also has the running configuration of each FRR daemon, and the QoS of its ports.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from lab.errors import LabError
from lab.kernel.netlink.ip_state import documents
from lab.model.qos.qos_store import dump_node
from lab.routing.frr_secrets import running_configuration
from lab.routing.vty import Vty

if TYPE_CHECKING:
    from lab.backends.backend import Fabric
    from lab.kernel.process.netns import Namespace

_IP: Final = "link show\nroute show table all\nneigh show\nneigh show nud noarp\n"


def state_of(fabric: Fabric) -> dict[str, Any]:
    """Return the state of every node by name; a node that does not answer has the error as ``complaint``."""
    with ThreadPoolExecutor() as readers:
        found = list(readers.map(lambda node: _of_node(fabric, node.name), fabric.topology.nodes))
    return dict(zip(fabric.topology.by_name, found, strict=True))


def _of_node(fabric: Fabric, name: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = _forwarding(fabric.namespace(name))
    except LabError as error:
        return {"complaint": str(error)}
    if fabric.topology.node(name).role.is_switch:
        found["frr"] = _configurations(fabric, name)
    if name in fabric.qos:
        found["qos"] = dump_node(fabric.qos[name])
    return found


def _forwarding(namespace: Namespace) -> dict[str, Any]:
    said = namespace.run(["ip", "-json", "-batch", "-"], stdin=_IP).stdout
    links, routes, neighbours, unresolved = documents(said, 4)
    (fdb,) = documents(namespace.run(["bridge", "-json", "fdb", "show"]).stdout, 1)
    return {"links": links, "routes": routes, "neighbours": [*neighbours, *unresolved], "fdb": fdb}


def _configurations(fabric: Fabric, name: str) -> dict[str, str]:
    """Return the running configuration of each daemon, without secrets."""
    found = {}
    for socket in sorted(fabric.router(name).directory.glob("*.vty")):
        try:
            with Vty(socket) as vty:
                found[socket.stem] = running_configuration(vty, fabric.state.digest_key)
        except LabError as error:
            found[socket.stem] = f"! {error}"
    return found
