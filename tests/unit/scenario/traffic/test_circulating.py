"""A constant number of packets in flight: how perftest is called, and what the recording says of it."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lab.rdma import continuous_transfers, perftest, perftest_session
from lab.rdma.measure import BandwidthTest, Verb
from lab.scenario.traffic import workload

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The options of perftest, which is not started."""
    found: list[str] = []

    def prepare(_pairs: object, _test: object, _kind: object, options: Sequence[str], _folder: object) -> list[Any]:
        found.extend(options)
        return []

    monkeypatch.setattr(perftest, "prepare", prepare)
    for name in ("begin", "await_packets", "end_all"):
        monkeypatch.setattr(perftest_session, name, lambda *_: None)
    return found


def test_writes_end_by_their_duration(options: list[str]) -> None:
    with continuous_transfers.flowing([], BandwidthTest(qps=3, tx_depth=1)):
        assert options == ["--duration", "86400", "--qp", "3", "--tx-depth", "1"]


def test_reads_one_by_one_wake_the_program_before_their_queue_is_empty(options: list[str]) -> None:
    with continuous_transfers.flowing([], BandwidthTest(qps=3, tx_depth=32, verb=Verb.READ), one_by_one=True):
        assert "--duration" not in options
        assert options[options.index("--outs") + 1] == "1"
        assert options[options.index("--cq-mod") + 1] == "4"
        assert {"--events", "--noPeak"} <= set(options)


@pytest.mark.parametrize(("verb", "ends"), [(Verb.WRITE, ("h2", "h1")), (Verb.READ, ("h1", "h2"))])
def test_pairs_are_in_the_direction_of_the_data(
    verb: Verb, ends: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client of a read is its receiver."""
    notes: list[dict[str, Any]] = []
    called: list[tuple[Any, ...]] = []

    @contextmanager
    def flowing(pairs: object, test: BandwidthTest, *, one_by_one: bool) -> Iterator[None]:
        called.append((pairs, test.verb, test.qps, one_by_one))
        yield

    monkeypatch.setattr(workload, "flowing", flowing)
    monkeypatch.setattr(workload, "find_pair", lambda _fabric, src, dst: (src, dst))
    recorder = SimpleNamespace(note=lambda text, **data: notes.append({"text": text, **data}))
    stage: Any = SimpleNamespace(fabric=None, recorder=recorder)
    with workload.circulating(stage, "h2:h1", packets=18, size=1000, verb=verb):
        assert called == [([ends], verb, 18, verb is Verb.READ)]
    assert [(note["text"], note["pairs"], note["verb"]) for note in notes] == [("traffic", ["h2:h1"], verb.value)]
