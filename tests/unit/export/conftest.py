"""The fabrics that are exported: those that come with rocelab, and one that has everything."""

from pathlib import Path

import pytest

from lab.model.load import read_topology
from lab.model.topology import Topology

HERE = Path(__file__).parent
SHIPPED = Path(__file__).parents[3] / "topologies"
ALL = [*sorted(SHIPPED.glob("*.yaml")), *sorted((HERE / "fabrics").glob("*.yaml"))]
OVERLAYS = [path for path in ALL if read_topology(path).overlay is not None]
FABRICS = [path for path in ALL if path not in OVERLAYS]


@pytest.fixture(params=FABRICS, ids=lambda path: path.stem)
def fabric(request: pytest.FixtureRequest) -> Topology:
    path: Path = request.param
    return read_topology(path)
