"""The QPs that a host's NICs hold below the line rate, from the records of their limiters."""

from __future__ import annotations

import time
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from lab.dataplane.limited_qps import LimitedQp, limited_qps
from lab.dataplane.numbering import NodePorts, Numbering
from lab.dataplane.port_layout import ALPHA_ONE, LIMITERS, RateAlgorithm
from tests.unit.dataplane.made_maps import empty

if TYPE_CHECKING:
    from lab.dataplane.port_maps import PortMaps

OTHER = NodePorts("h1", 0, 1, ("eth1",), host=True)
HOST = NodePorts("h2", 1, 4, ("eth1", "eth2"), host=True, first_nic=1)
SWITCH = NodePorts("leaf1", 2, 9, ("swp1",), host=False)
NOW = 10**12
PERIOD = 55_000


def maps() -> PortMaps:
    """Of three nodes: the QP of h2 with limiter 5 is limited at eth2 only."""
    made = empty(Numbering({node.node: node for node in (OTHER, HOST, SWITCH)}))
    named = made.limiters[HOST.nic("eth1") * LIMITERS + 5]
    named["qpn"], named["peer_qpn"] = 17, 18
    named["address"], named["peer"] = gid("10.0.0.2"), gid("fd00::1")
    limiter = made.limiters[HOST.nic("eth2") * LIMITERS + 5]
    for name, value in {"rate": 10**6, "target": 2 * 10**6, "alpha": ALPHA_ONE // 4, "cnps": 3, "packets": 7}.items():
        limiter[name] = value
    limiter["started"], limiter["waiting"], limiter["alpha_at"] = 1, 2, NOW + 1
    return made


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic_ns", lambda: NOW)


def gid(address: str) -> Any:
    packed = ip_address(address).packed
    return np.frombuffer(packed if len(packed) == 16 else bytes(10) + b"\xff\xff" + packed, np.uint8)


def test_a_qp_is_described_at_the_nic_that_limits_it() -> None:
    assert list(limited_qps(maps(), HOST)) == [
        LimitedQp(
            node="h2",
            interface="eth2",
            qpn=17,
            address=ip_address("10.0.0.2"),
            peer=ip_address("fd00::1"),
            peer_qpn=18,
            rate=10**6,
            target=2 * 10**6,
            alpha=0.25,
            rtt=None,
            rtts=0,
            cnps=3,
            packets=7,
            waiting=2,
        )
    ]


@pytest.mark.parametrize(("since", "updates"), [(-1, 0), (0, 1), (PERIOD - 1, 1), (7 * PERIOD, 8), (10**9, 18_182)])
@pytest.mark.parametrize("raised", [False, True], ids=["no CNP", "a CNP"])
def test_alpha_is_that_of_now(since: int, updates: int, raised: bool) -> None:
    """By NVIDIA's rule, update by update, from the time at which the port's next one is due."""
    made = maps()
    cc = made.config[HOST.port("eth2")]["cc"]
    cc["dce_tcp_g"], cc["dce_tcp_rtt"] = 1019, PERIOD
    limiter = made.limiters[HOST.nic("eth2") * LIMITERS + 5]
    limiter["alpha_at"], limiter["alpha_flag"] = NOW - since, raised
    expected = 0.25
    for number in range(updates):
        expected = 1019 / 1024 * expected + (5 / 1024 if raised and not number else 0)
    (qp,) = limited_qps(made, HOST)
    assert qp.alpha == pytest.approx(expected, abs=2 / ALPHA_ONE)
    assert qp.alpha or updates == 18_182


def test_a_qp_of_timely_has_an_rtt_and_no_alpha() -> None:
    made = maps()
    limiter = made.limiters[HOST.nic("eth2") * LIMITERS + 5]
    limiter["algorithm"], limiter["rtt"], limiter["rtts"] = RateAlgorithm.TIMELY, 2_500_000, 9
    (qp,) = limited_qps(made, HOST)
    assert (qp.alpha, qp.rtt, qp.rtts) == (None, 0.0025, 9)


def test_a_qp_that_has_ended_is_not_limited() -> None:
    """The NIC gives its limiter back when it sends again; until then the QP's own generation is the closed one."""
    made = maps()
    named = made.limiters[HOST.nic("eth1") * LIMITERS + 5]
    named["generation"], named["closed"] = 2, 1
    assert [qp.qpn for qp in limited_qps(made, HOST)] == [17], "the QP before it has ended"
    named["closed"] = 2
    assert not list(limited_qps(made, HOST))


def test_other_nodes_have_none() -> None:
    assert not list(limited_qps(maps(), OTHER))
    assert not list(limited_qps(maps(), SWITCH))
