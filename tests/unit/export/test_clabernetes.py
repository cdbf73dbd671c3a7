"""``rocelab export clabernetes``: against the published CustomResourceDefinition, and containerlab's schema."""

import json
from typing import Any

import jsonschema
import pytest
import yaml

from lab.errors import UsageError
from lab.export.clabernetes import DATA_LIMIT, ClusterPlacement, export_topology
from lab.export.containerlab import Images
from lab.model.load import load_topology, read_topology
from lab.model.topology import Topology
from tests.unit.export.conftest import HERE, SHIPPED

CLAB = json.loads((HERE / "schemas" / "clab.schema.json").read_text())
CRD = yaml.safe_load((HERE / "schemas" / "c9s.run_topologies.yaml").read_text())
_RESOURCE_NAME = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
_KEY = r"^[A-Za-z0-9._-]{1,253}$"


def strict(schema: Any) -> Any:
    """A structural schema as JSON Schema: what the API server would prune is an error, int-or-string is either."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: strict(value) for key, value in schema.items()}
    if schema.get("x-kubernetes-int-or-string"):
        found["type"] = ["integer", "string"]
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        found["additionalProperties"] = False
    return found


(VERSION,) = CRD["spec"]["versions"]
_SPEC = strict(VERSION["schema"]["openAPIV3Schema"]["properties"]["spec"])
TOPOLOGY = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "additionalProperties": False,
    "properties": {
        "apiVersion": {"const": f"{CRD['spec']['group']}/{VERSION['name']}"},
        "kind": {"const": CRD["spec"]["names"]["kind"]},
        "metadata": {
            "type": "object",
            "required": ["name", "namespace"],
            "properties": {
                "name": {"pattern": _RESOURCE_NAME},
                "namespace": {"pattern": _RESOURCE_NAME},
                "annotations": {"additionalProperties": {"type": "string"}},
            },
        },
        "spec": _SPEC,
    },
}


def manifest(topology: Topology, placement: ClusterPlacement | None = None) -> Any:
    return yaml.safe_load(export_topology(topology, placement or ClusterPlacement())["20-topology.yaml"])


def maps(topology: Topology) -> dict[str, Any]:
    documents = yaml.safe_load_all(export_topology(topology, ClusterPlacement())["10-files.yaml"])
    return {each["metadata"]["name"]: each for each in documents}


def test_the_custom_resource_definition_takes_it(fabric: Topology) -> None:
    jsonschema.Draft7Validator(TOPOLOGY).validate(manifest(fabric))


@pytest.mark.parametrize("path", [("spec", "naming"), ("spec", "definition"), ("metadata", "namespace")])
def test_the_definition_refuses_what_lacks_something(path: tuple[str, str]) -> None:
    data = manifest(read_topology(SHIPPED / "one-leaf.yaml"))
    del data[path[0]][path[1]]
    assert not jsonschema.Draft7Validator(TOPOLOGY).is_valid(data)


def test_the_definition_refuses_what_the_server_would_drop() -> None:
    data = manifest(read_topology(SHIPPED / "one-leaf.yaml"))
    data["spec"]["deployment"]["resource"] = data["spec"]["deployment"].pop("resources")
    assert not jsonschema.Draft7Validator(TOPOLOGY).is_valid(data)


def test_containerlab_s_schema_takes_the_lab_in_it(fabric: Topology) -> None:
    lab = yaml.safe_load(manifest(fabric)["spec"]["definition"]["containerlab"])
    jsonschema.Draft7Validator(CLAB).validate(lab)
    assert [link["endpoints"] for link in lab["topology"]["links"]] == [
        [str(a) for a in x.ends] for x in fabric.links
    ]


def test_every_file_of_a_bind_comes_from_a_config_map(fabric: Topology) -> None:
    spec, kept = manifest(fabric)["spec"], maps(fabric)
    nodes = yaml.safe_load(spec["definition"]["containerlab"])["topology"]["nodes"]
    for name, node in nodes.items():
        mounted = {each["filePath"]: each for each in spec["deployment"]["filesFromConfigMap"][name]}
        assert set(mounted) == {bind.split(":")[0] for bind in node["binds"]}
        for each in mounted.values():
            assert kept[each["configMapName"]]["data"][each["configMapPath"]]
    assert set(spec["deployment"]["filesFromConfigMap"]) == set(nodes)


def test_config_maps_are_such_as_kubernetes_takes(fabric: Topology) -> None:
    string_map = {"type": "object", "propertyNames": {"pattern": _KEY}, "additionalProperties": {"type": "string"}}
    named = {"type": "object", "properties": {"name": {"pattern": _RESOURCE_NAME}, "namespace": {}}}
    schema = {
        "additionalProperties": False,
        "required": ["metadata", "data"],
        "properties": {
            "apiVersion": {"const": "v1"},
            "kind": {"const": "ConfigMap"},
            "metadata": {**named, "additionalProperties": False},
            "data": string_map,
        },
    }
    namespace = manifest(fabric)["metadata"]["namespace"]
    for each in maps(fabric).values():
        jsonschema.Draft7Validator(schema).validate(each)
        assert each["metadata"]["namespace"] == namespace


def test_nodes_that_are_called_as_our_own_maps() -> None:
    text = "name: t\nnodes: {leaf1: {role: leaf}, common: {role: host}}\nlinks: [{ends: [common, leaf1]}]\n"
    assert set(maps(load_topology(text))) == {"common", "node-common", "node-leaf1"}


def test_placement() -> None:
    placed = ClusterPlacement(Images("a/frr:1", "b/tools"), "c/launcher:2", {"rocelab/rdma": "yes"})
    spec = manifest(read_topology(SHIPPED / "one-leaf.yaml"), placed)["spec"]
    nodes = yaml.safe_load(spec["definition"]["containerlab"])["topology"]["nodes"]
    assert (nodes["leaf1"]["image"], nodes["h1"]["image"]) == ("a/frr:1", "b/tools")
    assert spec["deployment"]["launcherImage"] == "c/launcher:2"
    assert spec["deployment"]["scheduling"] == {"nodeSelector": {"rocelab/rdma": "yes"}}
    jsonschema.Draft7Validator(_SPEC).validate(spec)


def test_what_rdma_and_ports_need_is_said() -> None:
    lossless = manifest(read_topology(SHIPPED / "one-leaf.yaml"))["metadata"]["annotations"]
    assert set(lossless) == {"rocelab/rdma-needs", "rocelab/qos-needs"}
    assert set(manifest(read_topology(SHIPPED / "clos-2x4.yaml"))["metadata"]["annotations"]) == {
        "rocelab/rdma-needs"
    }


@pytest.mark.parametrize("label", [{"a b": "c"}, {"": "c"}, {"a": "c d"}, {"UPPER/a": "c"}, {"a": "x" * 64}])
def test_what_cannot_be_a_label(label: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="is no label: write it like rocelab/rdma=yes"):
        ClusterPlacement(selector=label)


def test_files_that_do_not_fit_a_config_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.export.clabernetes.DATA_LIMIT", 1000)
    assert DATA_LIMIT == 1024 * 1024
    with pytest.raises(UsageError, match=r"the files of node-leaf1 take .* bytes, and a ConfigMap 1000"):
        export_topology(read_topology(SHIPPED / "one-leaf.yaml"), ClusterPlacement())


def test_matches_the_golden_folder() -> None:
    folder = HERE / "golden" / "c9s-one-leaf"
    golden = {path.name: path.read_text() for path in folder.iterdir()}
    assert dict(export_topology(read_topology(SHIPPED / "one-leaf.yaml"), ClusterPlacement())) == golden
