"""Which packets a hidden disturbance really met, by the counts of its fault."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lab.dataplane.disturb import DisturbanceCounts
from lab.dataplane.impair import ImpairmentCounts
from lab.faults.kinds.cable import LinkDelay, LinkReorder
from lab.faults.kinds.packet_faults import LinkLoss
from tests.bench.hidden import struck

if TYPE_CHECKING:
    from lab.faults.fault import Fault


def struck_by(kind: type[Fault[Any]], *counts: object, monkeypatch: pytest.MonkeyPatch) -> int | None:
    """What is counted of a fault whose ends have these counts."""
    fault = kind.__new__(kind)
    monkeypatch.setattr(kind, "truth", lambda _: dict(enumerate(counts)), raising=False)
    monkeypatch.setattr(struck, "fault_of", lambda *_: fault)
    unread: Any = SimpleNamespace()
    return struck.struck_packets(unread, unread)


def impaired(**counted: int) -> ImpairmentCounts:
    none: dict[str, Any] = {each.name: {} if "_matched" in each.name or "_struck" in each.name else 0
                            for each in fields(ImpairmentCounts)}  # fmt: skip
    return ImpairmentCounts(**{**none, "seen": 1000, "matched": 1000, **counted})


@pytest.mark.parametrize(
    "what", ["lost", "corrupted_frames", "corrupted_payloads", "dscp_rewritten", "ecn_cleared", "duplicated"]
)
def test_each_change_of_a_packet_counts_at_both_ends(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert struck_by(LinkLoss, impaired(**{what: 2}), impaired(**{what: 3}), monkeypatch=monkeypatch) == 5


def test_packets_that_only_pass_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    assert struck_by(LinkLoss, impaired(), impaired(), monkeypatch=monkeypatch) == 0


def test_packets_that_are_to_be_overtaken_count(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = DisturbanceCounts(900, 4, 1), DisturbanceCounts(900, 0, 0)
    assert struck_by(LinkReorder, *ends, monkeypatch=monkeypatch) == 4


def test_a_delay_meets_every_packet_and_counts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert struck_by(LinkDelay, DisturbanceCounts(0, 0, 0), monkeypatch=monkeypatch) is None
