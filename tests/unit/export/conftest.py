"""The fabrics that are exported: those that come with rocelab, and one that has everything."""

from pathlib import Path

import pytest

from lab.model.load import read_topology
from lab.model.topology import Topology

HERE = Path(__file__).parent
SHIPPED = Path(__file__).parents[3] / "topologies"
FABRICS = [*sorted(SHIPPED.glob("*.yaml")), *sorted((HERE / "fabrics").glob("*.yaml"))]


@pytest.fixture(params=FABRICS, ids=lambda path: path.stem)
def fabric(request: pytest.FixtureRequest) -> Topology:
    path: Path = request.param
    return read_topology(path)
