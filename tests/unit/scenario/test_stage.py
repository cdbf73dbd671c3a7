"""The actions of a scenario on a fabric whose ports are arrays: seeded, recorded, awaited, undone."""

from pathlib import Path
from typing import Any

import pytest

from lab.backends import registry
from lab.backends.backend import Fabric
from lab.faults import fault_engine
from lab.faults.ledger import Ledger
from lab.model.load import load_topology
from lab.scenario.stage import Stage
from lab.scenario.three_acts import fault, three_acts
from lab.telemetry.store.recording_folder import RecordKind
from tests.unit.running import Running, run

TOPOLOGY = load_topology(
    "name: stage\nqos: pfc-ecn\ngenerate: {shape: leaf-spine, spines: 1, leaves: 1, hosts_per_leaf: 2}\n"
)


class Kept:
    """A recorder that keeps truths, phases and notes."""

    def __init__(self) -> None:
        self.truths: list[dict[str, Any]] = []
        self.phases: list[tuple[str, list[float]]] = []

    def phase(self, name: str) -> int:
        self.phases.append((name, []))
        return 0

    def record(self, record_kind: RecordKind, /, *, ns: int | None = None, **data: Any) -> int:
        assert record_kind is RecordKind.TRUTH
        self.truths.append(data)
        return ns or 0

    def note(self, text: str, **data: Any) -> int:
        if text == "hold":
            self.phases[-1][1].append(data["seconds"])
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


def test_faults_are_healed_in_the_given_order(ran: Running) -> None:
    stage, kept, told = stage_of(ran)
    entries = [stage.inject("pauses-ignored", host) for host in ("h1", "h2")]
    stage.heal(*reversed(entries))
    assert [(truth["did"], truth["place"]) for truth in kept.truths[2:]] == [("heal", "h2"), ("heal", "h1")]
    assert told[-2:] == [f"  healed {entry}" for entry in reversed(entries)]
    assert Ledger.of(ran.state).entries() == ()


def test_a_measured_phase_lasts_its_seconds_and_its_block(ran: Running) -> None:
    stage, kept, told = stage_of(ran)
    stage.measure("baseline", 0.001)
    with stage.holding("observe", 0.002):
        stage.hold(0.003)
    assert kept.phases == [("baseline", [0.001]), ("", []), ("observe", [0.002, 0.003]), ("", [])]
    assert told == ["baseline", "observe"]


def test_a_fix_replaces_healing(ran: Running) -> None:
    stage, kept, _ = stage_of(ran)
    called: list[str] = []
    three_acts(
        stage, 0.001, fault("pauses-ignored", "h1"), broken=0.002, healed=lambda: called.append("healed"),
        fix=lambda: called.append("fix"), look=called.append, show=lambda: called.append("show"),
    )  # fmt: skip
    assert called == ["baseline", "observe", "show", "fix", "healed", "verify"]
    assert [truth["did"] for truth in kept.truths] == ["inject"]
    assert [phase for phase in kept.phases if phase[0]] == [
        ("baseline", [0.001]), ("inject", [0.002]), ("observe", [0.001]), ("fix", []), ("verify", [0.001]),
    ]  # fmt: skip


def test_all_faults_are_healed_without_a_fix(ran: Running) -> None:
    stage, kept, _ = stage_of(ran)
    three_acts(stage, 0, fault("pauses-ignored", "h1"), fault("pauses-ignored", "h2"))
    assert [(truth["did"], truth["place"]) for truth in kept.truths] == [
        ("inject", "h1"), ("inject", "h2"), ("heal", "h1"), ("heal", "h2"),
    ]  # fmt: skip
