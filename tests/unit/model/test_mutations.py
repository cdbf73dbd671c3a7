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

from lab.errors import InvalidInput, UsageError
from lab.export.from_lab import import_lab
from lab.faults import declared
from lab.jobs.training_spec import load_training
from lab.model.addressing import plan_addresses
from lab.model.load import load_topology
from lab.model.output.describe import describe
from lab.model.output.fabric_summary import summarise
from lab.model.qos.advice import advise
from lab.model.qos.congestion.cc_summary import scaling_lines
from lab.model.qos.headroom import HOST_REACTION
from lab.model.qos.port_change import QosRequest, work_out
from lab.model.qos.presets import PRESETS
from lab.model.qos.resolve import resolve
from lab.model.store import dump, restore
from lab.model.values.expectation import FigureValue, judge, parse
from lab.model.values.link_selection import choose_ports
from lab.model.values.yamltext import read_yaml
from lab.routing.frr_config.render import has_routers, render_router
from lab.wire.craft.craft_file import load_packets
from tests.fuzz.mutations import mistyped, mutated
from tests.unit.dataplane.test_bounds import written
from tests.unit.export.test_from_lab import FOREIGN

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
PROFILES: Final = """
roles: {leaf: m, spine: [m], host: h}
nodes: {leaf1: m, h2: [h]}
interfaces: {"leaf1:swp3": n, "h1:eth1": h}
profiles:
  m:
    map: {trust: dscp, dscp: {26: 3, 48: 6, 8: 1}, pcp: {3: 3}, queue: {3: 3, 6: 6}, group: {3: 3, 6: 0}}
    buffer:
      pool: 4MB
      groups: {3: {reserved: 18KB, xoff: 60KB, xon: 20KB, headroom: 100KB}, 0: {alpha: 1/2}}
      queues: {0: 400KB}
    pfc:
      {priorities: [3], tx: true, rx: true, quanta: 65535,
       watchdog: {enabled: true, detection: 200ms, restoration: 200ms, action: drop}}
    ecn: {3: {enabled: true, kmin: 40KB, kmax: 3ms, pmax: 10%}}
    scheduler: {0: 50, 3: 50, 6: strict}
  n: {pfc: {tx: false}, ecn: {0: {kmin: 10KB}}}
  h: {nic: {drain: 50Mbit, cc: {preset: paper, real_rate: 40Gbit}}}
"""
PRESET_FILES: Final = tuple(f"fabric: [{preset}, m]{PROFILES}" for preset in PRESETS)
"""Each preset with every key of a profile beside it: the section ``qos`` as a file."""
ASSIGNMENTS: Final = (
    "ecn.3.kmin=20KB", "ecn.3.pmax=10%", "pfc.priorities=3,4", "pfc.watchdog.detection=200ms", "map.dscp.26=3",
    "map.trust=pcp", "buffer.groups.3.xoff=60KB", "buffer.groups.3.alpha=1/2", "buffer.pool=4MB",
    "scheduler.6=strict", "nic.drain=50Mbit", "nic.cc.rpg_ai_rate=5Mbit", "pfc.tx=false", "rate=50Mbit", "delay=1ms",
)  # fmt: skip
EXPECTATIONS: Final = (
    "drops == 0", "goodput(h1,h4) >= 90Mbit", "marks(leaf1:swp3) > 1 and pauses < 3", "latency(h1, h2, p99) <= 10us",
)  # fmt: skip
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
        assert 0 < len(problem) < LONGEST
        assert "topology schema" not in problem, "a form of error without words of its own"
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
    assert [_problems(partial(_checked, _with_qos(text))) for text in PRESET_FILES] == [[]] * len(PRESET_FILES)


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


def _with_qos(text: str) -> str:
    """A small fabric with a file as its section ``qos``."""
    return f"{SMALL}qos:\n" + "".join(f"  {line}\n" for line in text.split("\n"))


@given(st.sampled_from(PRESET_FILES), RANDOM)
def test_a_mutated_profile_of_a_preset(text: str, rng: random.Random) -> None:
    broken = _with_qos(mutated(text, PRESET_FILES, rng))
    problems = _problems(lambda: _checked(broken))
    _judge(problems)
    if not problems:
        _build(_checked(broken))


@given(RANDOM)
def test_a_mutated_lab_of_containerlab(tmp_path_factory: pytest.TempPathFactory, rng: random.Random) -> None:
    file = tmp_path_factory.getbasetemp() / "lab.clab.yml"
    file.write_text(mutated(FOREIGN, [FOREIGN], rng), encoding="utf-8", errors="surrogatepass")
    texts: list[str] = []
    _judge(_complaint(lambda: texts.append(import_lab(file)[0])))
    for text in texts:
        _checked(text)


def _complaint(work: Callable[[], object]) -> list[str]:
    """The problems of a file, or what is wrong with a request."""
    try:
        return _problems(work)
    except UsageError as error:
        return [str(error) if error.remedy else ""]


@given(st.lists(st.sampled_from(ASSIGNMENTS), min_size=1, max_size=3), RANDOM)
def test_a_mistyped_assignment(words: list[str], rng: random.Random) -> None:
    topology = load_topology(f"{SMALL}qos: lab\n")
    ports = choose_ports(topology, [rng.choice(["leaf1:swp3", "h1", "leaf1"])])
    typed = QosRequest(tuple(mistyped(word, rng) for word in words))
    _judge(_complaint(lambda: work_out(topology, resolve(topology), ports, typed)))


@given(st.sampled_from(EXPECTATIONS), RANDOM)
def test_a_mistyped_expectation(text: str, rng: random.Random) -> None:
    typed = mistyped(mistyped(text, rng), rng)
    _judge(_complaint(lambda: [judge(each, FigureValue(3.0)) for each in parse(typed)]))


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
