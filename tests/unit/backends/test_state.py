"""The journal survives what kills its writer; the lock keeps two commands apart; nothing stays behind."""

import fcntl
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from lab.backends.fabric_state import FabricState, JournalKind, all_fabrics, find_fabric, remove_empty_roots
from lab.cli.kit import recorded_command
from lab.errors import FabricBusy, InvalidInput, UsageError
from lab.kernel.process import process
from lab.model.load import load_topology
from lab.model.qos.resolve import resolve
from lab.model.topology import Topology


def test_names_come_back_in_the_order_of_making(root: Path) -> None:
    state = FabricState("a")
    with state.locked():
        state.record(JournalKind.NAMESPACE, ["one", "two"])
        state.record(JournalKind.RDMA_DEVICE, ["device"])
        state.record(JournalKind.NAMESPACE, ["three"])
    assert state.recorded(JournalKind.NAMESPACE) == ("one", "two", "three")
    assert state.recorded(JournalKind.RDMA_DEVICE) == ("device",)
    assert not state.ready
    assert root.exists()


def test_a_torn_last_line_is_skipped_and_the_rest_is_kept(root: Path) -> None:
    state = FabricState("a")
    with state.locked():
        state.record(JournalKind.NAMESPACE, ["one"])
    journal = root / "fabrics" / "a" / "journal.jsonl"
    journal.write_text(journal.read_text() + '{"kind": "namespace", "na')
    assert state.recorded(JournalKind.NAMESPACE) == ("one",)


def test_the_topology_comes_back_equal(root: Path, topology: Topology) -> None:
    state = FabricState("a")
    with state.locked():
        state.save_topology(topology)
        assert state.load_topology() == topology
        state.forget()
    assert not root.exists()


def test_a_fabric_has_a_digest_key_of_its_own_for_root_only(root: Path) -> None:
    keys = []
    for name in ("a", "b"):
        state = FabricState(name)
        assert state.digest_key == b""
        with state.locked():
            state.begin("netns")
            keys.append(state.digest_key)
            assert (state.directory / "digest_key").stat().st_mode & 0o777 == 0o600
            state.forget()
        assert state.digest_key == b""
    assert [len(key) for key in keys] == [32, 32]
    assert keys[0] != keys[1]
    assert not root.exists()


def test_the_steps_of_the_last_job_go_with_the_fabric(root: Path, topology: Topology) -> None:
    state = FabricState("a")
    with state.locked():
        state.save_topology(topology)
        recorded_command.stepped(state, [{"job": "train", "rank": 0, "step": 0}])
        assert state.job_steps.exists()
        state.forget()
    assert not root.exists()


def test_an_unused_lock_leaves_no_directory(root: Path) -> None:
    with FabricState("a").locked():
        assert root.exists()
    assert not root.exists()


def held_by(directory: Path, *, shared: bool = False) -> process.Process:
    """A process that has the lock, and its line to say so."""
    script = f"import fcntl, os, sys; d = os.open({str(directory)!r}, 0); "
    script += f"fcntl.flock(d, {fcntl.LOCK_SH if shared else fcntl.LOCK_EX}); print(flush=True); sys.stdin.read()"
    holder = process.start([sys.executable, "-c", script], stdin=process.PIPE, stdout=process.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "\n"
    return holder


@pytest.fixture
def kept(root: Path) -> FabricState:
    """A fabric that has something."""
    with FabricState("a").locked():
        FabricState("a").record(JournalKind.BACKEND, ["x"])
    assert root.exists()
    return FabricState("a")


@pytest.mark.parametrize("shared", [False, True])
def test_who_changes_waits_for_whoever_has_the_fabric_and_says_for_whom(kept: FabricState, shared: bool) -> None:
    told: list[str] = []

    def waiting(holder: str) -> None:
        told.append(holder)
        other.communicate()

    other = held_by(kept.directory, shared=shared)
    with kept.locked(waiting):
        assert other.returncode == 0
    assert len(told) == 1
    assert told[0].endswith(f"(pid {other.pid})")


def test_readers_wait_for_changes_and_not_for_each_other(kept: FabricState) -> None:
    told: list[str] = []

    def waiting(holder: str) -> None:
        told.append(holder)
        other.communicate()

    other = held_by(kept.directory)
    with kept.reading(waiting), kept.reading(waiting):
        assert len(told) == 1
    other = held_by(kept.directory, shared=True)
    with kept.reading():
        pass
    other.communicate()


def test_who_does_not_want_to_wait_is_told_that_it_is_busy(kept: FabricState) -> None:
    other = held_by(kept.directory)
    assert kept.is_locked()
    with pytest.raises(FabricBusy, match=rf"fabric a is in use by python.* \(pid {other.pid}\): wait"), kept.locked():
        pytest.fail("two commands hold the lock")
    other.communicate()
    assert not kept.is_locked()


def test_asking_who_changes_a_fabric_takes_no_lock(kept: FabricState) -> None:
    other = held_by(kept.directory, shared=True)
    assert not kept.is_locked()
    other.communicate()


def test_who_waited_for_a_fabric_that_is_gone_then_says_so(kept: FabricState) -> None:
    def waiting(_: str) -> None:
        kept.forget()
        kept.directory.rmdir()
        other.communicate()

    other = held_by(kept.directory)
    with pytest.raises(UsageError, match="fabric a is gone: rocelab ls"), kept.reading(waiting):
        pytest.fail("there is nothing to read")
    with pytest.raises(UsageError, match="fabric a is gone"):
        kept.load_topology()
    with kept.locked():
        assert kept.directory.exists()
    assert all_fabrics() == []


@pytest.mark.parametrize(
    ("release", "inside", "remedy"),
    [
        ("6.18.3", "", "rocelab --vm up topologies/"),
        ("7.0-rc3", "", "rocelab --vm up topologies/"),
        ("7.1.0-amd64", "", "rocelab up topologies/"),
        ("10.0", "", "rocelab up topologies/"),
        ("7.3.4", "1", "rocelab --vm up topologies/"),
    ],
)
def test_the_remedy_for_no_fabric_is_one_that_works(
    root: Path, monkeypatch: pytest.MonkeyPatch, release: str, inside: str, remedy: str
) -> None:
    """A kernel without RDMA in namespaces needs the VM; a command that runs in the VM was typed outside."""
    assert not root.exists()
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release=release))
    monkeypatch.delenv("ROCELAB_IN_VM", raising=False)
    if inside:
        monkeypatch.setenv("ROCELAB_IN_VM", inside)
    monkeypatch.chdir(root.parent)
    for name in (None, "x"):
        with pytest.raises(UsageError) as refused:
            find_fabric(name)
        assert refused.value.remedy.startswith("rocelab examples copy topologies/clos-2x4.yaml, then rocelab ")
    (root.parent / "topologies").mkdir()
    (root.parent / "topologies/clos-2x4.yaml").touch()
    for name in (None, "x"):
        with pytest.raises(UsageError) as refused:
            find_fabric(name)
        assert refused.value.remedy.startswith(remedy)


def test_no_fabric_and_several_fabrics_say_what_to_do(root: Path) -> None:
    with pytest.raises(UsageError, match="no fabric runs"):
        find_fabric(None)
    with pytest.raises(UsageError, match="no fabric x: none runs"):
        find_fabric("x")
    for name in ("a", "b"):
        with FabricState(name).locked():
            FabricState(name).begin("netns")
            FabricState(name).mark_ready()
    with pytest.raises(UsageError, match="2 fabrics run: say which with --fabric: a, b"):
        find_fabric(None)
    with pytest.raises(UsageError, match="no fabric x: there is a, b"):
        find_fabric("x")
    with pytest.raises(UsageError, match="no fabric aa: did you mean 'a'"):
        find_fabric("aa")
    assert find_fabric("b").ready
    assert root.exists()


def test_changed_qos_comes_back_and_goes_with_the_fabric(root: Path) -> None:
    topology = load_topology(
        "name: a\nqos: pfc-ecn\ngenerate: {shape: leaf-spine, spines: 1, leaves: 1, hosts_per_leaf: 1}"
    )
    nodes = resolve(topology)
    state = FabricState("a")
    with state.locked():
        assert state.load_qos() == {}
        state.save_qos({"leaf1": nodes["leaf1"]})
        state.save_qos({"leaf1": nodes["leaf1"], "h1": nodes["h1"]})
        assert state.load_qos() == {"leaf1": nodes["leaf1"], "h1": nodes["h1"]}
        for killed in ("qos.json.new", "cleared.npz.new"):
            (state.directory / killed).touch()
        state.forget()
    assert not (root / "fabrics" / "a").exists()


def test_damaged_qos_says_so(root: Path) -> None:
    state = FabricState("a")
    with state.locked():
        for text in ("{", '{"leaf1": {}}', "[]", '{"leaf1": {"pool": 1, "ports": {"swp1": {}}}}'):
            (root / "fabrics" / "a" / "qos.json").write_text(text)
            with pytest.raises(InvalidInput, match="is damaged"):
                state.load_qos()


def test_folders_without_a_fabric_go_and_others_stay(root: Path) -> None:
    """Somebody was killed between making them and making the first fabric's."""
    (root / "fabrics").mkdir(parents=True)
    remove_empty_roots()
    assert not root.exists()
    (root / "fabrics" / "a").mkdir(parents=True)
    remove_empty_roots()
    assert (root / "fabrics" / "a").is_dir()


def test_a_folder_of_all_that_is_taken_away_meanwhile_is_made_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the end of another's last fabric, before the fabric's own is made in it."""
    every, make = root / "fabrics", os.mkdir
    taken: list[Path] = []

    def mkdir(path: str | Path, mode: int = 0o777) -> None:
        make(path, mode)
        if Path(path) == every and len(taken) < 3:
            every.rmdir()
            taken.append(every)

    monkeypatch.setattr(os, "mkdir", mkdir)
    state = FabricState("late")
    with state.locked():
        assert state.directory.is_dir()
    assert len(taken) == 3
