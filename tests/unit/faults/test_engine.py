"""Faults of configuration on a fabric whose ports are arrays: injected, refused, cut short, healed to the octet."""

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from lab.backends import registry
from lab.backends.backend import Fabric
from lab.backends.live_qos import change_qos
from lab.errors import CommandFailed, OperationFailed, UsageError
from lab.faults import fault_engine
from lab.faults.fault_request import FaultRequest
from lab.faults.kinds.nic_faults import PausesIgnored
from lab.faults.kinds.port_faults import PortConfig
from lab.faults.ledger import Entry, Holder, Ledger
from lab.faults.slow_ranks import slowed, slowed_trace
from lab.faults.timing import Timing
from lab.jobs.rank_schedule import check_schedule
from lab.jobs.training_job import TraceJob
from lab.jobs.training_schedule import training_schedule
from lab.jobs.training_spec import load_training
from lab.model.load import load_topology
from lab.model.qos.port_change import QosRequest
from lab.model.values.link_selection import choose_ports
from tests.unit.running import Running, run

TOPOLOGY = load_topology(
    "name: broken\nqos: pfc-ecn\ngenerate: {shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 2}\n"
)
EARLY = FaultRequest("port-config", "leaf1", {"set": "ecn.3.kmin=1KB"})
LATE = FaultRequest("port-config", "leaf1:swp2", {"set": "ecn.3.kmin=60KB"})
DEAF = FaultRequest("pauses-ignored", "h1")


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    return run(TOPOLOGY, tmp_path, monkeypatch)


@pytest.fixture
def fabric(ran: Running, monkeypatch: pytest.MonkeyPatch) -> Fabric:
    names = {end.interface for link in TOPOLOGY.links for end in link.ends}
    monkeypatch.setattr(fault_engine, "interfaces", lambda _: names)
    return Fabric(ran.state, TOPOLOGY, registry.backend(registry.DEFAULT))


def now(fabric: Fabric) -> Fabric:
    return Fabric(fabric.state, fabric.topology, fabric.backend)


def kmin(ran: Running, end: str) -> int:
    return int(ran.maps.config[ran.id(end)]["queue"]["kmin"][3])


def test_what_is_injected_is_in_the_ports_and_healing_leaves_no_octet_different(ran: Running, fabric: Fabric) -> None:
    before = ran.maps.config.tobytes()
    entry = fault_engine.inject(fabric, EARLY)
    assert entry.whole
    assert [kmin(ran, f"leaf1:swp{number}") for number in (1, 2, 3)] == [1000, 1000, 1000]
    assert kmin(ran, "leaf2:swp1") != 1000
    assert fault_engine.running(fabric) == (entry,)
    assert fault_engine.heal(fabric, [entry.number]) == [entry]
    assert ran.maps.config.tobytes() == before
    assert now(fabric).qos == Fabric(ran.state, TOPOLOGY, fabric.backend).qos
    assert fault_engine.running(fabric) == ()


def test_faults_at_two_places_compose_and_heal_in_any_order(ran: Running, fabric: Fabric) -> None:
    before = ran.maps.config.tobytes()
    first, second = fault_engine.inject(fabric, EARLY), fault_engine.inject(now(fabric), DEAF)
    fault_engine.heal(now(fabric), [first.number])
    assert ran.maps.config[ran.id("h1:eth1")]["pfc_rx"] == 0
    fault_engine.heal(now(fabric), [second.number])
    assert ran.maps.config.tobytes() == before


def test_a_second_one_at_the_same_place_is_refused_with_the_reason(ran: Running, fabric: Fabric) -> None:
    fault_engine.inject(fabric, EARLY)
    held = ran.maps.config.tobytes()
    with pytest.raises(UsageError) as refused:
        fault_engine.inject(now(fabric), LATE)
    assert str(refused.value) == (
        "port-config at leaf1:swp2: fault 1, port-config at leaf1, has ecn.3.kmin of leaf1:swp2 already: "
        "rocelab fault heal 1 first"
    )
    assert ran.maps.config.tobytes() == held
    assert len(fault_engine.running(fabric)) == 1


def test_what_somebody_changed_besides_stays(ran: Running, fabric: Fabric) -> None:
    fault_engine.inject(fabric, EARLY)
    change_qos(now(fabric), choose_ports(TOPOLOGY, ["leaf1:swp1"]), QosRequest(["pfc.quanta=1000"]))
    fault_engine.heal(now(fabric))
    assert kmin(ran, "leaf1:swp1") == kmin(ran, "leaf2:swp1")
    assert ran.maps.config[ran.id("leaf1:swp1")]["pause_quanta"] == 1000


def test_an_injection_that_fails_leaves_nothing(
    ran: Running, fabric: Fabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, inject = ran.maps.config.tobytes(), PortConfig.inject

    def half(fault: PortConfig, kept: object) -> None:
        inject(fault, kept)  # type: ignore[arg-type]
        raise OperationFailed("the kernel is gone")

    monkeypatch.setattr(PortConfig, "inject", half)
    with pytest.raises(OperationFailed, match="the kernel is gone"):
        fault_engine.inject(fabric, EARLY)
    assert ran.maps.config.tobytes() == before
    assert fault_engine.running(fabric) == ()


@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize(
    ("wish", "lost"), [(EARLY, "leaf1 has no interface swp1"), (DEAF, "h1 has no interface eth1")]
)
def test_an_interface_that_somebody_removed_is_named(
    fabric: Fabric, wish: FaultRequest, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Instead of the program that failed on it."""

    def fail(_: object) -> None:
        raise CommandFailed(["ip", "link"], 1, 'Device "swp1" does not exist.')

    for kind in (PortConfig, PausesIgnored):
        monkeypatch.setattr(kind, "look", fail)
    with pytest.raises(CommandFailed):  # the control: all are there, and something else failed
        fault_engine.inject(fabric, wish)
    monkeypatch.setattr(fault_engine, "interfaces", lambda _: {"other"})
    with pytest.raises(OperationFailed, match=f"{wish.kind} at {wish.place}: {lost} now: rocelab status shows what"):
        fault_engine.inject(fabric, wish)
    assert fault_engine.running(fabric) == ()


def test_a_host_that_computes_slowly_slows_jobs_that_start_meanwhile(fabric: Fabric) -> None:
    written = "{hosts: [h1, h2], compute: 100ms, slower: {h1: 20ms}, allreduce: 1MiB}"
    spec, ranks = load_training(written, "job"), ["h1", "h2"]
    first = fault_engine.inject(fabric, FaultRequest("slow-compute", "h1", {"speed": "50%"}))
    second = fault_engine.inject(now(fabric), FaultRequest("slow-compute", "h2", {"speed": "10%"}))
    computes = {host: slowed(now(fabric), spec, ranks).compute_of(host) for host in ranks}
    assert computes == pytest.approx({"h1": 0.24, "h2": 1.0})
    assert slowed(now(fabric), spec, ["h1"]).compute_of("h2") == pytest.approx(0.1), "h2 has no rank"
    with pytest.raises(UsageError, match="has the computation of h1 already"):
        fault_engine.inject(now(fabric), FaultRequest("slow-compute", "h1"))
    stored = load_training("{ranks: 2, compute: 1s, allreduce: 1MiB, storage: {host: h2, load: 1kB}}", "job")
    assert slowed(now(fabric), stored, ["h3", "h4", "h2"]) == stored, "a storage host computes nothing"
    trace = TraceJob(name="trace", schedule=training_schedule(spec, ranks))
    slow = slowed_trace(now(fabric), trace, ranks).schedule
    assert [sum(each.seconds for each in rank) for rank in slow.variants[0]] == pytest.approx([0.24, 1.0])
    check_schedule(slow)
    fault_engine.heal(now(fabric), [first.number, second.number])
    assert slowed(now(fabric), spec, ranks) == spec
    assert slowed_trace(now(fabric), trace, ranks) == trace


def test_what_changes_nothing_and_what_is_not_there_are_told(ran: Running, fabric: Fabric) -> None:
    with pytest.raises(UsageError, match="port-config changes nothing at h1: rocelab qos show"):
        fault_engine.inject(fabric, FaultRequest("port-config", "h1", {"set": "pfc.rx=true"}))
    with pytest.raises(UsageError, match="there is no fault 7: no fault is injected"):
        fault_engine.heal(fabric, [7])
    fault_engine.inject(fabric, DEAF)
    with pytest.raises(UsageError, match=r"there is no fault 7: there is 1 \(pauses-ignored at h1\)"):
        fault_engine.heal(now(fabric), [7])
    assert not ran.state.faults.with_name("faults.jsonl.new").exists()


def test_what_a_killed_holder_left_is_healed_by_the_next_command(ran: Running, fabric: Fabric) -> None:
    before = ran.maps.config.tobytes()
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        entry = fault_engine.inject(fabric, EARLY, holder=Holder.of(sleeper.pid))
        assert fault_engine.heal_abandoned(now(fabric)) == []
        sleeper.kill()
    assert fault_engine.heal_abandoned(now(fabric)) == [entry]
    assert ran.maps.config.tobytes() == before
    assert fault_engine.heal_abandoned(now(fabric)) == []


def test_an_injection_that_was_killed_on_its_way_is_healed(ran: Running, fabric: Fabric) -> None:
    before = ran.maps.config.tobytes()
    fault_engine.inject(fabric, EARLY)
    ledger = Ledger.of(ran.state)
    lines = ledger.path.read_text().splitlines(keepends=True)
    ledger.path.write_text(lines[0])  # killed before it was written down that it is done
    assert [str(entry) for entry in fault_engine.heal_abandoned(now(fabric))] == ["port-config at leaf1"]
    assert ran.maps.config.tobytes() == before


def test_by_the_clock_it_comes_goes_and_leaves_nothing(ran: Running, fabric: Fabric) -> None:
    before = ran.maps.config.tobytes()
    seen = []

    def wait(seconds: float) -> bool:
        seen.append((seconds > 0.5, kmin(ran, "leaf1:swp1"), len(fault_engine.running(fabric))))
        return len(seen) < 5

    assert fault_engine.attend(fabric, EARLY, Timing(lasting=1, every=1.4), wait) == 2
    standard = kmin(ran, "leaf2:swp1")
    assert [found[1:] for found in seen] == [(standard, 1), (1000, 2), (standard, 1), (1000, 2), (standard, 1)]
    assert ran.maps.config.tobytes() == before
    assert fault_engine.running(fabric) == ()


def test_an_injection_counts_from_its_begin_and_a_healing_from_its_end(
    fabric: Fabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault has its effects before its injection ends."""
    real, times, told = fault_engine.inject, list[int](), list[tuple[str, int]]()

    def inject(*words: Any, **named: Any) -> Entry:
        times.append(time.monotonic_ns())
        return real(*words, **named)

    monkeypatch.setattr(fault_engine, "inject", inject)
    fault_engine.attend(
        fabric, EARLY, Timing(lasting=1), lambda _: True, changed=lambda did, _, ns: told.append((did, ns))
    )
    assert [did for did, _ in told] == ["inject", "heal"]
    assert told[0][1] <= times[0] < told[1][1]


def test_what_is_over_once_it_happened_cannot_last(fabric: Fabric) -> None:
    with pytest.raises(UsageError, match="process-killed is over once it has happened: leave --for out"):
        fault_engine.attend(fabric, FaultRequest("process-killed", "h1"), Timing(lasting=1), lambda _: True)
    assert os.getpid() == Holder.current().pid
