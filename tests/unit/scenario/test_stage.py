"""What a scenario does on a fabric whose ports are arrays: seeded, recorded, waited for, put back."""

from pathlib import Path
from typing import Any

import pytest

from lab.backends import registry
from lab.backends.backend import Fabric
from lab.faults import fault_engine
from lab.faults.ledger import Ledger
from lab.model.load import load_topology
from lab.scenario.stage import Stage
from lab.telemetry.store.recording_folder import RecordKind
from tests.unit.running import Running, run

TOPOLOGY = load_topology(
    "name: stage\nqos: lab\ngenerate: {shape: leaf-spine, spines: 1, leaves: 1, hosts_per_leaf: 2}\n"
)


class Kept:
    """A recorder that keeps what it is told of the truth."""

    def __init__(self) -> None:
        self.truths: list[dict[str, Any]] = []

    def record(self, record_kind: RecordKind, /, *, ns: int | None = None, **data: Any) -> int:
        assert record_kind is RecordKind.TRUTH
        self.truths.append(data)
        return ns or 0

    def note(self, text: str, **_: Any) -> int:
        return len(text)


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    return run(TOPOLOGY, tmp_path, monkeypatch)


def stage_of(ran: Running, seed: int = 7) -> tuple[Stage, Kept, list[str]]:
    fabric, kept, told = Fabric(ran.state, TOPOLOGY, registry.backend(registry.DEFAULT)), Kept(), list[str]()
    return Stage(fabric, kept, seed, told.append), kept, told  # type: ignore[arg-type]


def test_what_is_drawn_is_drawn_by_the_seed_of_the_run(ran: Running) -> None:
    stage, kept, _ = stage_of(ran, seed=11)
    stage.inject("link-jitter", "h1", jitter="1ms")
    assert ran.maps.ports["cable"][ran.id("h1:eth1")]["seed"] == 11
    assert kept.truths[0]["parameters"] == {"seed": "11", "jitter": "1ms"}
    stage.restore()
    stage.inject("link-jitter", "h1", jitter="1ms", seed=3)
    assert ran.maps.ports["cable"][ran.id("h1:eth1")]["seed"] == 3
    stage.inject("pauses-ignored", "h2")
    assert kept.truths[-1]["parameters"] == {}


def test_what_is_left_is_put_back(ran: Running) -> None:
    before = ran.maps.ports.tobytes()
    stage, _, _ = stage_of(ran)
    stage.inject("pauses-ignored", "h1")
    stage.inject("link-delay", "h2--leaf1", delay="1ms")
    assert ran.maps.ports.tobytes() != before
    stage.restore()
    assert ran.maps.ports.tobytes() == before
    assert Ledger.of(ran.state).entries() == ()


def test_who_looks_at_the_fabric_is_waited_for(ran: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    stage, _, told = stage_of(ran)

    def inject(*_: object, waiting: Any, **_more: object) -> None:
        waiting("rocelab status (pid 1)")

    monkeypatch.setattr(fault_engine, "inject", inject)
    stage.inject("pauses-ignored", "h1")
    assert told[-1] == "  waiting for rocelab status (pid 1)"
