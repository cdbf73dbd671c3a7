"""``rocelab diagnose`` of a running fabric: what was injected is named first, and where; what is healthy is healthy.

The judge is what the test itself has injected. In virtual time, with 100 Mb/s links.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.cli.schemas import adapter
from lab.model.hosts import parse_pair
from lab.rdma.continuous_transfers import flowing
from lab.rdma.measure import BandwidthTest
from lab.rdma.nic_choice import find_pair
from tests.fabric.command import rocelab

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.backends.backend import Fabric

pytestmark = [pytest.mark.vm, pytest.mark.backends, pytest.mark.timeout(600)]
WINDOW: Final = 1.5
BEHIND: Final = 5.0
"""Seconds that an answer may take behind its window."""


@pytest.fixture(scope="module", autouse=True)
def writing(incast: Fabric) -> Iterator[None]:
    """h1 and h2 write to h4, and are paused for it."""
    pairs = [find_pair(incast, *parse_pair(pair)) for pair in ("h1:h4", "h2:h4")]
    with flowing(pairs, BandwidthTest(qps=2, duration=1)):
        yield


def diagnosed(expect: int) -> dict[str, Any]:
    """What it answers of the fabric now, which must be in time and as its schema has it."""
    began = time.monotonic()
    said = rocelab("diagnose", "--seconds", str(WINDOW), "--json", expect=expect).stdout
    took = time.monotonic() - began
    adapter("diagnose").validate_json(said)
    answer: dict[str, Any] = json.loads(said)
    assert answer["end"] - answer["start"] == pytest.approx(WINDOW, abs=0.2)
    assert took - answer["end"] < BEHIND, f"{took:.1f} s for a window that ended after {answer['end']:.1f}"
    return answer


def test_an_incast_is_capacity() -> None:
    answer = diagnosed(expect=0)
    assert answer["outcome"] == "capacity"
    assert [cause["places"] for cause in answer["causes"]] == [["leaf1:swp6"]]


@pytest.mark.parametrize(
    ("fault", "cause", "place"),
    [
        pytest.param(("pause-storm", "h4"), "pfc-storm", "h4:eth1", marks=pytest.mark.long),
        pytest.param(("pauses-ignored", "h1"), "pfc-one-sided", "h1:eth1", marks=pytest.mark.long),
        (("port-config", "leaf1:swp6", "set=ecn.3.enabled=false"), "ecn-missing-one-leaf", "leaf1:swp6"),
    ],
)
def test_what_was_injected_is_named_first(fault: tuple[str, ...], cause: str, place: str) -> None:
    rocelab("fault", "inject", *fault)
    time.sleep(0.5)  # the last pause that was obeyed runs out after 0.34 s
    try:
        answer = diagnosed(expect=1)
    finally:
        rocelab("fault", "heal", "--all")
    assert answer["causes"][0]["cause"] == cause
    assert answer["causes"][0]["places"] == [place]
