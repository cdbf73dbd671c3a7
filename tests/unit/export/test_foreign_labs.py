"""Labs that rocelab has not written: their names, labels, MTUs and pods, and errors at the lines of their files."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.errors import InvalidInput
from lab.export.from_lab import import_lab, plain_name
from lab.export.lab_reader import read_lab
from lab.export.roles import roles_of
from lab.model.load import load_topology
from lab.model.topology import MAX_NODE_NAME, Role, Topology


def clab(nodes: dict[str, str], links: list[str], defaults: str = "") -> str:
    """A lab's file: what each node has behind its kind, ``a:1 b:1`` for each link; one node or link a line."""
    lines = ["name: t", "topology:", f"  defaults: {{{defaults}}}", "  nodes:"]
    lines += [f"    {name}: {{kind: linux, {rest}}}" for name, rest in nodes.items()]
    lines += ["  links:"]
    for link in links:
        one, other, *rest = link.split(" ", 2)
        lines.append(f"    - {{endpoints: ['{one}', '{other}']{''.join(rest)}}}")
    return "\n".join(lines) + "\n"


def imported(folder: Path, text: str) -> Topology:
    return load_topology(import_lab(written(folder, text))[0])


def written(folder: Path, text: str) -> Path:
    file = folder / "lab.clab.yml"
    file.write_text(text, encoding="utf-8")
    return file


def refused(folder: Path, text: str) -> list[tuple[int, str]]:
    """The lines and problems of the error; both the file's own."""
    with pytest.raises(InvalidInput) as caught:
        import_lab(written(folder, text))
    assert caught.value.source == str(folder / "lab.clab.yml")
    return [(problem.line, str(problem)) for problem in caught.value.problems]


STAR = {"spine1": "image: frr", "leaf1": "image: frr", "leaf2": "image: frr", "h1": "image: alpine"}
STAR_LINKS = ["leaf1:eth1 spine1:eth1", "leaf2:eth1 spine1:eth2", "h1:eth1 leaf1:eth2"]


@pytest.mark.parametrize("number", [3, 12])
@pytest.mark.parametrize("stem", ["a" * 32, "a" * 31 + "-", "Rack_A.position_17_of_the_long_row"])
def test_names_that_share_their_beginning_stay_apart(stem: str, number: int, tmp_path: Path) -> None:
    leaves = [f"{stem}{letter}-leaf" for letter in "abcdefghijkl"[:number]]
    nodes = {f"'{name}'": "image: frr" for name in leaves} | {"spine1": "image: frr"}
    fabric = imported(tmp_path, clab(nodes, [f"{name}:eth1 spine1:eth{n + 1}" for n, name in enumerate(leaves)]))
    assert len(fabric.nodes) == number + 1
    assert len({node.name for node in fabric.nodes}) == number + 1


@given(st.text(max_size=80), st.integers(4, MAX_NODE_NAME))
def test_a_plain_name_is_one_that_a_node_may_have(name: str, limit: int) -> None:
    plain = plain_name(name, limit)
    assert len(plain) <= limit
    load_topology(f"name: t\ndescription: d\nnodes: {{'{plain}': {{role: leaf}}}}\n")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.text(st.sampled_from("Ab1-. \u0660"), min_size=1, max_size=40), min_size=2, max_size=6, unique=True)
)
def test_any_names_become_different_ones(tmp_path: Path, names: list[str]) -> None:
    quoted = [f"'leaf {name}'" for name in names]
    nodes = dict.fromkeys(quoted, "image: frr") | {"spine1": "image: frr"}
    links = [f"- {{endpoints: [{name[:-1]}:eth1', 'spine1:eth{n + 1}']}}" for n, name in enumerate(quoted)]
    text = clab(nodes, []) + "".join(f"    {link}\n" for link in links)
    assert len(imported(tmp_path, text).nodes) == len(names) + 1


@pytest.mark.parametrize(
    ("label", "value", "said"),
    [
        ("rocelab.routing.bfd.interval", "[", "'[' is not a time"),
        ("rocelab.routing.bfd.multiplier", "{a: ", "is not a whole number"),
        ("rocelab.routing.bfd.enabled", "&x", "is neither true nor false"),
        ("rocelab.routing.bfd.nosuch", "1", "is not a known key"),
        ("rocelab.routing.hash_policy", "%", "is not known; choose 'l3' or 'l4'"),
        ("rocelab.addressing.vteps", "10.0.0.0/33", "is not an IPv4 prefix"),
    ],
)
def test_a_label_of_the_lab_that_means_nothing(label: str, value: str, said: str, tmp_path: Path) -> None:
    text = clab(STAR, STAR_LINKS, f"labels: {{{label}: '{value}'}}")
    ((line, problem),) = refused(tmp_path, text)
    assert line == 3
    assert problem.startswith(f"topology.defaults.labels.'{label}': ")
    assert said in problem


@pytest.mark.parametrize(
    ("rest", "line", "said"),
    [
        (", labels: {rocelab.rate: fast}", 10, "topology.links[0].labels.'rocelab.rate': 'fast' is not a rate"),
        (", labels: {rocelab.delay: 5m}", 10, "topology.links[0].labels.'rocelab.delay': 300 s is out of range"),
    ],
)
def test_a_label_of_a_link_that_means_nothing(rest: str, line: int, said: str, tmp_path: Path) -> None:
    assert [(line, said)] == [
        (line, problem[: len(said)])
        for line, problem in refused(tmp_path, clab(STAR, [f"{STAR_LINKS[0]} {rest}", *STAR_LINKS[1:]]))
    ]


def test_a_rate_that_all_links_state_and_that_is_none(tmp_path: Path) -> None:
    text = clab(STAR, [f"{link} , labels: {{rocelab.rate: 9Pbit}}" for link in STAR_LINKS])
    ((line, problem),) = refused(tmp_path, text)
    assert (line, problem.split(":")[0]) == (10, "topology.links[0].labels.'rocelab.rate'")


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ("rocelab.role: core", "'core' is no role; choose superspine, spine, leaf, host"),
        ("rocelab.pod: '\u00b2'", "is no pod; choose 1 to 999"),
        (f"rocelab.pod: '{'9' * 5000}'", "is no pod; choose 1 to 999"),
        ("rocelab.pod: 0", "'0' is no pod"),
    ],
)
def test_a_label_of_a_node_that_means_nothing(label: str, said: str, tmp_path: Path) -> None:
    nodes = STAR | {"leaf2": f"image: frr, labels: {{{label}}}"}
    ((line, problem),) = refused(tmp_path, clab(nodes, STAR_LINKS))
    assert line == 7
    assert said in problem


def test_a_label_without_quotes_is_text_too(tmp_path: Path) -> None:
    nodes = STAR | {"h1": "image: alpine, labels: {rocelab.rdma: false}"}
    assert [host.rdma for host in imported(tmp_path, clab(nodes, STAR_LINKS)).hosts] == [False]


def test_what_one_link_states_is_of_that_link_alone(tmp_path: Path) -> None:
    links = [*STAR_LINKS[:2], f"{STAR_LINKS[2]} , mtu: 1500, labels: {{rocelab.rate: 50Mbit}}"]
    fabric = imported(tmp_path, clab(STAR, links))
    assert [(link.mtu, link.rate) for link in fabric.links] == [(9000, 10**9)] * 2 + [(1500, 5 * 10**7)]


def test_what_most_links_state_where_some_state_nothing(tmp_path: Path) -> None:
    fabric = imported(
        tmp_path, clab(STAR, [f"{STAR_LINKS[0]} , mtu: 4200", f"{STAR_LINKS[1]} , mtu: 4200", STAR_LINKS[2]])
    )
    assert [link.mtu for link in fabric.links] == [4200, 4200, 9000]


def five_stages(label: str = "") -> str:
    nodes = {f"leaf{n}": "image: frr" for n in (1, 2, 3, 4)} | {f"spine{n}": "image: frr" for n in (1, 2, 3)}
    nodes |= {"core1": "image: frr", "core2": "image: frr", "h1": "image: alpine"}
    if label:
        nodes["spine2"] = f"image: frr, labels: {{{label}}}"
    below = {"spine1": ("leaf1", "leaf2"), "spine2": ("leaf3",), "spine3": ("leaf4",)}
    links = [f"{leaf}:eth{1} {spine}:eth{n + 1}" for spine, leaves in below.items() for n, leaf in enumerate(leaves)]
    links += [f"{spine}:eth{7 + core} core{core}:eth{spine[-1]}" for spine in below for core in (1, 2)]
    return clab(nodes, [*links, "h1:eth1 leaf1:eth9", "h1:eth2 leaf3:eth9"])


def test_pods_are_what_only_super_spines_join(tmp_path: Path) -> None:
    pods = {node.name: node.pod for node in imported(tmp_path, five_stages()).nodes if node.pod}
    assert pods == {"leaf1": 1, "leaf2": 1, "spine1": 1, "leaf3": 2, "spine2": 2, "leaf4": 3, "spine3": 3}


def test_a_label_numbers_the_whole_pod(tmp_path: Path) -> None:
    pods = {node.name: node.pod for node in imported(tmp_path, five_stages("rocelab.pod: 1")).nodes if node.pod}
    assert pods == {"leaf1": 2, "leaf2": 2, "spine1": 2, "leaf3": 1, "spine2": 1, "leaf4": 3, "spine3": 3}


def test_a_fabric_in_one_piece_needs_no_pods(tmp_path: Path) -> None:
    nodes = STAR | {"core1": "image: frr"}
    fabric = imported(tmp_path, clab(nodes, [*STAR_LINKS, "spine1:eth3 core1:eth1"]))
    assert {node.pod for node in fabric.nodes} == {0}


@pytest.mark.parametrize(
    ("nodes", "links", "taken"),
    [
        (
            {"leaf1": "image: 'lab-net:1'", "spine1": "image: 'lab-net:1'", "h1": "image: alpine"},
            ["leaf1:swp1 spine1:swp1", "h1:eth1 leaf1:swp2"],
            "topology.nodes.spine1: is treated as a host: no frr.conf among its binds, and no image called frr",
        ),
        (
            {"A": "image: frr", "B": "image: frr"},
            ["A:eth1 B:eth1"],
            "topology.nodes.A: is treated as a leaf: a router with no tier in its name",
        ),
    ],
)
def test_nodes_that_are_taken_for_something_else(
    nodes: dict[str, str], links: list[str], taken: str, tmp_path: Path
) -> None:
    problems = refused(tmp_path, clab(nodes, links))
    assert "rocelab.role (superspine, spine, leaf, host)" in problems[0][1]
    assert "rocelab.pod" in problems[0][1]
    (where,) = [line for line, problem in problems if problem.startswith(taken)]
    assert where == 5 + list(nodes).index(taken.partition(":")[0].rpartition(".")[2])


def test_the_labels_that_the_error_names_mend_it(tmp_path: Path) -> None:
    nodes = {name: f"image: x, labels: {{rocelab.role: {role}}}" for name, role in (("A", "leaf"), ("B", "spine"))}
    assert {node.role for node in imported(tmp_path, clab(nodes, ["A:eth1 B:eth1"])).nodes} == {Role.LEAF, Role.SPINE}


def test_a_spine_that_is_taken_for_a_host_is_named_where_leaves_do_not_reach_each_other(tmp_path: Path) -> None:
    problems = refused(tmp_path, clab(STAR | {"spine1": "image: 'lab-net:1'"}, STAR_LINKS))
    assert {line for line, _ in problems} == {6}
    assert any("has no BGP path to leaf2" in problem and "rocelab.role" in problem for _, problem in problems)


def test_names_that_end_a_line_in_yaml(tmp_path: Path) -> None:
    nodes = STAR | {'"odd\\u2028- name\\x85: [leaf"': "image: frr"}
    assert len(imported(tmp_path, clab(nodes, STAR_LINKS)).nodes) == 4


def test_adopting_refuses_the_same_label(tmp_path: Path) -> None:
    lab = read_lab(written(tmp_path, clab(STAR | {"h1": "labels: {rocelab.role: server}"}, STAR_LINKS)))
    with pytest.raises(InvalidInput, match=r":8: .*'server' is no role"):
        roles_of(lab)
