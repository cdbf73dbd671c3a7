"""Faults in a topology's file: checked with it, all problems at once, and injected as the command would."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.backends import lifecycle, registry
from lab.backends.backend import Fabric
from lab.errors import InvalidInput, UsageError
from lab.faults import declared, fault_engine, helper_process
from lab.model import store
from lab.model.load import load_topology
from tests.unit.running import Running, run

if TYPE_CHECKING:
    from pathlib import Path

    from lab.model.topology import Topology

FABRIC = "name: declared\nqos: pfc-ecn\ngenerate: {shape: leaf-spine, spines: 1, leaves: 1, hosts_per_leaf: 2}\n"
GOOD = f"""{FABRIC}faults:
  - {{kind: port-config, place: leaf1, parameters: {{set: ecn.3.kmin=1KB}}}}
  - {{kind: link-loss, place: h1, parameters: {{one-in: 256, seed: 7}},
     after: 2s, for: 500ms, every: 3, times: 4, seed: 9}}
  - {{kind: link-corrupt, place: h2, parameters: {{probability: 1%, behind-fcs: true}}, for: 1s}}
"""


def load(text: str) -> Topology:
    return load_topology(text, "file", also=declared.check)


def test_what_is_declared_is_kept_with_the_topology() -> None:
    topology = load(GOOD)
    assert [(fault.kind, fault.place) for fault in topology.faults] == [
        ("port-config", "leaf1"), ("link-loss", "h1"), ("link-corrupt", "h2"),
    ]  # fmt: skip
    loss = topology.faults[1]
    assert (loss.after, loss.lasting, loss.every, loss.times, loss.seed) == (2.0, 0.5, 3.0, 4, 9)
    assert loss.parameters == {"one-in": 256, "seed": 7}
    assert store.restore(store.dump(topology)) == topology


def test_every_problem_is_told_at_once_with_its_line() -> None:
    with pytest.raises(InvalidInput) as refused:
        load(
            f"""{FABRIC}faults:
  - {{kind: link-dawn, place: h1}}
  - {{kind: link-loss, place: h9, parameters: {{probability: 2, colour: red}}}}
  - {{kind: process-killed, place: h1, for: 1s}}
  - {{kind: link-down, place: h1, times: 3}}
  - {{kind: link-down, place: h1, every: 1s, for: 2s}}
overrides: {{leaf7--spine1: {{rate: 1Gbit}}}}
"""
        )
    assert str(refused.value).splitlines() == [
        "file:5: faults[0].kind: there is no kind of fault 'link-dawn'; did you mean 'link-down'?",
        (
            "file:6: faults[1].parameters.colour: is no parameter; it has priority, dscp, beyond, opcode, seed, "
            "probability, one-in"
        ),
        "file:6: faults[1].parameters.probability: 200% is out of range; choose 2.4e-08% to 100%",
        "file:6: faults[1].place: link-loss: no node or tier 'h9' in fabric declared; there is h1 to h2",
        "file:7: faults[2].for: process-killed is over once it has happened; leave it out",
        "file:8: faults[3]: times and seed are of what comes again; give every too",
        "file:9: faults[4]: it would last 2 s of every 1 s; make for shorter",
        "file:10: overrides.leaf7--spine1: there is no node leaf7; there is leaf1",
    ]


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was left running, as command lines."""
    found: list[str] = []
    monkeypatch.setattr(helper_process, "leave", lambda _, words: found.append(" ".join(words)))
    return found


def running(topology: Topology, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Running, Fabric]:
    ran = run(topology, folder, monkeypatch)
    return ran, Fabric(ran.state, topology, registry.backend(registry.DEFAULT))


def test_what_is_declared_is_injected_and_the_clock_is_minded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: list[str]
) -> None:
    ran, fabric = running(load(GOOD), tmp_path, monkeypatch)
    before = ran.maps.config.tobytes()
    declared.inject(fabric)
    (entry,) = fault_engine.running(fabric)
    assert (entry.kind, entry.place, entry.whole, entry.holder) == ("port-config", "leaf1", True, None)
    assert int(ran.maps.config[ran.id("leaf1:swp1")]["queue"]["kmin"][3]) == 1000
    assert left == [
        (
            "link-loss h1 one-in=256 seed=7 --after=2.000000000s --for=0.500000000s --every=3.000000000s --times=4 "
            "--seed=9"
        ),
        "link-corrupt h2 probability=1% behind-fcs=true --for=1.000000000s",
    ]
    fault_engine.heal(Fabric(ran.state, fabric.topology, fabric.backend))
    assert ran.maps.config.tobytes() == before


def test_what_the_fabric_cannot_have_takes_it_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: list[str]
) -> None:
    topology = load(FABRIC + "faults: [{kind: port-config, place: leaf1, parameters: {set: ecn.9.kmin=1KB}}]\n")
    _, fabric = running(topology, tmp_path, monkeypatch)
    downs: list[str] = []
    monkeypatch.setattr(lifecycle, "down", lambda state, _: downs.append(state.name))
    with pytest.raises(UsageError):
        declared.inject(fabric)
    assert (downs, left) == (["declared"], [])
