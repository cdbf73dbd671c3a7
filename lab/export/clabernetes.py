"""Export a fabric as a clabernetes Topology (c9s.run/v1alpha1), for fabrics beyond one machine: a pod for each node.

Links run between pods, so nodes have a management interface, and the start script sets MAC addresses and MTU. Files
are in ConfigMaps: one for each node, and one for all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from lab.errors import UsageError
from lab.export import containerlab, node_files
from lab.export.text import as_yaml
from lab.model.addressing import plan_addresses

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.export.folder import Files
    from lab.model.addressing import NodePlan
    from lab.model.topology import Topology

NAMESPACE: Final = "00-namespace.yaml"
CONFIG_MAPS: Final = "10-files.yaml"
TOPOLOGY: Final = "20-topology.yaml"
"""Files sorted in the order in which ``kubectl apply -f FOLDER`` applies them."""
DATA_LIMIT: Final = 2**20
"""Bytes of a ConfigMap (https://kubernetes.io/docs/concepts/configuration/configmap/)."""

_SORT: Final = node_files.Sort(management=True, macs=True)
_COMMON: Final = "common"
_REQUESTS: Final = {"cpu": "100m", "memory": "256Mi"}
"""Requests of a pod, which runs a Docker daemon with the node inside. No limits: throttling would distort results."""
_LABEL: Final = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?", re.ASCII
)
_VALUE: Final = re.compile(r"(?:[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?)?", re.ASCII)
_NEEDS_RDMA: Final = "Linux 7.1 or newer with the modules rdma_rxe, ib_uverbs and rdma_ucm"
_NEEDS_PORT: Final = "Linux 6.16 or newer with CONFIG_NET_SCH_BPF and BTF (tried on 7.3)"


@dataclass(frozen=True, slots=True)
class ClusterPlacement:
    """Images and scheduling in the cluster; UsageError is raised for an invalid image or node label."""

    images: containerlab.Images = field(default_factory=containerlab.Images)
    launcher: str = ""
    """clabernetes' launcher image; the cluster's own setting if empty."""
    selector: Mapping[str, str] = field(default_factory=dict)
    """Labels that select the cluster's nodes for pods."""

    def __post_init__(self) -> None:
        if self.launcher:
            containerlab.check_image(self.launcher)
        for key, value in self.selector.items():
            if not _LABEL.fullmatch(key) or not _VALUE.fullmatch(value):
                raise UsageError(f"{key[:80]}={value[:80]} is no label", "write it like rocelab/rdma=yes")


def export_topology(topology: Topology, placement: ClusterPlacement) -> Files:
    """Return the manifests; raise UsageError as for containerlab, or if files are too big for a ConfigMap."""
    containerlab.check(topology)
    plan = plan_addresses(topology)
    maps = _config_maps(topology, plan)
    return {
        NAMESPACE: as_yaml(_namespace(topology)),
        CONFIG_MAPS: "".join(f"---\n{as_yaml(each)}" for each in maps),
        TOPOLOGY: as_yaml(_topology(topology, plan, placement), _head(topology)),
    }


def needs(topology: Topology) -> Iterator[str]:
    """Yield the requirements of the cluster's nodes for the features that the manifests leave out."""
    if any(host.rdma for host in topology.hosts):
        yield f"rdma: {_NEEDS_RDMA}"
    if topology.qos is not None:
        yield f"qos: {_NEEDS_PORT}"


def left_out(topology: Topology) -> Iterator[str]:
    """Yield the features of the fabric that the pods lack."""
    yield from containerlab.left_out(topology)
    yield "MTU: links between pods are VXLAN tunnels; one that carries less than a link's MTU drops what is bigger."


def _head(topology: Topology) -> Iterator[str]:
    yield f"The fabric {topology.name}, written by rocelab export. rocelab docs containerlab has the rest."
    yield "Not in here:"
    yield from (f"- {what}" for what in left_out(topology))
    if asked := list(needs(topology)):
        yield "Requirements for the nodes of the cluster, in addition to privileged pods:"
        yield from (f"- {what}" for what in asked)


def namespace_of(topology: Topology) -> str:
    """Return the Kubernetes namespace of a fabric."""
    return f"rocelab-{topology.name}"


def _namespace(topology: Topology) -> dict[str, Any]:
    allowed = {"pod-security.kubernetes.io/enforce": "privileged"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace_of(topology), "labels": allowed}}


def _config_maps(topology: Topology, plan: Mapping[str, NodePlan]) -> list[dict[str, Any]]:
    texts = {_COMMON: {_key(node_files.HOSTS): node_files.names_file(plan)}}
    for node in topology.nodes:
        files = node_files.files_of(topology, plan, node.name, _SORT)
        texts[_map_of(node.name)] = {_key(path): text for path, text in files.items()}
    for name, data in texts.items():
        size = sum(len(key) + len(text.encode()) for key, text in data.items())
        if size > DATA_LIMIT:
            raise UsageError(
                f"the files of {name} take {size} bytes, and a ConfigMap {DATA_LIMIT}", "shorten frr:, or the fabric"
            )
    where = namespace_of(topology)
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": where}, "data": data}
        for name, data in texts.items()
    ]


def _map_of(node: str) -> str:
    return f"node-{node}"


def _key(path: str) -> str:
    return path.rpartition("/")[2]


def _topology(topology: Topology, plan: Mapping[str, NodePlan], placement: ClusterPlacement) -> dict[str, Any]:
    deployment: dict[str, Any] = {
        "privilegedLauncher": True,
        "resources": {"default": {"requests": _REQUESTS}},
        "filesFromConfigMap": {node.name: _mounted(topology, plan, node.name) for node in topology.nodes},
    }
    if placement.launcher:
        deployment["launcherImage"] = placement.launcher
    if placement.selector:
        deployment["scheduling"] = {"nodeSelector": dict(placement.selector)}
    metadata: dict[str, Any] = {"name": topology.name, "namespace": namespace_of(topology)}
    if asked := list(needs(topology)):
        metadata["annotations"] = {
            f"rocelab/{what.partition(':')[0]}-needs": what.partition(": ")[2] for what in asked
        }
    return {
        "apiVersion": "c9s.run/v1alpha1",
        "kind": "Topology",
        "metadata": metadata,
        "spec": {
            "naming": "non-prefixed",
            "connectivity": "vxlan",
            "expose": {"disableExpose": True},
            "deployment": deployment,
            "definition": {"containerlab": as_yaml(_definition(topology, plan, placement.images))},
        },
    }


def _mounted(topology: Topology, plan: Mapping[str, NodePlan], node: str) -> list[dict[str, str]]:
    """Return the files of a node's binds, as mounts in its launcher's folder."""
    common = _mount(_COMMON, _key(node_files.HOSTS), containerlab.HOSTS)
    paths = node_files.files_of(topology, plan, node, _SORT)
    return [common, *(_mount(_map_of(node), _key(path), containerlab.kept_at(node, path)) for path in paths)]


def _mount(name: str, key: str, path: str) -> dict[str, str]:
    return {"configMapName": name, "configMapPath": key, "filePath": path, "mode": "read"}


def _definition(topology: Topology, plan: Mapping[str, NodePlan], images: containerlab.Images) -> dict[str, Any]:
    """Return the lab in a minimal form of containerlab's format, because clabernetes has its own parser for links."""
    settings = containerlab.groups(topology, plan, images)
    nodes = {
        name: {
            **settings[containerlab.group_of(plan[name])],
            "binds": containerlab.binds(topology, plan, name, _SORT),
            "exec": [node_files.START],
        }
        for name in plan
    }
    links = [{"endpoints": [str(link.a), str(link.b)], "mtu": link.mtu} for link in topology.links]
    return {"name": topology.name, "topology": {"defaults": {"kind": "linux"}, "nodes": nodes, "links": links}}
