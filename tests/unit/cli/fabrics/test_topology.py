"""``rocelab topology``: what it prints, where it writes, how it ends."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from lab.cli.fabrics.import_lab import app as import_app
from lab.cli.fabrics.topology import app
from lab.errors import InvalidInput, UsageError
from lab.model.load import read_topology

SHIPPED = Path(__file__).parents[4] / "topologies"
BROKEN = Path(__file__).parents[2] / "model" / "errors" / "links.yaml"

LAB = """\
name: small
topology:
  nodes:
    leaf1: {kind: linux, image: frr, labels: {rocelab.role: leaf}}
    h1: {kind: linux, image: alpine}
  links: [{endpoints: ["leaf1:eth1", "h1:eth1"]}]
"""


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout


def test_check_passes_what_is_shipped() -> None:
    lines = run("check", *sorted(SHIPPED.glob("*.yaml"))).splitlines()
    fine = [line.split(":")[0] for line in lines if ": ok, " in line]
    assert fine == [str(path) for path in sorted(SHIPPED.glob("*.yaml"))]
    assert all(": ok, " in line or ": congestion control of " in line for line in lines)


def test_check_goes_on_after_a_broken_file(tmp_path: Path) -> None:
    output = run("check", BROKEN, tmp_path / "missing.yaml", SHIPPED / "clos-2x2.yaml", code=2)
    assert "clos-2x2.yaml: ok, 8 nodes and 8 links" in output


def test_check_counts_a_single_link(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text("name: t\nnodes: {leaf1: {role: leaf}, h1: {role: host}}\nlinks: [{ends: [h1, leaf1]}]\n")
    assert run("check", path).endswith("ok, 2 nodes and 1 link\n")
    assert "2 nodes, 1 link\n" in run("show", path)


@pytest.mark.parametrize("shape", ["leaf-spine", "clos", "rail-optimised"])
def test_an_edited_file_is_not_overwritten_unless_by_force(shape: str, tmp_path: Path) -> None:
    output = tmp_path / "mine.yaml"
    output.touch()
    for _ in range(2):  # an empty file, and one with the same content
        run("new", shape, "-o", output)
    written = output.read_text(encoding="utf-8")
    output.write_text("name: edited\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"mine\.yaml already exists: name another .* --force"):
        run("new", shape, "-o", output)
    assert output.read_text(encoding="utf-8") == "name: edited\n"
    run("new", shape, "-o", output, "--force")
    assert output.read_text(encoding="utf-8") == written


def test_an_import_overwrites_no_edited_file(tmp_path: Path) -> None:
    lab, output = tmp_path / "lab.yml", tmp_path / "lab.yaml"
    lab.write_text(LAB, encoding="utf-8")
    output.write_text("name: edited\n", encoding="utf-8")
    refused = CliRunner().invoke(import_app, ["containerlab", str(lab), "-o", str(output)]).exception
    assert isinstance(refused, UsageError)
    assert output.read_text(encoding="utf-8") == "name: edited\n"
    assert CliRunner().invoke(import_app, ["containerlab", str(lab), "-o", str(output), "--force"]).exit_code == 0
    assert read_topology(output).name == "small"


def test_check_warns_of_what_is_unwise(tmp_path: Path) -> None:
    path = tmp_path / "unwise.yaml"
    path.write_text(
        "name: t\ndefaults: {rate: 500Mbit}\ngenerate: {shape: leaf-spine, spines: 1, leaves: 2}\n"
        "qos: {fabric: late, profiles: {late: {ecn: {3: {kmin: 90MB, kmax: 91MB}}}}}\n"
    )
    assert run("check", path).endswith("ok, 7 nodes and 6 links\n")
    warning = CliRunner().invoke(app, ["check", str(path)]).stderr
    assert "unwise.yaml: warning: spine1:swp1" in warning
    assert "kmin 90 MB is not below" in warning
    assert {advice["field"] for advice in json.loads(run("show", "--json", path))["advice"]} == {"ecn.3.kmin"}


def test_check_prints_how_congestion_control_is_scaled(tmp_path: Path) -> None:
    path = tmp_path / "cc.yaml"
    shape = "generate: {shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 1}"
    path.write_text(f"name: t\ndefaults: {{rate: 100Mbit, mtu: 1500}}\n{shape}\nqos: paper\n")
    first, last = run("check", path).splitlines()
    assert "cc.yaml: congestion control of h1:eth1 h2:eth1: dcqcn, s = 40 Gb/s / 100 Mb/s = 400:" in first
    assert "rpg_time_reset 22 ms" in first
    assert last.endswith("ok, 5 nodes and 4 links")
    unscaled = "{fabric: [paper, raw], profiles: {raw: {nic: {cc: {real_rate: link}}}}}"
    path.write_text(path.read_text().replace("qos: paper", f"qos: {unscaled}"))
    refused = CliRunner().invoke(app, ["check", str(path)])
    assert refused.exit_code == 2
    assert "rpg_time_reset is 55 us, unscaled: 0.59 packets of 1.146 KB at 100 Mb/s" in refused.stderr


def test_show_has_the_figures() -> None:
    output = run("show", SHIPPED / "clos-3tier.yaml")
    for figure in ("22 nodes, 28 links", "1.5:1", "2:1", "2 Gb/s each way", "6 links apart"):
        assert figure in output


def test_show_addresses() -> None:
    output = run("show", "--addresses", SHIPPED / "clos-2x2.yaml")
    assert "4200100002" in output
    assert "eth1 10.0.0.7/31" in output


def test_show_json_agrees_with_the_model() -> None:
    path = SHIPPED / "rail-optimised.yaml"
    data, fabric = json.loads(run("show", "--json", path)), read_topology(path)
    assert [link["name"] for link in data["link_list"]] == [str(link) for link in fabric.links]
    assert [node["name"] for node in data["node_list"]] == [node.name for node in fabric.nodes]
    assert data["bisection_bandwidth"] == 8 * 10**9


def test_errors_reach_main_as_they_are() -> None:
    with pytest.raises(InvalidInput):
        run("show", BROKEN)


def test_graph_formats(tmp_path: Path) -> None:
    path = SHIPPED / "clos-2x2.yaml"
    assert ET.fromstring(run("graph", path)).tag.endswith("svg")  # noqa: S314 - our own text
    assert run("graph", path, "--format", "mermaid").startswith("flowchart")
    for suffix, start in ((".dot", "graph "), (".mmd", "flowchart"), (".svg", "<svg"), ("", "<svg")):
        output = tmp_path / f"fabric{suffix}"
        assert run("graph", path, "-o", output) == ""
        assert output.read_text(encoding="utf-8").startswith(start)


@pytest.mark.parametrize(("name", "magic"), [("a.png", b"\x89PNG"), ("a.PDF", b"%PDF-"), ("a.b.png", b"\x89PNG")])
def test_a_picture_is_what_its_name_says(name: str, magic: bytes, tmp_path: Path) -> None:
    run("graph", SHIPPED / "multihomed.yaml", "-o", tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(magic)


@pytest.mark.parametrize("name", ["a.jpg", "a.txt", "a.webp"])
def test_a_name_that_no_picture_has_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot draw a .* file: name it .svg, .png, .pdf"):
        run("graph", SHIPPED / "clos-2x2.yaml", "-o", tmp_path / name)
    assert not (tmp_path / name).exists()
    run("graph", SHIPPED / "clos-2x2.yaml", "-o", tmp_path / name, "--format", "svg")


def test_unwritable_output_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        run("graph", SHIPPED / "clos-2x2.yaml", "-o", tmp_path / "no" / "such" / "directory.svg")


@pytest.mark.parametrize(("shape", "nodes"), [("leaf-spine", 14), ("clos", 18), ("rail-optimised", 10)])
def test_new_writes_a_file_that_loads(tmp_path: Path, shape: str, nodes: int) -> None:
    output = tmp_path / "new.yaml"
    run("new", shape, "--name", "mine", "--rate", "50Mbit", "-o", output)
    fabric = read_topology(output)
    assert (fabric.name, len(fabric.nodes), fabric.links[0].rate) == ("mine", nodes, 50_000_000)


@pytest.mark.parametrize(
    ("file", "name"),
    [("mine.yaml", "mine"), ("rack-7.lab.yaml", "rack-7"), ("My Lab.yaml", "my-fabric"), ("a" * 25, "my-fabric")],
)
def test_a_new_fabric_has_the_name_of_its_file_if_it_can(file: str, name: str, tmp_path: Path) -> None:
    """As the quick start shows it: ``down --fabric mine`` takes down the fabric of mine.yaml."""
    for shape in ("leaf-spine", "clos", "rail-optimised"):
        run("new", shape, "-o", tmp_path / file, "--force")
        assert read_topology(tmp_path / file).name == name
    assert "name: my-fabric\n" in run("new", "leaf-spine")


def test_check_warns_of_links_that_nothing_can_fill(tmp_path: Path) -> None:
    path = tmp_path / "fast.yaml"
    run("new", "leaf-spine", "--qos", "pfc-ecn", "--rate", "25Gbit", "--mtu", "1500", "-o", path)
    warning = CliRunner().invoke(app, ["check", str(path)]).stderr
    assert "25 Gb/s is more than the 200 Mb/s that all links carry together" in warning
    assert {advice["field"] for advice in json.loads(run("show", "--json", path))["advice"]} == {"rate"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "leaf-spine --qos sonik",
            "topology new leaf-spine: --qos: there is no profile sonik; did you mean 'sonic'?",
        ),
        ("leaf-spine --rate 900Gbit", "topology new leaf-spine: --rate: 900 Gb/s is out of range; choose"),
        ("leaf-spine --mtu 9200 --tenants 2", "topology new leaf-spine: --mtu: 9250 bytes is out of range"),
        ("leaf-spine --name Bad", "topology new leaf-spine: --name: 'Bad' is not a fabric's name"),
        ("clos --leaves-per-pod 513", "topology new clos: --leaves-per-pod: 513 is too big; choose 512 or less"),
        ("rail-optimised --rails 99", "topology new rail-optimised: --rails: 99 is too big"),
        ("leaf-spine --leaves 500 --hosts-per-leaf 9", "topology new leaf-spine: makes 5002 nodes"),
    ],
)
def test_new_names_the_option_that_is_wrong(words: str, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        run("new", *words.split())
    assert str(caught.value).startswith(said)
    assert all(problem.line == 0 for problem in caught.value.problems)


def test_schema_is_json() -> None:
    assert json.loads(run("schema"))["title"] == "TopologySpec"
