"""``kill -9`` at one call of each sort that only a fabric with lossless ports and RDMA makes, and nothing is left.

All calls of all commands, which takes hours here: ``./scripts/kills``.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.fabric.command import hosts, injected, rocelab
from tests.fabric.kill_matrix import MOMENTS, OUTCOMES, devices, printed, walk, walk_drain, warm_up

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

pytestmark = [pytest.mark.vm, pytest.mark.long, pytest.mark.timeout(600)]


def of_up(numbers: Mapping[str, int]) -> list[str]:
    """Programs that have no name yet, some that have one; ports, devices and groups that are on their way."""
    return [
        "bpf:1:after",
        f"bpf:{numbers['bpf'] // 2}:after",
        f"qdisc:{numbers['qdisc']}:before",
        "rxe:1:after",
        f"cgroup:{numbers['cgroup']}:after",
    ]


def of_down(numbers: Mapping[str, int]) -> list[str]:
    """A device that is on its way out, names of programs of which some are gone, and groups."""
    return ["rxe:1:after", f"unlink:{numbers['unlink'] // 2}:before", f"cgroup:{numbers['cgroup']}:before"]


@pytest.mark.parametrize(("command", "chosen"), [("up", of_up), ("down", of_down)])
def test_nothing_of_ports_and_devices_survives_a_kill(
    command: str, chosen: Callable[[Mapping[str, int]], list[str]], tmp_path: Path
) -> None:
    file = hosts(tmp_path, "doomed", "h1", "h2", rdma=True)
    warm_up(file)
    words: tuple[str | Path, ...] = ("up", file) if command == "up" else ("down", "--fabric", "doomed")
    outcomes, left = walk(words, lambda: command == "down" and rocelab("up", file), chosen)
    print(printed(outcomes))
    assert left == []
    assert {outcome for counted in outcomes.values() for outcome in counted} == {OUTCOMES[0]}


def of_drain(numbers: Mapping[str, int]) -> list[str]:
    """A drain that is there or not yet; packets that are led past one, and one that is gone."""
    last = numbers["netlink"]
    calls = ["qdisc:1"] if numbers["qdisc"] else [f"netlink:{last - 3}", f"netlink:{last}"]
    return [f"{call}:{moment}" for call in calls for moment in MOMENTS]


def test_a_change_of_ports_that_was_killed_is_put_in_order_by_the_next_command(tmp_path: Path) -> None:
    rocelab("up", hosts(tmp_path, "doomed", "h1", "h2", rdma=True), "--no-rdma")
    assert injected("qdisc:1:after:SIGKILL", "qos", "set", "h1", "nic.drain=5Mbit").returncode == -signal.SIGKILL
    assert "rx-eth1" in devices("doomed", "h1")
    assert "in order" in rocelab("counters", "h1").stderr
    assert "rx-eth1" not in devices("doomed", "h1")
    outcomes, left = walk_drain("doomed", "h1", of_drain)
    print(printed(outcomes))
    rocelab("down", "--all")
    assert left == []
    assert {outcome for counted in outcomes.values() for outcome in counted} == {OUTCOMES[0]}
