"""A state directory and a topology of the tests' own."""

from pathlib import Path

import pytest

from lab.backends import fabric_state
from lab.model.load import read_topology
from lab.model.topology import Topology

TOPOLOGIES = Path(__file__).parents[3] / "topologies"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands in for /run/rocelab, which needs root."""
    root = tmp_path / "run"
    monkeypatch.setattr(fabric_state, "STATE_ROOT", root)
    monkeypatch.setattr(fabric_state, "FABRICS", root / "fabrics")
    return root


@pytest.fixture(scope="session")
def topology() -> Topology:
    return read_topology(TOPOLOGIES / "clos-2x2.yaml")
