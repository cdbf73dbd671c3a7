"""The journal survives what kills its writer; the lock keeps two commands apart; nothing stays behind."""

import fcntl
import os
import threading
from pathlib import Path

import pytest

from lab.backends.state import FabricState, Kind, all_fabrics, find_fabric
from lab.errors import Busy, InvalidInput, UsageError
from lab.model.load import load_topology
from lab.model.qos.resolve import resolve
from lab.model.topology import Topology


def test_names_come_back_in_the_order_of_making(root: Path) -> None:
    state = FabricState("a")
    with state.locked("test"):
        state.record(Kind.NAMESPACE, ["one", "two"])
        state.record(Kind.RDMA_DEVICE, ["device"])
        state.record(Kind.NAMESPACE, ["three"])
    assert state.recorded(Kind.NAMESPACE) == ("one", "two", "three")
    assert state.recorded(Kind.RDMA_DEVICE) == ("device",)
    assert not state.ready
    assert root.exists()


def test_a_torn_last_line_is_skipped_and_the_rest_is_kept(root: Path) -> None:
    state = FabricState("a")
    with state.locked("test"):
        state.record(Kind.NAMESPACE, ["one"])
    journal = root / "fabrics" / "a" / "journal.jsonl"
    journal.write_text(journal.read_text() + '{"kind": "namespace", "na')
    assert state.recorded(Kind.NAMESPACE) == ("one",)


def test_the_topology_comes_back_equal(root: Path, topology: Topology) -> None:
    state = FabricState("a")
    with state.locked("test"):
        state.save_topology(topology)
        assert state.load_topology() == topology
        state.forget()
    assert not root.exists()


def test_an_unused_lock_leaves_no_directory(root: Path) -> None:
    with FabricState("a").locked("test"):
        assert root.exists()
    assert not root.exists()


def test_a_second_command_is_told_who_holds_the_fabric(root: Path) -> None:
    """flock(2) keeps two descriptors of one process apart as it does two processes."""
    with FabricState("a").locked("up a"):
        assert FabricState("a").is_locked()
        with (
            pytest.raises(Busy, match=f"fabric a is being changed by up a, pid {os.getpid()}: wait"),
            FabricState("a").locked("down a"),
        ):
            pytest.fail("two commands hold the lock")
        with FabricState("b").locked("up b"):
            assert [state.name for state in all_fabrics()] == ["a", "b"]
    assert not FabricState("a").is_locked()
    assert not root.exists()


def test_asking_whether_it_is_locked_never_makes_it_busy(root: Path) -> None:
    """The question takes a shared lock for an instant; a command that comes then waits it out."""
    with FabricState("a").locked("setup"):
        FabricState("a").record(Kind.BACKEND, ["x"])
    question = os.open(root / "fabrics" / "a", os.O_RDONLY)
    fcntl.flock(question, fcntl.LOCK_SH)
    outcome: list[str] = []

    def up() -> None:
        try:
            with FabricState("a").locked("up a"):
                outcome.append("locked")
        except Busy as error:
            outcome.append(str(error))

    command = threading.Thread(target=up)
    command.start()
    command.join(0.05)
    assert outcome == []
    os.close(question)
    command.join(10)
    assert outcome == ["locked"]


def test_no_fabric_and_several_fabrics_say_what_to_do(root: Path) -> None:
    with pytest.raises(UsageError, match="no fabric runs"):
        find_fabric(None)
    with pytest.raises(UsageError, match="no fabric x: rocelab up"):
        find_fabric("x")
    for name in ("a", "b"):
        with FabricState(name).locked("test"):
            FabricState(name).record(Kind.READY, [name])
    with pytest.raises(UsageError, match="2 fabrics run: say which with --name: a, b"):
        find_fabric(None)
    with pytest.raises(UsageError, match="no fabric x: there is a, b"):
        find_fabric("x")
    assert find_fabric("b").ready
    assert root.exists()


def test_changed_qos_comes_back_and_goes_with_the_fabric(root: Path) -> None:
    topology = load_topology(
        "name: a\nqos: lab\ngenerate: {shape: leaf-spine, spines: 1, leaves: 1, hosts_per_leaf: 1}"
    )
    nodes = resolve(topology)
    state = FabricState("a")
    with state.locked("test"):
        assert state.load_qos() == {}
        state.save_qos({"leaf1": nodes["leaf1"]})
        state.save_qos({"leaf1": nodes["leaf1"], "h1": nodes["h1"]})
        assert state.load_qos() == {"leaf1": nodes["leaf1"], "h1": nodes["h1"]}
        state.forget()
    assert not (root / "fabrics" / "a").exists()


def test_damaged_qos_says_so(root: Path) -> None:
    state = FabricState("a")
    with state.locked("test"):
        for text in ("{", '{"leaf1": {}}', "[]", '{"leaf1": {"pool": 1, "ports": {"swp1": {}}}}'):
            (root / "fabrics" / "a" / "qos.json").write_text(text)
            with pytest.raises(InvalidInput, match="is damaged"):
                state.load_qos()
