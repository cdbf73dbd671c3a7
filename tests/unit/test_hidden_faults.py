"""Faults outside the catalogue: drawn by their seed, possible where they are, and scored by their ground truth."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lab.audit.audited import FabricAudit, NodeAudit
from lab.audit.objects.kernel_objects import SysctlAudit
from lab.diagnose.causes.cause_table import CAUSES
from lab.diagnose.causes.setting_kinds import SETTING_KINDS
from lab.diagnose.conservation.corruption import CORRUPT
from lab.errors import OperationFailed
from lab.faults.fault_request import find_kind, place_of, read_parameters
from lab.model.qos.port_change import QosRequest, work_out
from lab.model.qos.resolve import resolve
from lab.model.values.link_selection import choose_ports
from lab.telemetry.read.recording import Recording
from lab.telemetry.store.recording_folder import append_line
from tests.bench.hidden import play, score
from tests.bench.hidden.families import FAMILY_OF
from tests.bench.hidden.grammar import FABRICS, drawn, fabric_of, ground_of, rules
from tests.bench.hidden.hidden_fault import Command, CraftedFrames, Harm, Injected
from tests.bench.seed_results import SeedResults
from tests.unit.telemetry.made import RDMA, Made

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SEEDS = range(900)


def test_faults_are_drawn_by_their_seed() -> None:
    faults = [drawn(seed) for seed in SEEDS]
    assert faults == [drawn(seed) for seed in SEEDS]
    assert len({str(each) for each in faults}) > len(SEEDS) // 2
    assert {fabric_of(seed) for seed in SEEDS} == set(FABRICS)


def test_every_rule_is_drawn_and_every_harm_occurs() -> None:
    faults = [drawn(seed) for seed in SEEDS]
    assert len({each.production for each in faults}) >= 30
    assert {each.harm for each in faults} == set(Harm)


@pytest.mark.parametrize("fabric", FABRICS)
def test_a_fault_can_be_made_where_it_is(fabric: str) -> None:
    ground = ground_of(fabric)
    nodes = {node.name for node in ground.topology.nodes}
    for seed in (seed for seed in SEEDS if fabric_of(seed) == fabric):
        fault = drawn(seed)
        for action in fault.actions:
            if isinstance(action, Injected):
                kind = find_kind(action.kind)
                place_of(ground.topology, kind, action.place)
                read_parameters(kind, {name.replace("_", "-"): of for name, of in action.parameters.items()})
                if action.kind == "frr-config":  # a switch with VRFs has several instances of BGP
                    assert f"router bgp {ground.plan[action.place].asn};" in action.parameters["lines"]
                if action.kind == "port-config":
                    ports = choose_ports(ground.topology, [action.place])
                    request = QosRequest(action.parameters["set"].split())
                    work_out(ground.topology, resolve(ground.topology, 1e-4), ports, request)
            elif isinstance(action, Command):
                assert action.node in nodes
        assert fault.pairs
        for pair in fault.pairs:
            a, b, c, d = pair.split(":")
            assert {f"{a}:{b}", f"{c}:{d}"} <= set(ground.nics)
        ends = {end for place in fault.places for end in place.split("--")}
        assert ends <= nodes | set(ground.peers)


def test_each_fabric_has_the_rules_that_apply_to_it() -> None:
    names = {fabric: {rule.__name__ for rule in rules(ground_of(fabric))} for fabric in FABRICS}
    assert min(map(len, names.values())) >= 20
    assert {"fdb", "vlan", "bridge_port"} == names["roce-tenant"] - names["rails"]
    assert {"pinned_route", "turned_route", "hash_sysctl"} == names["clos-2x4"] - names["roce-tenant"]
    assert names["rails"] < names["clos-2x4"]


def test_a_fault_is_built_again_if_it_replaces_what_its_removal_does_not_bring_back() -> None:
    for fault in map(drawn, SEEDS):
        assert fault.needs_rebuild is (fault.production in {"fdb", "another-queue"})


def test_every_cause_has_a_family_and_no_other_name_has() -> None:
    concluded = {cause.name for cause in CAUSES} | {kind.cause for kind in SETTING_KINDS}
    assert concluded | {CORRUPT} == set(FAMILY_OF)


def node(forwarding: str) -> FabricAudit:
    leaf = NodeAudit("leaf1", "leaf", sysctls=(SysctlAudit("net.ipv4.ip_forward", forwarding),))
    return FabricAudit("clos-2x4", {"leaf1": leaf})


@pytest.mark.parametrize(("read", "back"), [(["1"], True), (["0", "1"], True), (["0"], False)])
def test_a_fabric_is_built_again_unless_the_undo_left_it_as_planned(
    read: list[str], *, back: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pairs may answer although a setting still differs."""
    states = [node(each) for each in read]
    monkeypatch.setattr(play, "answers", lambda *_: True)
    monkeypatch.setattr(play, "load_baseline", lambda _: node("1"))
    monkeypatch.setattr(play, "audit", lambda _: states.pop(0) if len(states) > 1 else states[0])
    monkeypatch.setattr(play, "_AGAIN", 0.0)
    monkeypatch.setattr(play, "_BACK", 5.0 if back else 0.05)
    fabric: Any = SimpleNamespace()
    assert play.is_back(fabric, drawn(0)) is back
    assert ("leaf1 sysctl net.ipv4.ip_forward value: 0 and not 1" in capsys.readouterr().err) is not back


@pytest.mark.parametrize(("program", "ends"), [("pass", True), ("import time; time.sleep(60)", False)])
def test_a_sender_of_frames_that_ends_early_made_no_fault(
    program: str, *, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def start(words: list[str], **streams: Any) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(words, **streams))
        return started[0]

    monkeypatch.setattr(play, "argv", lambda *_: [sys.executable, "-c", program])
    monkeypatch.setattr(play, "subprocess", SimpleNamespace(Popen=start, DEVNULL=subprocess.DEVNULL))
    stage: Any = SimpleNamespace(fabric=SimpleNamespace(name="rails"))
    refused = pytest.raises(OperationFailed, match="craft pfc ended") if ends else contextlib.nullcontext()
    with refused, play.done(stage, CraftedFrames(("pfc",))):
        if ends:
            started[0].wait(60)


def test_the_diagnosis_imports_neither_the_grammar_nor_faults() -> None:
    program = "import sys, lab.diagnose.run; print([m for m in sys.modules if m.startswith(('lab.faults', 'tests'))])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("place", "truth", "exact"),
    [
        ("leaf1:swp1--spine1:swp1", "leaf1:swp1--spine1:swp1", True),
        ("spine1:swp1--leaf1:swp1", "leaf1:swp1--spine1:swp1", True),
        ("leaf1:swp1--spine1:swp1", "leaf1--spine1", True),
        ("leaf1:swp1", "leaf1:swp1--spine1:swp1", True),
        ("leaf1", "leaf1:swp1--spine1:swp1", False),
        ("leaf1:swp2--spine2:swp1", "leaf1:swp1--spine1:swp1", False),
        ("leaf1", "leaf1:swp1", True),
        ("leaf1:swp1", "leaf1", True),
        ("leaf1:swp2", "leaf1:swp1", False),
        ("leaf1:swp1--spine1:swp1", "leaf1", False),
        ("", "leaf1", False),
    ],
)
def test_a_place_is_exact(place: str, truth: str, *, exact: bool) -> None:
    assert score.is_exact(place, [truth]) is exact


def truth(harm: Harm) -> dict[str, Any]:
    return {
        "seed": 1, "fabric": "incast", "production": "loss", "families": ["loss"], "places": ["leaf1:swp1"],
        "harm": harm.value, "did": "nothing",
    }  # fmt: skip


def recorded(folder: Path, again: int) -> Recording:
    """A run whose second phase has nothing but retransmissions."""
    made = Made(folder, ground_of("clos-2x4").topology, hosts=["h1", "h4"])
    for phase in ("baseline", "observe"):
        made.phase(phase)
        for _ in range(10):
            made.sample()
        if phase == "observe":
            made.devices[0, RDMA.index("out_of_seq_request")] += again
        made.sample()
        made.phase("")
    return Recording.open(made.finished())


def test_healthy_is_right_only_where_nothing_is_harmed(tmp_path: Path) -> None:
    quiet = recorded(tmp_path / "quiet", 0)
    harmless, harmed = (score.judged(quiet, truth(harm)) for harm in (Harm.NOTHING, Harm.LOSS))
    assert (harmless.exact, harmless.family, harmless.false_healthy) == (True, True, False)
    assert (harmed.exact, harmed.family, harmed.false_healthy) == (False, False, False)
    assert score.lost_packets(recorded(tmp_path / "lossy", 1), "observe")
    assert not score.lost_packets(quiet, "observe")


@pytest.mark.parametrize(("at", "lost"), [("baseline", False), ("observe", True), ("", True)])
def test_a_transfer_that_failed_is_noted_when_all_end(tmp_path: Path, at: str, lost: bool) -> None:
    quiet = recorded(tmp_path / "quiet", 0)
    ns = quiet.phase(at).end if at else quiet.phase("observe").end + 10**6
    append_line(
        quiet.folder.notes, {"ns": ns, "kind": "note", "text": "gave up", "pair": "h1 -> h4", "said": "broke"}
    )
    assert score.lost_packets(Recording.open(quiet.folder.path), "observe") is lost


def test_a_page_gets_the_table_and_keeps_the_rest(tmp_path: Path) -> None:
    told = score.judged(recorded(tmp_path / "quiet", 0), truth(Harm.NOTHING))
    page = f"# Page\n\n{score.HEADING}\n\n| old |\n\n## Confusion table\n\n| kept |\n"
    text = score.written(page, [told, told])
    assert "| old |" not in text
    assert text.endswith("## Confusion table\n\n| kept |\n")
    assert "| all | 2 | 2 | 2 | 0 | 0 | 0 |" in text
    assert score.written(text, [told, told]) == text


def test_a_series_resumes_where_it_was_interrupted(tmp_path: Path) -> None:
    played: list[int] = []
    built: list[str] = []

    @contextlib.contextmanager
    def fabric() -> Iterator[None]:
        built.append("up")
        yield

    def one(seed: int) -> dict[str, Any]:
        if seed == 3 and 3 not in played:
            played.append(seed)
            raise KeyboardInterrupt
        played.append(seed)
        return {"seed": seed}

    results = SeedResults(tmp_path, "hidden")
    with pytest.raises(KeyboardInterrupt):
        results.play(range(1, 5), fabric, one)
    assert [each["seed"] for each in results.all()] == [1, 2]
    assert [each["seed"] for each in results.play(range(1, 5), fabric, one)] == [1, 2, 3, 4]
    assert played == [1, 2, 3, 3, 4]
    results.play(range(1, 5), fabric, one)
    assert built == ["up", "up"]
