"""Export a fabric as a containerlab lab: ``clab.yml``, and the files of each node's container.

The format is containerlab's topology definition file (https://containerlab.dev/manual/topo-def-file/). All nodes are
of kind ``linux``: a container runs its image, with the files mounted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lab.errors import UsageError
from lab.export import labels, node_files
from lab.export.text import as_yaml
from lab.model.addressing import plan_addresses
from lab.model.sysctls import sysctls_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from lab.export.folder import Files
    from lab.model.addressing import NodePlan
    from lab.model.topology import Link, Topology

DEFINITION: Final = "clab.yml"
DEFAULT_IMAGE: Final = "quay.io/frrouting/frr:10.5.1"
"""FRR's official image; it contains ``ip``, ``tc`` and a shell."""
BUILT_IMAGE: Final = "rocelab/frr:trixie"
"""The image that rocelab builds from Debian's packages if no registry is reachable."""

HOSTS: Final = "hosts.txt"
"""Names of all nodes, in the lab's folder. No node can have this name, so no node's folder conflicts with it."""
_WORDS: Final = {"host", "mgmt-net", "macvlan", "vxlan", "vxlan-stitch", "dummy"}
_PART: Final = "[a-z0-9]+(?:[._-]+[a-z0-9]+)*"
_IMAGE: Final = re.compile(
    rf"(?:{_PART}:[0-9]{{1,5}}/)?{_PART}(?:/{_PART})*(?::[\w][\w.-]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?", re.ASCII
)
_LONGEST_IMAGE: Final = 255
_SORT: Final = node_files.Sort()
_PLAYED: Final = "The nodes of the fabric {}, whose links rocelab up plugs. rocelab docs containerlab has the rest."


@dataclass(frozen=True, slots=True)
class Images:
    """Images of the containers; UsageError is raised for an invalid name."""

    switch: str = DEFAULT_IMAGE
    host: str = ""
    """The hosts' image; by default the switches'. Hosts run nothing but ``sleep``."""

    def __post_init__(self) -> None:
        check_image(self.switch)
        check_image(self.host or self.switch)


@dataclass(frozen=True, slots=True)
class DeployedLab:
    """Settings of a lab that rocelab deploys to run the nodes of its own fabric; rocelab plugs in the links."""

    owner: str
    """The fabric's key in the owner label of each container."""
    sockets: Mapping[str, Path]
    """By switch: the folder on this machine with the sockets of its daemons."""


def check_image(image: str) -> None:
    """Raise UsageError for an invalid image name."""
    if len(image) > _LONGEST_IMAGE or not _IMAGE.fullmatch(image):
        raise UsageError(f"{image[:80]!r} is not an image", f"write one like {DEFAULT_IMAGE}")


def export_lab(topology: Topology, images: Images, played: DeployedLab | None = None) -> Files:
    """Return all files of the lab; raise UsageError for an overlay, or a name that containerlab rejects.

    A lab that is ``played`` has no links of its own, and its nodes have neither addresses nor rates.
    """
    plan = plan_addresses(topology)
    check(topology)
    defaults: dict[str, Any] = {"kind": "linux", "network-mode": "none"}
    if said := labels.of_fabric(topology) | ({labels.OWNER: played.owner} if played else {}):
        defaults["labels"] = said
    data: dict[str, Any] = {
        "name": topology.name,
        "topology": {
            "defaults": defaults,
            "groups": groups(topology, plan, images),
            "nodes": {node.name: _node(topology, plan, node.name, played) for node in topology.nodes},
        },
    }
    if played is None:
        data["topology"]["links"] = [_link(plan, link) for link in topology.links]
    else:
        data["mgmt"] = {"skip-when-unused": True}
    said_first = head(topology) if played is None else [_PLAYED.format(topology.name)]
    files = {DEFINITION: as_yaml(data, said_first), HOSTS: node_files.names_file(plan)}
    for node in topology.nodes:
        for path, text in node_files.files_of(topology, plan, node.name, _SORT).items():
            files[kept_at(node.name, path)] = text
    return files


def head(topology: Topology) -> Iterator[str]:
    """Yield the comment at the top of the file: its origin, and the features that it lacks."""
    yield f"The fabric {topology.name}, written by rocelab export. rocelab docs containerlab has the rest."
    yield "Not in here, because no container has it by itself:"
    for what in left_out(topology):
        yield f"- {what}"


def left_out(topology: Topology) -> Iterator[str]:
    """Yield the features of the fabric that a lab lacks."""
    if topology.qos is not None:
        yield "qos: no lossless port, no PFC, no ECN. Links have their rates and delays (tc-tbf, tc-netem), and drop."
    if any(host.rdma for host in topology.hosts):
        yield "rdma: no rxe device on any host. It takes Linux 7.1 or newer with rdma_rxe."
    yield "offloads and receive steering: a veth may merge packets, and reorder them on several CPUs."


def groups(topology: Topology, plan: Mapping[str, NodePlan], images: Images) -> dict[str, Any]:
    """Return the common settings of all switches and of all hosts: image and sysctls."""
    found: dict[str, Any] = {}
    if topology.switches:
        some = plan[topology.switches[0].name]
        found["switch"] = {"image": images.switch, "sysctls": _dotted(sysctls_of(some, topology.routing))}
    if topology.hosts:
        some = plan[topology.hosts[0].name]
        found["host"] = {
            "image": images.host or images.switch,
            "entrypoint": "sleep",
            "cmd": "infinity",
            "sysctls": _dotted(sysctls_of(some, topology.routing)),
        }
    return found


def _dotted(values: Mapping[str, int]) -> dict[str, int]:
    return {name.replace("/", "."): value for name, value in values.items()}


def group_of(plan: NodePlan) -> str:
    """Return the key of a node's entry in ``groups``."""
    return "switch" if plan.node.role.is_switch else "host"


def binds(topology: Topology, plan: Mapping[str, NodePlan], node: str, sort: node_files.Sort) -> list[str]:
    """Return the binds of a node's container, from the lab's folder and read-only."""
    paths = node_files.files_of(topology, plan, node, sort)
    return [f"{HOSTS}:{node_files.HOSTS}:ro", *(f"{kept_at(node, path)}:{path}" for path in paths)]


def kept_at(node: str, path: str) -> str:
    """Return the path in the lab's folder of a file at ``path`` in the node's container."""
    return f"{node}/{path.rpartition('/')[2]}"


def _node(topology: Topology, plan: Mapping[str, NodePlan], node: str, played: DeployedLab | None) -> dict[str, Any]:
    mounted = binds(topology, plan, node, _SORT)
    if played and node in played.sockets:
        mounted.append(f"{played.sockets[node]}:{node_files.SOCKETS}")
    return {
        "group": group_of(plan[node]),
        "labels": labels.of_node(plan[node].node),
        "binds": mounted,
        "exec": [node_files.NAMES if played else node_files.START],
    }


def _link(plan: Mapping[str, NodePlan], link: Link) -> dict[str, Any]:
    ends = [
        {"node": end.node, "interface": end.interface, "mac": plan[end.node].interfaces[end.interface].mac}
        for end in link.ends
    ]
    return {"type": "veth", "endpoints": ends, "mtu": link.mtu, "labels": labels.of_link(link)}


def check(topology: Topology) -> None:
    """Raise UsageError for an overlay, and for node names that containerlab reserves."""
    if topology.overlay is not None:
        raise UsageError(
            f"{topology.name} has an overlay, and the bridges, VXLAN devices and VRFs of it are not exported",
            "take overlay: out, or run it with rocelab up",
        )
    for node in topology.nodes:
        if node.name in _WORDS:
            raise UsageError(
                f"a node {node.name} cannot be: containerlab has the word for an end of its own links", "rename it"
            )
