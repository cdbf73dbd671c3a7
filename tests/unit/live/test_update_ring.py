"""The last updates: bounded in size, and a slow or new reader goes on from a snapshot."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from lab.live import update_ring
from lab.live.update_ring import UpdateRing
from tests.patience import PATIENCE


def whole() -> dict[str, Any]:
    return {"all": True}


def read(ring: UpdateRing, cursor: int, patience: float = 0.0) -> tuple[int, list[dict[str, Any]], str]:
    """The next cursor, the updates, and why it ended."""
    said = json.loads(ring.after(cursor, 0, whole, patience))
    return said["next"], said["updates"], said["ended"]


def filled(count: int) -> UpdateRing:
    ring = UpdateRing()
    for number in range(1, count + 1):
        ring.publish({"t": number})
    return ring


def test_a_new_reader_gets_a_snapshot_and_then_what_is_new() -> None:
    ring = filled(3)
    assert read(ring, 0) == (3, [{"all": True, "reset": True}], "")
    ring.publish({"t": 4})
    assert read(ring, 3) == (4, [{"t": 4}], "")
    assert read(ring, 4) == (4, [], "")


def test_before_the_first_update_there_is_nothing() -> None:
    assert read(UpdateRing(), 0) == (0, [], "")


def test_a_reader_that_is_too_slow_or_invents_a_cursor_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update_ring, "MOST_UPDATES", 3)
    ring = filled(10)
    assert read(ring, 7)[1] == [{"t": 8}, {"t": 9}, {"t": 10}]
    for cursor in (1, 6, 11, 10**15):
        assert read(ring, cursor) == (10, [{"all": True, "reset": True}], "")


def test_it_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update_ring, "MOST_BYTES", 100)
    ring = filled(1000)
    assert sum(map(len, ring._kept)) <= 100
    assert read(ring, 999)[1] == [{"t": 1000}]


def test_an_answer_is_bounded_and_the_next_one_goes_on() -> None:
    ring = filled(500)
    cursor, found = 1, []
    while cursor < 500:
        cursor, some, _ = read(ring, cursor)
        assert len(some) <= 200
        found += some
    assert [each["t"] for each in found] == list(range(2, 501))


@pytest.mark.parametrize(("change", "updates"), [("publish", [{"t": 2}]), ("end", []), ("tell", [])])
def test_a_reader_waits_until_there_is_news(change: str, updates: list[dict[str, Any]]) -> None:
    ring = filled(1)
    answers: list[bytes] = []
    reader = threading.Thread(target=lambda: answers.append(ring.after(1, 0, whole, PATIENCE)))
    reader.start()
    match change:
        case "publish":
            ring.publish({"t": 2})
        case "end":
            ring.end("it is over")
        case "tell":
            ring.tell(recording={"state": "recording"})
    reader.join(PATIENCE)
    said = json.loads(answers[0])
    assert said["updates"] == updates
    assert said["ended"] == ("it is over" if change == "end" else "")
    if change == "tell":
        assert said["recording"] == {"state": "recording"}


def test_what_was_told_between_two_questions_is_answered_at_once() -> None:
    """A reader knows how often it was told something: it would wait for the next update otherwise."""
    ring = filled(1)
    ring.tell(recording={"state": "starting"})
    said = json.loads(ring.after(1, 0, whole, 0))
    ring.tell(recording={"state": "recording"})
    began = time.monotonic()
    said = json.loads(ring.after(1, said["tellings"], whole, 1e6))
    assert said["recording"] == {"state": "recording"}
    assert time.monotonic() - began < PATIENCE


def test_the_first_reason_of_the_end_counts() -> None:
    ring = filled(1)
    ring.end("the fabric was taken down")
    ring.end("rocelab live was stopped")
    assert read(ring, 1)[2] == "the fabric was taken down"
