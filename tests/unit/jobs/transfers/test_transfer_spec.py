"""The requests of a transfer: refused values, targets in turn, arrivals, and what each host holds."""

from __future__ import annotations

import json
from ipaddress import ip_address
from statistics import fmean
from typing import Any

import pytest

from lab.errors import UsageError
from lab.jobs.transfers.transfer_spec import MAX_REQUESTS, TransferSpec, TransferVerb, plans
from lab.kernel.process.netns import Namespace
from lab.rdma.measure import Nic


def nic(number: int) -> Nic:
    return Nic(f"h{number}", "eth1", Namespace("none"), f"t.h{number}.eth1", ip_address(f"10.0.0.{number}"))


def planned(spec: TransferSpec, initiators: int, targets: int) -> list[dict[str, Any]]:
    nics = [nic(number) for number in range(1, 1 + initiators + targets)]
    return [json.loads(each) for each in plans(spec, nics[:initiators], nics[initiators:])]


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"size": 0}, "size of 0 bytes"),
        ({"size": 3}, "size of 3 bytes"),
        ({"size": 33 * 2**20}, "too large"),
        ({"requests": 0}, "0 requests"),
        ({"requests": MAX_REQUESTS + 1}, f"{MAX_REQUESTS + 1} requests"),
        ({"interval": -0.1}, "interval"),
        ({"interval": 61.0}, "interval"),
        ({"seed": 1}, "random arrivals"),
        ({"tclass": 256}, "256"),
    ],
)
def test_values_that_cannot_be_are_named(values: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        TransferSpec(**{"size": 1024, **values})


def test_hosts_use_the_targets_in_turn_and_each_request_has_memory_of_its_own() -> None:
    made = planned(TransferSpec(size=1022, requests=3), 2, 2)
    assert [[each["target"] for each in plan["requests"]] for plan in made] == [[2, 3, 2], [3, 2, 3], [], []]
    taken = [(each["target"], each["slot"]) for plan in made for each in plan["requests"]]
    assert sorted(taken) == [(2, 0), (2, 1), (2, 2), (3, 0), (3, 1), (3, 2)]
    assert {plan["size"] for plan in made} == {1020}
    for plan in made[:2]:
        for number, each in enumerate(plan["requests"]):
            assert made[each["target"]]["scales"][each["slot"]] == plan["scales"][number]
    assert len({scale for plan in made[:2] for scale in plan["scales"]}) == 6


@pytest.mark.parametrize(
    ("verb", "filled"), [(TransferVerb.WRITE, [True, False]), (TransferVerb.READ, [False, True])]
)
def test_the_data_begins_where_it_comes_from(verb: TransferVerb, filled: list[bool]) -> None:
    assert [plan["filled"] for plan in planned(TransferSpec(size=64, verb=verb), 1, 1)] == filled


def test_more_than_a_host_may_hold_names_it() -> None:
    with pytest.raises(UsageError, match=r"36 requests of 8\.389 MB at h4"):
        planned(TransferSpec(size=8 * 2**20, requests=12), 3, 1)


def test_arrivals_are_equal_or_random_with_a_mean() -> None:
    assert TransferSpec(size=4, requests=3).arrivals(0) == [None, None, None]
    assert TransferSpec(size=4, requests=3, interval=0.1).arrivals(0) == [0, 100_000_000, 200_000_000]
    users = TransferSpec(size=4, requests=MAX_REQUESTS, interval=0.1, seed=7)
    drawn = [each or 0 for each in users.arrivals(0)]
    gaps = [(later - earlier) / 1e9 for earlier, later in zip([0, *drawn], drawn, strict=False)]
    assert users.arrivals(0) == drawn
    assert users.arrivals(1) != drawn
    assert fmean(gaps) == pytest.approx(0.1, rel=4 / MAX_REQUESTS**0.5)  # four standard errors of an exponential
    assert fmean(gap > 0.1 for gap in gaps) == pytest.approx(0.368, abs=4 * (0.368 * 0.632 / MAX_REQUESTS) ** 0.5)
