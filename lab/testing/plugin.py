"""The plug-in of pytest: fixtures ``fabric``, ``fault``, ``recording`` and ``scenario``, and the marker ``rocelab``.

pytest loads it in every run where rocelab is installed. So it imports nothing until a test uses a fabric, and does
not affect other tests.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Final, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.model.topology import Topology
    from lab.testing.fabric_fixture import FabricFixture, Faults, Recordings
    from lab.testing.marker import FabricRequest
    from lab.testing.pool import FabricPool
    from lab.testing.scenario_runs import Scenarios

_MARKER: Final = "rocelab"
_REQUIRE: Final = "ROCELAB_REQUIRE"
_POOL: Final = pytest.StashKey["FabricPool"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for tests whose marker does not specify a topology or scope."""
    group = parser.getgroup("rocelab", "fabrics of rocelab")
    group.addoption("--rocelab-topology", metavar="FILE", help="topology of tests whose marker names none")
    group.addoption(
        "--rocelab-scope",
        choices=("function", "module", "session"),
        default="function",
        help="how long a fabric lives where no marker says so",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(topology, scope='function', rdma=True): the fabric of a test, a YAML file beside it or a mapping",
    )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Take down the fabrics of the session."""
    pool = session.config.stash.get(_POOL, None)
    if pool is not None:
        pool.close()


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Explain a Count in a failed assert."""
    count = sys.modules.get("lab.testing.count")
    return None if count is None else cast("list[str] | None", count.explain(op, left, right))


@pytest.fixture
def fabric(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> FabricFixture:
    """A running fabric, as the marker ``rocelab`` specifies it: see ``rocelab docs testing``."""
    from lab.testing.fabric_fixture import FabricFixture  # noqa: PLC0415 - here and below: see above

    with _told():
        asked = _asked(request)
        name = f"<topology of {request.node.nodeid}>"
        topology = asked.load([request.path.parent, request.config.rootpath], name)
        live = _pool(request.config).get(_keeper(request, asked), topology)
    made = FabricFixture(live, tmp_path_factory.mktemp("rocelab"))
    text = f"fabric {made.name}, of topology {topology.name}; captures and recordings are in {made.folder}"
    request.node.add_report_section("setup", "rocelab", text)
    return made


@pytest.fixture
def fault(fabric: FabricFixture) -> Iterator[Faults]:
    """Injects faults into ``fabric``, and heals them when the test ends: ``fault("link-down", "leaf1:swp1")``."""
    from lab.testing.fabric_fixture import Faults  # noqa: PLC0415

    faults = Faults(fabric)
    yield faults
    faults.heal()


@pytest.fixture
def recording(fabric: FabricFixture) -> Recordings:
    """Records what ``fabric`` does while a block runs: ``with recording() as run:``, then ``run.read()``."""  # noqa: D402
    from lab.testing.fabric_fixture import Recordings  # noqa: PLC0415

    return Recordings(fabric)


@pytest.fixture
def scenario(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Scenarios:
    """Plays scenarios on fabrics of their own: ``assert not scenario("incast").failures``."""  # noqa: D402
    from lab.testing.scenario_runs import Scenarios  # noqa: PLC0415

    with _told():
        asked = _asked(request)

    def build(topology: Topology) -> object:
        with _told():
            return _pool(request.config).get(_keeper(request, asked), topology)

    return Scenarios(build, tmp_path_factory.mktemp("rocelab"))  # type: ignore[arg-type]


def _asked(request: pytest.FixtureRequest) -> FabricRequest:
    """Return the request: options, overridden by the markers of the module, the class and the test."""
    from lab.testing.marker import FabricRequest, scope_of  # noqa: PLC0415

    options = request.config.option
    asked = FabricRequest(options.rocelab_topology, scope_of(options.rocelab_scope))
    for marker in reversed(list(request.node.iter_markers(_MARKER))):
        asked = asked.with_marker(marker.args, marker.kwargs)
    return asked


def _pool(config: pytest.Config) -> FabricPool:
    from lab.testing.pool import FabricPool  # noqa: PLC0415

    return config.stash.setdefault(_POOL, FabricPool())


def _keeper(request: pytest.FixtureRequest, asked: FabricRequest) -> str:
    """Return the id of the keeper, which takes the fabric down: the test, its module, or the session."""
    kinds = {"module": pytest.Module, "session": pytest.Session}
    node = request.node
    if asked.scope != "function":
        node = request.node.getparent(kinds[asked.scope]) or request.session
    pool = _pool(request.config)
    if not pool.has(node.nodeid):
        node.addfinalizer(lambda: pool.release(node.nodeid))
    return str(node.nodeid)


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Report errors as one line. A missing capability skips the test, or fails it with ``ROCELAB_REQUIRE``."""
    from lab.errors import EnvironmentLacks, FabricBusy, LabError  # noqa: PLC0415

    try:
        yield
    except LabError as error:
        if isinstance(error, EnvironmentLacks) and not isinstance(error, FabricBusy) and not os.environ.get(_REQUIRE):
            pytest.skip(str(error))
        pytest.fail(str(error), pytrace=False)
