"""Whatever goes wrong in ``up``, all that the journal names is taken away, and the error is told."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from lab.backends import lifecycle, registry
from lab.backends.backend import Fabric, Progress
from lab.backends.fabric_state import FabricState, JournalKind
from lab.errors import InvalidInput, OperationFailed, UsageError
from lab.kernel.process.netns import Namespace
from lab.model.addressing import NodePlan, plan_addresses
from lab.model.load import renamed
from lab.model.topology import Role, Topology
from lab.routing.daemons import Router


class Recorder:
    """A backend that makes nothing and remembers what it was asked."""

    name = "recorder"

    def __init__(self, fail: BaseException | None = None) -> None:
        self.fail = fail
        self.removed: list[tuple[str, ...]] = []

    def check(self, topology: Topology) -> None:
        assert topology.nodes

    def deploy(self, fabric: Fabric, progress: Progress) -> None:
        fabric.state.record(JournalKind.NAMESPACE, ["one", "two"])
        progress("plumbing", 1, 1)
        if self.fail is not None:
            raise self.fail

    def remove(self, state: FabricState) -> None:
        self.removed.append(state.recorded(JournalKind.NAMESPACE))

    def namespace(self, state: FabricState, node: str) -> Namespace:
        return Namespace(f"{state.name}.{node}")

    def plan(self, state: FabricState, topology: Topology) -> Mapping[str, NodePlan]:
        assert state.name == topology.name
        return plan_addresses(topology)

    def indexes(self, state: FabricState) -> Mapping[str, Mapping[str, int]]:
        assert state.name
        return {}

    def router(self, state: FabricState, node: str) -> Router:
        return Router(node, self.namespace(state, node), state.node_directory(node))

    def complaints(self, state: FabricState) -> dict[str, str]:
        assert state.exists()
        return {}


@pytest.fixture
def hosts(topology: Topology) -> Topology:
    """No switches, so that there is nothing to converge."""
    nodes = tuple(node for node in topology.nodes if node.role is Role.HOST)
    return replace(topology, name="hosts", nodes=nodes, links=())


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[[Recorder], Recorder]:
    def use(backend: Recorder) -> Recorder:
        monkeypatch.setattr(registry, "backend", lambda _: backend)
        return backend

    return use


def test_a_fabric_lives_and_goes(root: Path, hosts: Topology, play: Callable[[Recorder], Recorder]) -> None:
    backend = play(Recorder())
    fabric, watch = lifecycle.up(hosts, backend)
    assert fabric.state.ready
    assert set(watch.seconds) == {"plumbing", "convergence"}
    assert lifecycle.open_fabric().topology == hosts
    lifecycle.down(fabric.state)
    assert backend.removed == [("one", "two")]
    assert not root.exists()


@pytest.mark.parametrize("fault", [OperationFailed("no"), KeyboardInterrupt(), MemoryError()])
def test_a_failed_up_is_undone(root: Path, hosts: Topology, fault: BaseException) -> None:
    backend = Recorder(fail=fault)
    with pytest.raises(type(fault)):
        lifecycle.up(hosts, backend)
    assert backend.removed == [("one", "two")]
    assert not root.exists()


def test_a_name_in_use_is_refused_and_the_fabric_left_alone(root: Path, hosts: Topology) -> None:
    backend = Recorder()
    lifecycle.up(hosts, backend)
    with pytest.raises(UsageError, match="fabric hosts exists: rocelab down --fabric hosts"):
        lifecycle.up(hosts, backend)
    assert backend.removed == []
    assert FabricState("hosts").ready
    assert root.exists()


def test_a_fabric_in_pieces_is_not_opened(root: Path, play: Callable[[Recorder], Recorder]) -> None:
    play(Recorder())
    with FabricState("hosts").locked():
        FabricState("hosts").record(JournalKind.BACKEND, ["recorder"])
    with pytest.raises(UsageError, match="fabric hosts is in pieces"):
        lifecycle.open_fabric("hosts")
    assert root.exists()


@pytest.mark.parametrize("name", ["", "Upper", "a/b", "-x", "x" * 25, "..", "a b"])
def test_a_name_that_the_kernel_or_a_path_would_not_bear_is_refused(hosts: Topology, name: str) -> None:
    with pytest.raises(InvalidInput):
        renamed(hosts, name)


def test_without_rdma_no_host_asks_for_it(topology: Topology) -> None:
    assert any(node.rdma for node in topology.nodes)
    assert not any(node.rdma for node in lifecycle.without_rdma(topology).nodes)
