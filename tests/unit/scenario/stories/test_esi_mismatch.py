"""The scenario esi-mismatch, judged: each check has a recording that it passes, fails, and cannot tell of."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.scenario.judge import judge
from tests.unit.scenario.played import Act, Acts, Printed, failing, outcomes, play

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO: Final = "esi-mismatch"
MAC: Final = "02:1a:00:05:00:01"
H1, H2, H3 = (f"fe80::1a:ff:fe0{number}:1" for number in (5, 6, 7))
ESI: Final = "03:02:1a:00:00:00:02:00:00:0"


def ping(host: str, interface: str, **answers: int) -> Printed:
    """ping(8) hears itself first, then so many answers of each; it ends at its own to the last packet."""
    hosts = {"h1": H1, "h2": H2, "h3": H3}
    lines = [
        f"64 bytes from {hosts[who]}%{interface}: icmp_seq={number} ttl=64 time=0.1 ms"
        for number in range(1, 5)
        for who, count in answers.items()
        for _ in range(count)
    ]
    last = f"64 bytes from {hosts[host]}%{interface}: icmp_seq=5 ttl=64 time=0.1 ms"
    return host, f"ping -n -c 5 ff02::1%{interface}", "\n".join(["PING ff02::1", *lines, last]), 0


def segment(leaf: str, number: int, *flags: str) -> Printed:
    """What FRR says of the bond's segment, and of one that others have."""
    own = {"esi": f"{ESI}{number}", "flags": ["local", *flags], "accessPort": "bond1"}
    other = {"esi": f"{ESI}8", "flags": ["remote"], "vteps": [{"vtep": "10.252.0.9", "nexthopId": 1}]}
    return leaf, "vtysh --vty_socket /run -c show", json.dumps([other, own]), 0


def behind(group: int = 500) -> Printed:
    entries = [{"mac": MAC, "ifname": "vni10010", "nhid": group, "flags": ["self"]}, {"mac": MAC, "master": "bridge"}]
    return "leaf3", "bridge -json fdb show dev vni10010", json.dumps(entries), 0


def hops(*vteps: str) -> Printed:
    known: list[dict[str, Any]] = [{"id": number, "gateway": vtep} for number, vtep in enumerate(vteps, 1)]
    known.append({"id": 500, "group": [{"id": hop["id"]} for hop in known], "fdb": None})
    return "leaf3", "ip -json nexthop show", json.dumps(known), 0


ONE, TWO = "10.252.0.1", "10.252.0.2"
SHARED: Final = Act({}, [
    ping("h1", "bond1", h1=1, h2=1, h3=1), ping("h3", "eth1", h3=1, h1=1, h2=1),
    segment("leaf1", 1, "remote"), segment("leaf2", 1, "remote", "nonDF"), behind(), hops(ONE, TWO),
])  # fmt: skip
SPLIT: Final = Act({}, [
    ping("h1", "bond1", h1=2, h2=1, h3=1), ping("h3", "eth1", h3=1, h1=2, h2=1),
    segment("leaf1", 1), segment("leaf2", 9), behind(), hops(ONE),
])  # fmt: skip
GOOD: Final[Acts] = {"baseline": SHARED, "observe": SPLIT, "verify": SHARED}


def test_a_good_run_passes(tmp_path: Path) -> None:
    found = outcomes(play(tmp_path, SCENARIO, GOOD))
    assert len(found) == 6
    assert set(found.values()) == {"pass"}


def test_a_next_hop_without_a_group_is_a_way(tmp_path: Path) -> None:
    acts = deepcopy(GOOD)
    acts["observe"].ran[4] = behind(1)
    assert failing(tmp_path, SCENARIO, acts) == []


@pytest.mark.parametrize(
    ("phase", "line", "said", "wrong"),
    [
        ("baseline", 3, segment("leaf2", 9, "nonDF"), "each-leaf-has-a-segment-of-its-own"),
        ("observe", 3, segment("leaf2", 1), "each-leaf-has-a-segment-of-its-own"),
        ("observe", 3, segment("leaf2", 9, "nonDF"), "each-leaf-has-a-segment-of-its-own"),
        ("verify", 3, segment("leaf2", 1), "each-leaf-has-a-segment-of-its-own"),
        ("baseline", 1, ping("h3", "eth1", h3=1, h1=2, h2=1), "h1-receives-two-copies"),
        ("observe", 1, ping("h3", "eth1", h3=1, h1=1, h2=1), "h1-receives-two-copies"),
        ("verify", 1, ping("h3", "eth1", h3=1, h2=1), "h1-receives-two-copies"),
        ("baseline", 0, ping("h1", "bond1", h1=2, h2=1), "h1-receives-its-own-floods"),
        ("observe", 0, ping("h1", "bond1", h1=1, h2=1), "h1-receives-its-own-floods"),
        ("verify", 0, ping("h1", "bond1", h1=2, h2=1), "h1-receives-its-own-floods"),
        ("observe", 1, ping("h3", "eth1", h3=1, h1=2, h2=2), "h2-receives-one-copy"),
        ("verify", 1, ping("h3", "eth1", h3=1, h1=1), "h2-receives-one-copy"),
        ("baseline", 5, hops(ONE), "leaf3-has-one-path-to-h1"),
        ("observe", 5, hops(ONE, TWO), "leaf3-has-one-path-to-h1"),
        ("verify", 5, hops(TWO), "leaf3-has-one-path-to-h1"),
    ],
)
def test_what_is_printed_decides(phase: str, line: int, said: Printed, wrong: str, tmp_path: Path) -> None:
    acts = deepcopy(GOOD)
    acts[phase].ran[line] = said
    assert failing(tmp_path, SCENARIO, acts) == [wrong]


@pytest.mark.parametrize("kind", ["bgp", "link"])
def test_what_alarms_decides(kind: str, tmp_path: Path) -> None:
    acts = deepcopy(GOOD)
    told: dict[str, dict[str, Any]] = {
        "bgp": {"source": "routing", "state": "Idle", "before": ""},
        "link": {"source": "kernel", "up": False, "admin_up": True, "mtu": 4350},
    }
    acts["observe"].events = [{"node": "leaf2", "interface": "swp2", "kind": kind, **told[kind]}]
    assert failing(tmp_path, SCENARIO, acts) == ["no-link-or-session-changes"]


def test_what_a_run_does_not_show_is_unknown(tmp_path: Path) -> None:
    """The phase in which it is broken is missing; and then the run was killed."""
    (tmp_path / "without").mkdir()
    rest = {name: act for name, act in GOOD.items() if name != "observe"}
    assert set(outcomes(play(tmp_path / "without", SCENARIO, rest)).values()) == {"unknown"}
    found = judge(play(tmp_path, SCENARIO, GOOD).killed()).verdicts
    assert {verdict.outcome.value for verdict in found.values()} == {"unknown"}
