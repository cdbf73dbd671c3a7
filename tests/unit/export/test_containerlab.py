"""``rocelab export containerlab``: against containerlab's own schema, golden folders, and the plan of namespaces."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from lab.errors import UsageError
from lab.export.clabernetes import ClusterPlacement, export_topology
from lab.export.containerlab import DEFAULT_IMAGE, DeployedLab, Images, export_lab
from lab.model.addressing import plan_addresses
from lab.model.load import load_topology, read_topology
from lab.model.topology import Topology
from lab.routing.frr_config.render import render_router
from tests.unit.export.conftest import HERE, OVERLAYS, SHIPPED

SCHEMA = json.loads((HERE / "schemas" / "clab.schema.json").read_text())


def lab_of(files: Any) -> Any:
    return yaml.safe_load(files["clab.yml"])


def test_containerlab_s_schema_takes_it(fabric: Topology) -> None:
    jsonschema.Draft7Validator(SCHEMA).validate(lab_of(export_lab(fabric, Images())))


def test_the_schema_refuses_what_is_wrong() -> None:
    lab = lab_of(export_lab(read_topology(SHIPPED / "one-leaf.yaml"), Images()))
    lab["topology"]["nodes"]["h1"]["bind"] = lab["topology"]["nodes"]["h1"].pop("binds")
    assert not jsonschema.Draft7Validator(SCHEMA).is_valid(lab)


@pytest.mark.parametrize(
    "source", [SHIPPED / "one-leaf.yaml", HERE / "fabrics" / "two-rails.yaml"], ids=lambda p: p.stem
)
def test_matches_the_golden_folder(source: Path) -> None:
    folder = HERE / "golden" / source.stem
    golden = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert dict(export_lab(read_topology(source), Images())) == golden


def test_each_switch_has_the_lines_that_its_daemons_have_in_a_namespace(fabric: Topology) -> None:
    files, plan = export_lab(fabric, Images()), plan_addresses(fabric)
    for switch in fabric.switches:
        rendered = render_router(fabric, plan, switch.name)
        lines = files[f"{switch.name}/frr.conf"].splitlines()
        assert [line for text in rendered.files.values() for line in text.splitlines() if line not in lines] == []
        enabled = {line.partition("=")[0] for line in files[f"{switch.name}/daemons"].splitlines() if "=yes" in line}
        assert enabled == {*rendered.files, "vtysh_enable"}


def test_every_bind_is_a_file_of_the_export(fabric: Topology) -> None:
    files = export_lab(fabric, Images())
    nodes = lab_of(files)["topology"]["nodes"]
    bound = {bind.split(":")[0] for node in nodes.values() for bind in node["binds"]}
    assert bound == set(files) - {"clab.yml"}


def test_links_are_those_of_the_fabric(fabric: Topology) -> None:
    links = lab_of(export_lab(fabric, Images()))["topology"]["links"]
    told = [
        [f"{end['node']}:{end['interface']}" for end in link["endpoints"]] + [link["mtu"]]  # one row a cable
        for link in links
    ]
    assert told == [[str(link.a), str(link.b), link.mtu] for link in fabric.links]
    macs = [end["mac"] for link in links for end in link["endpoints"]]
    assert len(set(macs)) == len(macs) == 2 * len(fabric.links)


def test_the_head_says_what_is_left_out() -> None:
    lossless = export_lab(read_topology(SHIPPED / "one-leaf.yaml"), Images())["clab.yml"]
    plain = export_lab(read_topology(SHIPPED / "clos-2x4.yaml"), Images())["clab.yml"]
    assert "# - qos: " in lossless
    assert "# - rdma: " in lossless
    assert "# - qos: " not in plain


def test_images_are_parameters() -> None:
    topology = read_topology(SHIPPED / "one-leaf.yaml")
    both = lab_of(export_lab(topology, Images("my/frr:1")))["topology"]["groups"]
    each = lab_of(export_lab(topology, Images("my/frr:1", "localhost:5000/tools")))["topology"]["groups"]
    assert (both["switch"]["image"], both["host"]["image"]) == ("my/frr:1", "my/frr:1")
    assert (each["switch"]["image"], each["host"]["image"]) == ("my/frr:1", "localhost:5000/tools")
    assert Images().switch == DEFAULT_IMAGE


@pytest.mark.parametrize("image", ["Quay.io/x y", "-x", "a//b", "x:", "x:-", "x\n", "", "x" * 400])
def test_what_cannot_be_an_image(image: str) -> None:
    with pytest.raises(UsageError, match="is not an image: write one like quay"):
        Images(image)


@pytest.mark.parametrize("name", ["host", "mgmt-net", "macvlan", "vxlan", "vxlan-stitch", "dummy"])
def test_names_that_containerlab_has_for_something_else(name: str) -> None:
    text = f"name: t\nnodes: {{leaf1: {{role: leaf}}, {name}: {{role: host}}}}\nlinks: [{{ends: [{name}, leaf1]}}]\n"
    with pytest.raises(UsageError, match=f"a node {name} cannot be"):
        export_lab(load_topology(text), Images())


@pytest.mark.parametrize("source", OVERLAYS, ids=lambda path: path.stem)
def test_an_overlay_is_refused(source: Path) -> None:
    topology = read_topology(source)
    with pytest.raises(UsageError, match="has an overlay, and the bridges, VXLAN devices and VRFs"):
        export_lab(topology, Images())
    with pytest.raises(UsageError, match="has an overlay"):
        export_topology(topology, ClusterPlacement())


def test_a_node_called_as_a_file_of_the_lab_has_a_folder_all_the_same() -> None:
    text = "name: t\nnodes: {leaf1: {role: leaf}, hosts: {role: host}}\nlinks: [{ends: [hosts, leaf1]}]\n"
    files = export_lab(load_topology(text), Images())
    assert not {path.split("/")[0] for path in files if "/" in path} & set(files)


def test_a_lab_that_rocelab_plays_has_nodes_alone_which_say_whose_they_are(fabric: Topology) -> None:
    sockets = {switch.name: Path("/run/rocelab", switch.name) for switch in fabric.switches}
    lab = lab_of(export_lab(fabric, Images(), DeployedLab("4711", sockets)))
    jsonschema.Draft7Validator(SCHEMA).validate(lab)
    assert "links" not in lab["topology"]
    assert lab["mgmt"] == {"skip-when-unused": True}
    assert lab["topology"]["defaults"]["labels"]["rocelab.owner"] == "4711"
    assert lab["topology"]["nodes"].keys() == {node.name for node in fabric.nodes}
    for name, node in lab["topology"]["nodes"].items():
        assert node["exec"] == ["sh -c 'cat /etc/rocelab/hosts > /etc/hosts'"]
        assert (f"/run/rocelab/{name}:/run/frr" in node["binds"]) == (name in sockets)
    usual = lab_of(export_lab(fabric, Images()))
    assert "mgmt" not in usual
    assert "rocelab.owner" not in usual["topology"]["defaults"].get("labels", {})
