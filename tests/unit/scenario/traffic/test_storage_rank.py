"""A scenario's job with storage has one more rank, on the storage host."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from lab.scenario.traffic import training
from tests.unit.cli.traffic.planned_fabric import FABRIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from lab.rdma.measure import Nic


def test_the_last_rank_is_on_the_storage_host(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts: list[str] = []

    def run(nics: Sequence[Nic], *_: object, **__: object) -> SimpleNamespace:
        hosts.extend(nic.host for nic in nics)
        return SimpleNamespace(wrong=0)

    monkeypatch.setattr(training, "run_training", run)
    stage: Any = SimpleNamespace(fabric=FABRIC, recorder=SimpleNamespace(note=lambda *_, **__: None))
    text = "{hosts: [h2, h1], compute: 1ms, allreduce: 1024, storage: {host: h4, checkpoint: 1kB}}"
    training.train(stage, text)
    assert hosts == ["h2", "h1", "h4"]
