"""Which hosts work in a healthy run: those of one tenant, grouped by leaf, on each topology."""

from __future__ import annotations

import random
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lab.model.load import read_topology
from tests.bench.catalogue_parts import healthy, sorts
from tests.bench.catalogue_parts.sorts import MORE_SORTS, WITHOUT_RDMA, leaves
from tests.fabric.command import TOPOLOGIES

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = sorted(path.stem for path in TOPOLOGIES.glob("*.yaml"))


@pytest.mark.parametrize(
    ("name", "hosts"),
    [
        ("incast", (("h1", "h2", "h3", "h4"), ("h5", "h6", "h7", "h8"))),
        ("rails", (("h1", "h2", "h3", "h4"),)),
        ("tenant", (("h1",), ("h3",), ("h5",))),
        ("flood", (("h1",), ("h2",), ("h3",), ("h4",))),
        ("multihomed", (("h2",), ("h3",))),
    ],
)
def test_hosts_by_leaf_of_the_largest_group_that_reaches_each_other(
    name: str, hosts: tuple[tuple[str, ...], ...]
) -> None:
    assert leaves(read_topology(TOPOLOGIES / f"{name}.yaml")) == hosts


class Played:
    """Stands in for a stage: notes the pairs of each transfer."""

    def __init__(self, name: str) -> None:
        self.fabric = SimpleNamespace(topology=read_topology(TOPOLOGIES / f"{name}.yaml"))
        self.pairs: list[str] = []

    @contextmanager
    def phase(self, _name: str) -> Iterator[None]:
        yield

    @contextmanager
    def writing(self, *pairs: str, **_options: object) -> Iterator[None]:
        self.pairs += pairs
        yield

    def hold(self, _seconds: float) -> None:
        """Wait for nothing."""


@pytest.mark.parametrize("kind", MORE_SORTS)
def test_each_sort_works_on_each_topology(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No host writes to itself, and all hosts reach each other."""

    @contextmanager
    def ran(stage: Played, *pairs: str, **_options: object) -> Iterator[None]:
        assert kind in {*WITHOUT_RDMA, "beside-tcp"}
        stage.pairs += pairs
        yield

    monkeypatch.setattr(sorts, "pinging", ran)
    monkeypatch.setattr(sorts, "streaming", ran)
    monkeypatch.setattr(sorts, "train", lambda stage, job: stage.pairs.append(job.split("[")[1].split("]")[0]))
    for name in NAMES:
        played: Any = Played(name)
        assert MORE_SORTS[kind](played, random.Random(7))
        known = {host for leaf in leaves(played.fabric.topology) for host in leaf}
        for pair in played.pairs:
            hosts = pair.replace(", ", ":").split(":")
            assert len(set(hosts)) == len(hosts) > 1
            assert known.issuperset(hosts)


@pytest.mark.parametrize("words", [["--fabric", "ospf"], ["--plain"], ["--record-only"]])
def test_other_topologies_and_sorts_are_only_recorded(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """No check of a scenario fits them; and a recording that nobody judges has to be kept."""
    monkeypatch.setattr(healthy, "play", lambda *_: pytest.fail("judged"))
    monkeypatch.setattr("sys.argv", ["healthy", *words])
    with pytest.raises(SystemExit, match="2"):
        healthy.main()
