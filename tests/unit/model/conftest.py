"""Fabrics of every shape, and hypothesis strategies that make more."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from lab.model.load import load_topology, read_topology
from lab.model.topology import Topology

# A test shares its two cores with fabrics that come up; how long one example takes says nothing.
settings.register_profile("rocelab", deadline=None)
settings.load_profile("rocelab")

SHIPPED = sorted((Path(__file__).parents[3] / "topologies").glob("*.yaml"))


def generated(shape: str, extra: str = "", **counts: object) -> Topology:
    """The fabric of a generator."""
    settings = ", ".join(f"{key}: {value}" for key, value in counts.items())
    return load_topology(f"name: test\ngenerate: {{shape: {shape}, {settings}}}\n{extra}")


@pytest.fixture
def generate() -> Callable[..., Topology]:
    return generated


@pytest.fixture(params=SHIPPED, ids=lambda path: path.stem)
def shipped(request: pytest.FixtureRequest) -> Topology:
    """Each of the topologies that come with rocelab."""
    return read_topology(request.param)


@pytest.fixture
def small() -> Topology:
    return read_topology(SHIPPED[0])
