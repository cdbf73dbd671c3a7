"""Whatever a file says, loading it gives a fabric or the list of its problems, and nothing else."""

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from lab.errors import InvalidInput
from lab.model.addressing import plan_addresses
from lab.model.draw.svg import draw_svg
from lab.model.load import load_topology
from lab.model.output.fabric_summary import summarise
from lab.model.qos.advice import advise
from lab.model.qos.resolve import resolve
from lab.model.store import dump, restore
from lab.model.topology import Topology


def _load(text: str) -> Topology | None:
    try:
        return load_topology(text)
    except InvalidInput as error:
        problems = error.problems
    assert problems
    for problem in problems:
        assert problem.message
        assert problem.remedy
        assert str(problem).isprintable()
    return None


@given(st.text())
@example("\ud800")
@example("\ufeffname: t")
@example('name: "\\ud800"')
@example("a: *a")
@example("&a [*a]")
@example("name: !!binary aGk=")
@example("<<: {name: t}")
@example("? ")
@example("%YAML 9.9\n---\n")
@example("name: 1e999\nlinks: [.nan, .inf, -.inf, 0x10, 0o7, 1_000, 2001-01-01, 1:30:00]")
def test_any_text(text: str) -> None:
    _load(text)


VOCABULARY = """
    name description defaults routing addressing generate overrides nodes links rate mtu delay role pod rdma ends
    shape spines leaves hosts_per_leaf leaf1 leaf2 spine1 h1 leaf spine host superspine clos leaf-spine rail-optimised
    leaf1--spine1 leaf1:swp1 h1:eth1 1Gbit 9000 5us 10.0.0.0/8 fd00::/48 bfd interval vteps host_links
    qos fabric roles interfaces profiles lab sonic mine map dscp group buffer pool groups alpha xoff xon headroom pfc
    priorities watchdog ecn 3 kmin kmax pmax 40KB 3ms 5% scheduler strict nic drain
"""
WORDS = st.sampled_from(VOCABULARY.split())
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), WORDS, st.text(max_size=8))
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(WORDS | st.text(max_size=4), inner, max_size=6)
    ),
    max_leaves=25,
)


@given(st.dictionaries(WORDS, TREES, max_size=9))
@example({"qos": "\x1f"})
def test_any_structure(tree: dict[str, Any]) -> None:
    _load(json.dumps(tree))


ENDS = st.sampled_from(
    ["leaf1", "leaf2", "spine1", "spine2", "top", "h1", "h2", "leaf1:swp1", "spine1:swp1", "h1:eth2"]
)
NODES = st.dictionaries(
    st.sampled_from(["leaf1", "leaf2", "spine1", "spine2", "top", "h1", "h2"]),
    st.fixed_dictionaries(
        {"role": st.sampled_from(["leaf", "spine", "superspine", "host"])}, optional={"pod": st.integers(1, 2)}
    ),
)
LINKS = st.lists(
    st.fixed_dictionaries({"ends": st.lists(ENDS, min_size=2, max_size=2)}, optional={"rate": st.just("5Mbit")})
)
HAND_MADE = st.fixed_dictionaries({"name": st.just("t"), "nodes": NODES, "links": LINKS})
WELL_NAMED = {
    "name": "t",
    "nodes": {"leaf1": {"role": "leaf"}, "spine1": {"role": "spine"}, "h1": {"role": "host"}},
    "links": [{"ends": ["leaf1", "spine1"]}, {"ends": ["h1:eth2", "leaf1:swp1"]}],
}


AMOUNTS = st.sampled_from(["0", "40KB", "3ms", "9MB", "0s", "1us"])
GROUPS = st.fixed_dictionaries({}, optional=dict.fromkeys(["reserved", "xoff", "xon", "headroom"], AMOUNTS))
PROFILES = st.fixed_dictionaries(
    {},
    optional={
        "ecn": st.dictionaries(st.sampled_from("35"), st.fixed_dictionaries({"kmin": AMOUNTS, "kmax": AMOUNTS})),
        "buffer": st.fixed_dictionaries({"groups": st.dictionaries(st.sampled_from("34"), GROUPS)}),
        "pfc": st.fixed_dictionaries({"priorities": st.lists(st.integers(0, 7)), "tx": st.booleans()}),
    },
)


@given(PROFILES, st.sampled_from(["lab", "sonic", "hpcc-thresholds"]))
def test_a_profile_that_loads_can_be_resolved_advised_on_and_stored(profile: dict[str, Any], preset: str) -> None:
    tree = {
        "name": "t",
        "generate": {"shape": "leaf-spine", "spines": 1, "leaves": 2},
        "qos": {"fabric": [preset, "mine"], "profiles": {"mine": profile}},
    }
    fabric = _load(json.dumps(tree))
    if fabric is None:
        assert profile
        return
    for node in resolve(fabric).values():
        assert node.shared > 0
        assert all(
            group.xoff is None or group.xon <= group.xoff for port in node.ports.values() for group in port.groups
        )
    assert all(str(advice).isprintable() for advice in advise(fabric))
    assert restore(dump(fabric)) == fabric


@given(HAND_MADE)
@example(WELL_NAMED)
def test_what_loads_can_be_planned_drawn_summed_up_and_stored(tree: dict[str, Any]) -> None:
    fabric = _load(json.dumps(tree))
    if fabric is None:
        assert tree != WELL_NAMED
        return
    plans = plan_addresses(fabric)
    assert set(plans) == set(tree["nodes"])
    assert sum(len(plan.interfaces) for plan in plans.values()) == 2 * len(fabric.links)
    assert summarise(fabric).links == len(tree["links"])
    assert draw_svg(fabric).endswith("</svg>\n")
    assert restore(dump(fabric)) == fabric
