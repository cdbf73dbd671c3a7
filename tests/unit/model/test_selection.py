import pytest

from lab.errors import UsageError
from lab.model.topology import Endpoint, Link, Node, Role, Topology
from lab.model.values.link_selection import FORMS, PORT_FORMS, choose_links, choose_ports, every_port


def link(a: str, b: str) -> Link:
    (node_a, interface_a), (node_b, interface_b) = a.split(":"), b.split(":")
    return Link(Endpoint(node_a, interface_a), Endpoint(node_b, interface_b), rate=10**8, mtu=1500)


TWIN1, TWIN2 = link("leaf1:swp1", "spine1:swp1"), link("leaf1:swp2", "spine1:swp2")
DOWN = link("h1:eth1", "leaf1:swp3")
FABRIC = Topology(
    "demo",
    nodes=(Node("spine1", Role.SPINE), Node("leaf1", Role.LEAF), Node("h1", Role.HOST)),
    links=(TWIN1, TWIN2, DOWN),
)


def ends(*names: str) -> list[str]:
    return [str(choice.end) for choice in choose_links(FABRIC, names)]


def test_an_end_is_its_link() -> None:
    assert ends("leaf1:swp1") == ["leaf1:swp1"]
    assert choose_links(FABRIC, ["spine1:swp2"])[0].link is TWIN2


@pytest.mark.parametrize("name", ["leaf1--spine1", "leaf1,spine1"])
def test_two_nodes_are_all_links_between_them_seen_from_the_first(name: str) -> None:
    assert ends(name) == ["leaf1:swp1", "leaf1:swp2"]


def test_two_ends_are_their_link() -> None:
    assert ends("spine1:swp1--leaf1:swp1") == ["spine1:swp1"]


def test_a_link_named_twice_is_captured_once() -> None:
    assert ends("leaf1:swp2", "spine1:swp2", "leaf1--spine1") == ["leaf1:swp2", "leaf1:swp1"]


def test_a_node_is_all_its_links_and_a_tier_those_of_all_its_nodes() -> None:
    assert ends("leaf1") == ["leaf1:swp1", "leaf1:swp2", "leaf1:swp3"]
    assert ends("host") == ["h1:eth1"]
    assert ends("spine", "h1") == ["spine1:swp1", "spine1:swp2", "h1:eth1"]


CLOS = Topology(
    "clos",
    nodes=(
        *(Node(name, Role.SPINE) for name in ("spine1", "spine2")),
        *(Node(name, Role.LEAF) for name in ("leaf1", "leaf2", "leaf3")),
        *(Node(name, Role.HOST) for name in ("h1", "h2", "h3", "h4")),
    ),
    links=(
        *(link(f"leaf{leaf}:swp{spine}", f"spine{spine}:swp{leaf}") for leaf in (1, 2, 3) for spine in (1, 2)),
        link("h1:eth1", "leaf1:swp3"),
        link("h2:eth1", "leaf2:swp3"),
        link("h3:eth1", "leaf3:swp3"),
        link("h2:eth2", "leaf1:swp4"),
    ),
)


def test_a_path_is_every_link_on_every_shortest_path_seen_from_its_start() -> None:
    chosen = [str(choice.end) for choice in choose_links(CLOS, ["h1..h3"])]
    assert chosen[0] == "h1:eth1"
    assert sorted(chosen[1:3]) == ["leaf1:swp1", "leaf1:swp2"]
    assert sorted(chosen[3:5]) == ["spine1:swp3", "spine2:swp3"]
    assert chosen[5:] == ["leaf3:swp3"]


def test_no_path_leads_through_a_third_host() -> None:
    """h2 joins leaf1 and leaf2 in two links, the spines in two as well: only theirs are a path."""
    assert len(choose_links(CLOS, ["leaf1..leaf2"])) == 4
    with pytest.raises(UsageError, match=r"no path from h1 to h4"):
        choose_links(CLOS, ["h1..h4"])


def test_a_node_called_like_a_tier_is_the_node() -> None:
    odd = Topology("odd", (Node("leaf", Role.SPINE), Node("leaf1", Role.LEAF)), (link("leaf1:swp1", "leaf:swp1"),))
    assert [str(choice.end) for choice in choose_links(odd, ["leaf"])] == ["leaf:swp1"]


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("leaf9:swp1", "no node 'leaf9' in fabric demo: there is leaf1"),
        ("leaf1:swp9", "no interface 'swp9' on leaf1: it has swp1, swp2, swp3"),
        ("h1--spine1", "no link between h1 and spine1: h1 has links to leaf1"),
        ("leaf1--leaf7", "no node 'leaf7' in fabric demo: there is leaf1"),
        ("leaf1:swp1--h1:eth1", "leaf1:swp1 does not lead to h1:eth1: it leads to spine1:swp1"),
        ("leaf7", "no node or tier 'leaf7' in fabric demo: there is leaf1"),
        ("spien1", "no node or tier 'spien1' in fabric demo: did you mean 'spine1'?"),
        ("x", "no node or tier 'x' in fabric demo: there is spine1, leaf1, h1; tiers are spine, leaf, host"),
        ("a--b--c", f"'a--b--c' names no link: {FORMS}"),
        ("", f"'' names no link: {FORMS}"),
        ("h1..h9", "no node 'h9' in fabric demo: there is h1"),
        ("h1..h1", "no path from h1 to h1 in fabric demo: name two nodes that are joined"),
    ],
)
def test_a_wrong_name_is_answered_with_what_there_is(name: str, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose_links(FABRIC, [name])
    assert str(caught.value) == complaint


def ports(*names: str) -> list[str]:
    return [str(end) for end in choose_ports(FABRIC, names)]


def test_ports_are_ends_not_links() -> None:
    assert ports("leaf1:swp1", "spine1:swp1", "leaf1:swp1") == ["leaf1:swp1", "spine1:swp1"]
    assert ports("leaf1") == ports("leaf") == ["leaf1:swp1", "leaf1:swp2", "leaf1:swp3"]
    assert [str(end) for end in every_port(FABRIC)] == [*ports("spine1"), *ports("leaf1"), *ports("h1")]


@pytest.mark.parametrize("name", ["leaf1--spine1", "h1..spine1", "", "leaf1,h1"])
def test_names_of_links_name_no_port(name: str) -> None:
    with pytest.raises(UsageError, match=PORT_FORMS):
        ports(name)


def test_ports_that_do_not_exist_are_told_what_there_is() -> None:
    with pytest.raises(UsageError, match="no interface 'swp9' on leaf1: it has swp1, swp2, swp3"):
        ports("leaf1:swp9")
