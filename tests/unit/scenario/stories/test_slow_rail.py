"""The slow rail's checks: each has a recording that it fails, also one in which it is the sibling that is slow."""

from pathlib import Path

import pytest

from tests.unit.scenario.tale import MBIT, Growth, Tale, failing, outcomes, sent, together

NICS = [f"{host}:{rail}" for host in ("h1", "h2", "h3", "h4") for rail in ("eth1", "eth2")]


def taken(slow: float) -> Growth:
    """What the NICs of h3 take in, in Mb/s; the second one is the slow one."""
    return {"h3:eth1 rcvd_bytes": 99.4 * MBIT, "h3:eth2 rcvd_bytes": slow * MBIT}


HEALTHY = together(sent(dict.fromkeys(NICS, 99.4)), taken(99.4))
GOOD: Tale = {
    "baseline": HEALTHY,
    "observe": together(
        HEALTHY, sent({"h2:eth2": 49.7}), taken(49.7),
        {"h3:eth2 tx_prio3_pause": 50, "h2:eth2 rx_prio3_pause": 50, "h2:eth2 rx_prio3_pause_duration": 500_000},
    ),
    "verify": HEALTHY,
}  # fmt: skip


def test_a_good_one_passes(tmp_path: Path) -> None:
    assert set(outcomes(tmp_path, "slow-rail", GOOD).values()) == {"pass"}


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"baseline": {"h3:eth2 tx_prio3_pause": 1}}, {"one-nic-sends-pauses"}),
        ({"observe": {"h3:eth1 tx_prio3_pause": 1}}, {"one-nic-sends-pauses"}),
        ({"observe": {"h3:eth2 tx_prio3_pause": 0}}, {"one-nic-sends-pauses"}),
        ({"observe": taken(60)}, {"its-rail-is-slow"}),
        ({"observe": {"h3:eth1 rcvd_bytes": 90 * MBIT}}, {"its-rail-is-slow"}),
        ({"observe": {"h2:eth2 rx_prio3_pause_duration": 0}}, {"the-writer-is-paused"}),
        ({"observe": {"h2:eth1 rx_prio3_pause_duration": 500_000}}, {"the-writer-is-paused"}),
        ({"observe": sent({"h2:eth2": 70})}, {"the-writer-is-paused"}),
        ({"observe": {"h3:rx-eth2 queue3_drop_headroom_packets": 1}}, {"nothing-is-lost"}),
        ({"verify": sent({"h2:eth1": 80})}, {"rate-recovers"}),
        ({"verify": sent({"h2:eth2": 80})}, {"rate-recovers"}),
    ],
)
def test_each_check_has_one_that_it_fails(tmp_path: Path, changes: Tale, wrong: set[str]) -> None:
    assert failing(tmp_path, "slow-rail", GOOD, changes) == wrong
