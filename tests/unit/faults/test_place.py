"""Places of faults, against what the topology says its links are."""

import pytest

from lab.errors import UsageError
from lab.faults.fault_place import Form, find_place
from lab.model.load import load_topology

TOPOLOGY = load_topology("name: places\ngenerate: {shape: leaf-spine, spines: 2, leaves: 2, hosts_per_leaf: 2}\n")


def ends(form: Form, name: str) -> list[str]:
    return [str(end) for end in find_place(TOPOLOGY, form, name).ends]


def test_a_link_is_both_directions_and_an_end_is_what_it_sends() -> None:
    assert ends(Form.LINK, "leaf1--spine1") == ["leaf1:swp1", "spine1:swp1"]
    assert ends(Form.LINK, "leaf1:swp1--spine1:swp1") == ["leaf1:swp1", "spine1:swp1"]
    assert ends(Form.LINK, "leaf1:swp1") == ["leaf1:swp1"]


def test_one_end_of_a_link_is_the_one_named_first() -> None:
    assert ends(Form.END, "spine1--leaf1") == ["spine1:swp1"]
    assert ends(Form.END, "h1") == ["h1:eth1"]


def test_ports_are_those_of_ports_nodes_and_tiers() -> None:
    assert ends(Form.PORTS, "h1,leaf2:swp1") == ["h1:eth1", "leaf2:swp1"]
    assert len(ends(Form.PORTS, "leaf")) == 8


@pytest.mark.parametrize(
    ("form", "name", "told"),
    [
        (Form.SWITCH, "h1", "no switch 'h1' in fabric places: there is spine1, spine2, leaf1, leaf2"),
        (Form.SWITCH, "leaf9", "no switch 'leaf9' in fabric places: there is leaf1 to leaf2"),
        (Form.HOST, "leaf1", "no host 'leaf1' in fabric places: there is h1, h2, h3, h4"),
        (Form.NIC, "leaf1", "no host 'leaf1' in fabric places: there is h1, h2, h3, h4"),
        (
            Form.LINK,
            "leaf1",
            "leaf1 means 4 links: name one: there is leaf1:swp1, leaf1:swp2, leaf1:swp3, leaf1:swp4",
        ),
        (Form.END, "h1..h4", "h1..h4 means 6 links"),
        (Form.PORTS, "leaf1--spine1", "'leaf1--spine1' names no port"),
    ],
)
def test_what_is_no_such_place_is_told_with_what_there_is(form: Form, name: str, told: str) -> None:
    with pytest.raises(UsageError) as refused:
        find_place(TOPOLOGY, form, name)
    assert told in str(refused.value)


def test_a_host_with_several_nics_needs_one() -> None:
    rails = load_topology(
        "name: rails\n"
        "nodes: {s: {role: spine}, a: {role: leaf}, b: {role: leaf}, h: {role: host}}\n"
        "links: [{ends: [h, a]}, {ends: [h, b]}, {ends: [a, s]}, {ends: [b, s]}]\n"
    )
    with pytest.raises(UsageError, match="h has several NICs: say which: there is h:eth1, h:eth2"):
        find_place(rails, Form.NIC, "h")
    assert str(find_place(rails, Form.NIC, "h:eth2").ends[0]) == "h:eth2"
