"""``rocelab inspect``: nodes, addresses, peers of interfaces, and the command that opens each node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.backends.node_selection import node_of
from lab.cli.kit.complete import FabricOption, node_names
from lab.cli.kit.fit_columns import Column, TableLayout
from lab.cli.kit.open_fabric import open_fabric
from lab.cli.kit.output import JsonFlag, print_json, stdout
from lab.model.hosts import addresses_of

if TYPE_CHECKING:
    from lab.backends.backend import Fabric
    from lab.model.addressing import NodePlan
    from lab.model.topology import Node

_COLUMNS = (
    Column("node", "node"), Column("role", "role", 3), Column("as", "AS", 4), Column("interface", "interface"),
    Column("address", "address"), Column("peer", "leads to"), Column("get-in", "get in", 2),
    Column("namespace", "namespace", 5),
)  # fmt: skip


def inspect(
    nodes: Annotated[
        list[str] | None,
        typer.Argument(help="Nodes to show. \\[default: all]", metavar="[NODE]...", autocompletion=node_names),
    ] = None,
    name: FabricOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show nodes, addresses, peers, and the command that opens each node. Every node resolves the names of all."""
    fabric = open_fabric(name, as_root=False)
    chosen = [node_of(fabric, node) for node in nodes] if nodes else fabric.topology.nodes
    facts = [_facts(fabric, node) for node in chosen]
    if as_json:
        print_json({"fabric": fabric.name, "nodes": facts})
        return
    rows = [row for node in facts for row in _rows(node)]
    stdout.print(TableLayout(_COLUMNS).draw(f"nodes of {fabric.name}", rows, stdout.width)[0])


def _facts(fabric: Fabric, node: Node) -> dict[str, Any]:
    plan = fabric.plan[node.name]
    ends = [(link.end_at(node.name), link) for link in fabric.topology.links_of(node.name)]
    peers = {end.interface: str(link.other(end)) for end, link in ends}
    return {
        "name": node.name,
        "role": str(node.role),
        "as": plan.asn or None,
        "loopbacks": [str(address) for address in (plan.loopback4, plan.loopback6) if address is not None],
        "addresses": [str(address) for address in addresses_of(fabric.plan, node.name)],
        "namespace": fabric.namespace(node.name).name,
        "get_in": f"rocelab {'vtysh' if plan.loopback4 else 'shell'} {node.name}",
        "interfaces": [
            {
                "name": interface,
                "mac": each.mac,
                "address": None if each.address is None else str(each.address),
                "peer": peers.get(interface) or _peers_of(interface, plan, peers),
            }
            for interface, each in plan.interfaces.items()
        ],
    }


def _peers_of(bond: str, plan: NodePlan, peers: dict[str, str]) -> str:
    """Return the peers of a bond's members."""
    return " ".join(peers[name] for name, each in plan.interfaces.items() if each.bond == bond)


def _rows(node: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return a row for a switch's loopbacks, and one for each interface; the node's own cells are in the first."""
    first = [node["name"], node["role"], node["as"]]
    last = [node["get_in"], node["namespace"]]
    lines = [("lo", address, "") for address in node["loopbacks"]]
    lines += [(each["name"], each["address"], each["peer"]) for each in node["interfaces"]]
    return [
        (*(first if number == 0 else [""] * len(first)), *line, *(last if number == 0 else [""] * len(last)))
        for number, line in enumerate(lines)
    ]
