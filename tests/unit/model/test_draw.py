"""Pictures: well-formed, complete, nothing outside, nothing overlapping, and nothing of the text read as markup."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from itertools import combinations, product
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree as ET

import pytest
from matplotlib.image import imread

from lab.kernel.process.process import find_tool, run
from lab.model.draw.graphviz import draw_graphviz
from lab.model.draw.layout import lay_out
from lab.model.draw.mermaid import draw_mermaid
from lab.model.draw.palette import RAILS, TIERS, light_colours, tenant_colours
from lab.model.draw.raster import render
from lab.model.draw.svg import draw_svg
from lab.model.load import load_topology, read_topology
from lab.model.output.topology_template import new_topology, room_for_tunnels, with_tenants
from lab.model.topology import Role, Topology

TOPOLOGIES = Path(__file__).parents[3] / "topologies"
ODD = light_colours()["odd"][1]
SVG = "{http://www.w3.org/2000/svg}"
SHAPES = {
    "small": ("leaf-spine", {"spines": 2, "leaves": 2}),
    "stacked": ("leaf-spine", {"spines": 4, "leaves": 8, "hosts_per_leaf": 4}),
    "hundred": ("leaf-spine", {"spines": 8, "leaves": 32, "hosts_per_leaf": 2}),
    "many-spines": ("leaf-spine", {"spines": 20, "leaves": 2, "hosts_per_leaf": 1}),
    "pods": ("clos", {"pods": 3, "superspines": 4, "spines_per_pod": 2, "leaves_per_pod": 3}),
    "rails": ("rail-optimised", {"rails": 8, "hosts_per_unit": 12, "units": 2, "spines": 4}),
    "no-hosts": ("leaf-spine", {"spines": 2, "leaves": 2, "hosts_per_leaf": 0}),
}


def parse(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314 - our own text, and the test is that it is well-formed


@pytest.fixture(params=list(SHAPES.values()), ids=list(SHAPES))
def fabric(request: pytest.FixtureRequest, generate: Callable[..., Topology]) -> Topology:
    shape, counts = request.param
    return generate(shape, **counts)


def test_svg_has_every_node_and_link(fabric: Topology) -> None:
    tree = parse(draw_svg(fabric))
    texts = [element.text for element in tree.iter(f"{SVG}text")]
    assert all(texts.count(node.name) == 1 for node in fabric.nodes)
    wires = [path.findtext(f"{SVG}title", "") for path in tree.iter(f"{SVG}path")]
    assert sorted(wire.split(": ")[0] for wire in wires) == sorted(f"{link.a} -- {link.b}" for link in fabric.links)


def test_a_page_finds_cards_and_ends_of_wires_by_name(fabric: Topology) -> None:
    tree = parse(draw_svg(fabric, named=True))
    cards = [card.get("data-node") for card in tree.iter(f"{SVG}g") if card.get("data-node")]
    assert sorted(cards, key=str) == sorted(node.name for node in fabric.nodes)
    wires = {(path.get("data-lower"), path.get("data-upper")) for path in tree.iter(f"{SVG}path")}
    assert wires == {tuple(map(str, fabric.lower_first(link))) for link in fabric.links}
    boxes = lay_out(fabric, lambda node: node.name).boxes
    for path in tree.iter(f"{SVG}path"):
        start = float(path.get("d", "").split()[0].removeprefix("M"))
        upper = boxes[path.get("data-upper", "").split(":")[0]]
        assert upper.x <= start <= upper.x + upper.width
    assert "data-" not in draw_svg(fabric)


def test_cards_are_on_the_sheet_and_apart(fabric: Topology) -> None:
    layout = lay_out(fabric, lambda node: node.name)
    boxes = list(layout.boxes.values())
    assert len(boxes) == len(fabric.nodes)
    for box in boxes:
        assert box.x >= layout.left
        assert box.x + box.width <= layout.width
        assert box.y + box.height <= layout.height
    for one, other in combinations(boxes, 2):
        beside = one.x + one.width <= other.x or other.x + other.width <= one.x
        above = one.y + one.height <= other.y or other.y + other.height <= one.y
        assert beside or above, (one, other)


def test_wires_end_at_their_cards(fabric: Topology) -> None:
    layout = lay_out(fabric, lambda node: node.name)
    for wire in layout.wires:
        ends = {end.node: layout.boxes[end.node] for end in wire.link.ends}
        low, high = sorted(ends.values(), key=lambda box: -box.y)
        assert low.x <= wire.lower[0] <= low.x + low.width
        assert high.x <= wire.upper[0] <= high.x + high.width
        assert wire.upper[1] == high.y + high.height


def test_a_hundred_nodes_keep_a_readable_shape(generate: Callable[..., Topology]) -> None:
    layout = lay_out(generate("leaf-spine", spines=8, leaves=32, hosts_per_leaf=2), lambda node: node.name)
    assert layout.width < 2000
    assert layout.style.font >= 9


def test_links_unlike_the_others_are_marked(generate: Callable[..., Topology]) -> None:
    fabric = generate("leaf-spine", "overrides: {leaf2--spine1: {rate: 20Mbit, delay: 5ms}}", spines=2, leaves=4)
    tree = parse(draw_svg(fabric))
    odd = [path.findtext(f"{SVG}title") for path in tree.iter(f"{SVG}path") if path.get("class") == "odd"]
    assert odd == ["leaf2:swp1 -- spine1:swp2: 20 Mb/s, MTU 9000, 5 ms delay"]
    assert "20 Mb/s, 5 ms" in [element.text for element in tree.iter(f"{SVG}text")]


def test_markup_in_texts_stays_text(small: Topology) -> None:
    hostile = replace(small, name='</title><script>alert("1")</script>&', description="]]> \" ' <!--")
    tree = parse(draw_svg(hostile))
    assert tree.findtext(f"{SVG}title") == hostile.name
    assert not list(tree.iter(f"{SVG}script"))
    assert r"\"1\"" in draw_graphviz(hostile).splitlines()[0]


def test_long_names_are_cut_in_the_card_and_whole_in_the_tooltip(small: Topology) -> None:
    long = "a" * 32
    nodes = tuple(replace(node, name=long) if node.name == "h1" else node for node in small.nodes)
    links = tuple(
        replace(link, a=replace(link.a, node=long)) if link.a.node == "h1" else link for link in small.links
    )
    svg = draw_svg(replace(small, nodes=nodes, links=links))
    assert f">{'a' * 17}…<" in svg
    assert f"<title>{long} (host)" in svg


def test_mermaid_has_every_node_and_link(fabric: Topology) -> None:
    lines = draw_mermaid(fabric).splitlines()
    assert lines[0] == "flowchart TB"
    assert sum(" ---|" in line for line in lines) == len(fabric.links)
    cards = [found[1] for line in lines if (found := re.fullmatch(r' +n\d+\(?\["([a-z0-9-]+)"\]\)?', line))]
    assert sorted(cards) == sorted(node.name for node in fabric.nodes)
    opened = sum(line.lstrip().startswith("subgraph") for line in lines)
    assert opened == sum(line.strip() == "end" for line in lines)


def test_graphviz_accepts_the_graph(fabric: Topology) -> None:
    parsed = run([find_tool("dot", "graphviz"), "-Tdot_json"], stdin=draw_graphviz(fabric))
    graph = json.loads(parsed.stdout)
    nodes = [item["name"] for item in graph["objects"] if "nodes" not in item and not item["name"].startswith("%")]
    assert sorted(nodes) == sorted(node.name for node in fabric.nodes)
    ports = {(edge["taillabel"], edge["headlabel"]) for edge in graph["edges"]}
    assert len(graph["edges"]) == len(fabric.links)
    assert ports == {(link.b.interface, link.a.interface) for link in fabric.links}
    assert parsed.stderr == ""


def test_hosts_links_have_their_tenants_colour_and_switches_links_none() -> None:
    """A tenant that is called like a colour has it; the legend names both."""
    tenants = read_topology(TOPOLOGIES / "tenant.yaml")
    tree = parse(draw_svg(tenants))
    colours = {
        path.findtext(f"{SVG}title", "").split(":")[0]: path.get("style", "") for path in tree.iter(f"{SVG}path")
    }
    assert {colours[host] for host in ("h1", "h3", "h5")} == {"stroke: #1d4ed8"}
    assert {colours[host] for host in ("h2", "h4", "h6")} == {"stroke: #dc2626"}
    assert {colour for end, colour in colours.items() if not end.startswith("h")} == {""}
    assert {"blue", "red"} <= {element.text for element in tree.iter(f"{SVG}text")}
    assert draw_graphviz(tenants).count('color="#dc2626"') == 3
    assert draw_mermaid(tenants).count("stroke:#1d4ed8") == 3


def test_a_tenant_without_a_colours_name_has_one_that_no_other_has() -> None:
    text = (TOPOLOGIES / "tenant.yaml").read_text().replace("blue", "acme")
    assert tenant_colours(load_topology(text)) == {"red": "#dc2626", "acme": "#1d4ed8"}


def channels(colour: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(colour.removeprefix("#")))


def test_no_colour_of_a_rail_or_tenant_is_like_that_of_a_tier_or_of_another() -> None:
    text = (TOPOLOGIES / "tenant.yaml").read_text()
    named = [tenant_colours(load_topology(text.replace("blue", name)))[name] for name in ("teal", "orange", "purple")]
    tiers = [line for _, line in TIERS.values()]
    for one, other in [*combinations(RAILS, 2), *product([*RAILS, *named], tiers), *product(RAILS, [ODD])]:
        assert math.dist(channels(one), channels(other)) > 40, (one, other)


def legend(svg: str) -> list[str]:
    """The words at the bottom of a picture."""
    texts = [text.text or "" for text in parse(svg).iter(f"{SVG}text") if text.get("font-size") == "11"]
    return [text for text in texts if not text.startswith("pod")]


def test_each_rail_has_a_colour_that_the_legend_names(generate: Callable[..., Topology]) -> None:
    svg = draw_svg(generate("rail-optimised", rails=10, hosts_per_unit=2, units=2, spines=1))
    assert legend(svg)[1:] == ["rail 1, 9", "rail 2, 10", *(f"rail {number}" for number in range(3, 9))]
    tree = parse(svg)
    bars = [bar.get("fill") for bar in tree.iter(f"{SVG}rect") if bar.get("height") == "4"]
    assert bars == list(RAILS)
    colours = {path.findtext(f"{SVG}title", ""): path.get("style") for path in tree.iter(f"{SVG}path")}
    of_h2 = [colour for title, colour in colours.items() if title.startswith("h2:")]
    assert of_h2 == [f"stroke: {RAILS[place % 8]}" for place in range(10)]


@pytest.mark.parametrize(
    "links",
    [
        ["h1:eth1, leaf1", "h1:eth2, leaf2", "h2, leaf1", "h3, leaf2"],  # a leaf with NICs of both numbers
        ["h1:eth1, leaf1", "h1:eth2, leaf1", "h2, leaf2", "h3, leaf2"],  # both NICs of a host on one leaf
        ["h1:eth1, leaf1", "h2, leaf1", "h3, leaf2", "h3, leaf1"],
    ],
)
def test_hosts_with_several_nics_are_no_rails(links: list[str]) -> None:
    nodes = "spine1: {role: spine}, leaf1: {role: leaf}, leaf2: {role: leaf}"
    hosts = "".join(f", h{number}: {{role: host}}" for number in (1, 2, 3))
    cables = "".join(f"  - ends: [{link}]\n" for link in ["leaf1, spine1", "leaf2, spine1", *links])
    svg = draw_svg(load_topology(f"name: t\nnodes: {{{nodes}{hosts}}}\nlinks:\n{cables}"))
    assert legend(svg) == ["RDMA NIC (rxe)"]
    assert "style=" not in svg


def test_a_bond_is_no_rail() -> None:
    svg = draw_svg(read_topology(TOPOLOGIES / "multihomed.yaml"))
    assert legend(svg) == ["RDMA NIC (rxe)"]
    assert "rail" not in svg


def test_two_hosts_with_a_bond_alone_are_no_rails() -> None:
    text = (TOPOLOGIES / "multihomed.yaml").read_text().replace("  - ends: [h2, leaf1]\n", "")
    without = text.replace("  h2: {role: host}\n", "").replace("[h1, h2, h3]", "[h1, h3]")
    assert legend(draw_svg(load_topology(without))) == ["RDMA NIC (rxe)"]


def test_a_long_legend_has_several_rows_on_the_sheet() -> None:
    plain = new_topology(
        "t", "leaf-spine", {"spines": 1, "leaves": 2, "hosts_per_leaf": 6, **room_for_tunnels(None)}, {}
    )
    svg = draw_svg(load_topology(with_tenants(plain, 12)))
    width, height = (float(parse(svg).get(name, "")) for name in ("width", "height"))
    bars = [bar for bar in parse(svg).iter(f"{SVG}rect") if bar.get("height") == "4"]
    assert len(bars) == 12
    assert len({bar.get("y") for bar in bars}) > 1
    assert all(float(bar.get("x", "")) < width and float(bar.get("y", "")) < height - 20 for bar in bars)


@pytest.mark.parametrize(("kind", "magic"), [("png", b"\x89PNG\r\n\x1a\n"), ("pdf", b"%PDF-1.")])
def test_pictures_are_what_they_are_called(small: Topology, kind: Literal["png", "pdf"], magic: bytes) -> None:
    svg = draw_svg(small)
    picture = render(svg, kind)
    assert picture.startswith(magic)
    assert picture == render(svg, kind)


def test_a_png_shows_what_the_svg_does(small: Topology) -> None:
    """Twice as many pixels as units, the sheet white, a spine's card in its colours, no text outside."""
    svg = draw_svg(small)
    pixels = imread(BytesIO(render(svg, "png")))
    tree = parse(svg)
    assert pixels.shape[:2] == (2 * int(tree.get("height", "")), 2 * int(tree.get("width", "")))
    card = next(rect for rect in tree.iter(f"{SVG}rect") if rect.get("class") == "spine")
    x, y = (float(card.get(name, "")) for name in ("x", "y"))
    fill, line = TIERS[Role.SPINE]
    inside = pixels[int(2 * (y + 4)), int(2 * (x + 8)), :3]
    edge = pixels[int(2 * (y + float(card.get("height", "")) / 2)), int(2 * x), :3]
    assert [round(255 * value) for value in inside] == list(channels(fill))
    assert math.dist([255 * value for value in edge], channels(line)) < 60
    assert (pixels[4, pixels.shape[1] // 2, :3] == 1).all()


def test_text_of_a_pdf_is_text_and_never_a_formula(small: Topology) -> None:
    assert render(draw_svg(replace(small, name="$x^2$")), "pdf").startswith(b"%PDF")
