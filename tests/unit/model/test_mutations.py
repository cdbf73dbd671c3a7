"""Each shipped YAML file, broken as people break files: a fabric that can be built, or problems of one line each."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import InvalidInput
from lab.faults import declared
from lab.jobs.training_spec import load_training
from lab.model.addressing import plan_addresses
from lab.model.load import load_topology
from lab.model.output.describe import describe
from lab.model.output.fabric_summary import summarise
from lab.model.qos.advice import advise
from lab.model.qos.congestion.cc_summary import scaling_lines
from lab.model.qos.headroom import HOST_REACTION
from lab.model.qos.resolve import resolve
from lab.model.store import dump, restore
from lab.model.values.yamltext import read_yaml
from lab.routing.frr_config.render import has_routers, render_router
from lab.wire.craft.craft_file import load_packets
from tests.fuzz.mutations import mutated
from tests.unit.dataplane.test_bounds import written

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from lab.model.topology import Topology

ROOT: Final = Path(__file__).parents[3]
SMALL: Final = "name: t\ngenerate: {shape: leaf-spine, spines: 2, leaves: 2, hosts_per_leaf: 2}\n"
LONGEST: Final = 1200
"""Characters of a problem: the keys of congestion control are many."""
OF_PYTHON: Final = re.compile(r"\b(None|True|False|dict|NoneType|Traceback|pydantic)\b|\{'|<class")


def _blocks() -> Iterator[dict[str, Any]]:
    """The mappings in the YAML of the pages."""
    for page in sorted((ROOT / "lab/docs").glob("*.md")):
        for text in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL):
            found = read_yaml(text, "shipped").data
            if isinstance(found, dict):
                yield found


def _as_text(tree: dict[str, Any]) -> str:
    return yaml.safe_dump(tree, sort_keys=False)


def _files() -> Iterator[str]:
    for folder in ("topologies", "lab/docs/examples/pytest"):
        yield from (file.read_text() for file in sorted((ROOT / folder).glob("*.yaml")))


def _pages() -> Iterator[str]:
    """Topologies of the pages: sections without nodes are those of a small fabric."""
    sections = {"qos", "overlay", "faults", "frr", "routing", "addressing", "defaults", "overrides"}
    for tree in _blocks():
        if {"nodes", "generate"} & set(tree):
            yield _as_text({"name": "t", **tree})
        elif set(tree) <= sections:
            yield SMALL + _as_text(tree)


FILES: Final = tuple(_files())
TOPOLOGIES: Final = (*FILES, *_pages())
JOBS: Final = tuple(_as_text(tree) for tree in _blocks() if {"ranks", "hosts"} & set(tree) and "compute" in tree)
PACKETS: Final = (
    "defaults: {dst: 10.0.0.2, qp: 17}\npackets:\n  - {kind: write, psn: 1, va: 4096}\n  - {kind: nak, psn: 1}",
    "kind: pfc\nclasses: 3=65535,4=0\n",
)
RANDOM: Final = st.randoms(use_true_random=False)


def _problems(load: Callable[[], object]) -> list[str]:
    """The problems of a file; empty if it loads."""
    try:
        load()
    except InvalidInput as error:
        found = error.problems
    else:
        return []
    assert found
    assert all(each.message and each.remedy for each in found)
    return [str(each) for each in found]


def _judge(problems: list[str]) -> None:
    """One printable line for each, in the words of the file: quoted text is the user's own."""
    for problem in problems:
        assert problem.isprintable()
        assert len(problem) < LONGEST
        own_words = re.sub(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", "''", problem)
        assert not OF_PYTHON.search(own_words), problem


def _checked(text: str) -> Topology:
    return load_topology(text, also=declared.check)


def _build(fabric: Topology) -> None:
    """All that ``topology check``, ``show`` and ``up`` compute of a fabric before they touch the machine."""
    plan = plan_addresses(fabric)
    assert all(str(each).isprintable() for each in advise(fabric))
    assert all(line.isprintable() for line in scaling_lines(resolve(fabric)))
    assert summarise(fabric).links == len(fabric.links)
    describe(fabric, HOST_REACTION)
    assert restore(dump(fabric)) == fabric
    if fabric.qos is not None:
        written(fabric)
    if has_routers(fabric):
        for switch in fabric.switches[:4]:
            render_router(fabric, plan, switch.name)


def test_what_is_shipped_is_right() -> None:
    assert [_problems(partial(_checked, text)) for text in FILES] == [[]] * len(FILES)
    assert [_problems(partial(load_training, text, "x")) for text in JOBS] == [[]] * len(JOBS)
    assert len(JOBS) > 1
    assert [len(load_packets(text, "x")) for text in PACKETS] == [2, 1]


@given(st.sampled_from(TOPOLOGIES), RANDOM)
def test_a_mutated_topology(text: str, rng: random.Random) -> None:
    broken = mutated(text, TOPOLOGIES, rng)
    problems = _problems(lambda: _checked(broken))
    _judge(problems)
    if not problems:
        _build(_checked(broken))


@given(st.sampled_from(JOBS), RANDOM)
def test_a_mutated_training_job(text: str, rng: random.Random) -> None:
    broken = mutated(text, JOBS, rng)
    _judge(_problems(lambda: load_training(broken, "x")))


@given(st.sampled_from(PACKETS), RANDOM)
def test_a_mutated_packet(text: str, rng: random.Random) -> None:
    broken = mutated(text, PACKETS, rng)
    _judge(_problems(lambda: load_packets(broken, "x")))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: t\ngenerate: {shape: {a: 1}}", "generate.shape: a mapping is not known; choose leaf-spine"),
        ("name: t\ngenerate: {shape: [1, 2]}", "generate.shape: a list is not known; choose leaf-spine"),
        ("name: t\ngenerate: {shape: false}", "generate.shape: false is not known; choose leaf-spine"),
        (
            f"{SMALL}qos: {{fabric: [lab, m], profiles: {{m: {{nic: {{cc: {{algorithm: false}}}}}}}}}}",
            "nic.cc.algorithm: false is not a known algorithm; choose dcqcn",
        ),
        (
            f"{SMALL}qos: {{fabric: [lab, m], profiles: {{m: {{nic: {{cc: {{preset: [lab]}}}}}}}}}}",
            "nic.cc.preset: a list is not a preset with registers",
        ),
        (f"{SMALL}overlay: {{border: [{{leaf: leaf1, host: h1}}]}}", "prefixes: is missing; add it"),
    ],
)
def test_it_is_said_in_the_words_of_the_file(text: str, said: str) -> None:
    problems = _problems(lambda: _checked(text))
    assert any(said in problem for problem in problems), problems
    _judge(problems)


def test_a_group_is_no_problem_of_a_network_without_its_vni() -> None:
    text = f"{SMALL}overlay: {{flooding: multicast, networks: {{lan: {{vlan: 10, untagged: [h1]}}}}}}"
    problems = _problems(lambda: _checked(text))
    assert [problem for problem in problems if ".l2vni" in problem]
    assert [problem for problem in problems if ".group" in problem] == []


def test_a_setting_of_nccl_cannot_drive_a_terminal() -> None:
    (problem,) = _problems(lambda: load_training('ranks: 4\ncompute: 1s\nnccl: {"\\e[2J": 1}', "x"))
    assert "\\x1b[2J is no setting of NCCL" in problem
