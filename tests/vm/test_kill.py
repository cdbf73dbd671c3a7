"""``kill -9`` at one call of each sort that only a fabric with lossless ports and RDMA makes, and nothing is left.

All calls of both commands, which takes hours here: ``./scripts/kills``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fabric.command import hosts, rocelab
from tests.fabric.kill_matrix import OUTCOMES, printed, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

pytestmark = [pytest.mark.vm, pytest.mark.timeout(600)]


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
    rocelab("up", file)  # which has the kernel load what it keeps
    rocelab("down", "--fabric", "doomed")
    words: tuple[str | Path, ...] = ("up", file) if command == "up" else ("down", "--fabric", "doomed")
    outcomes, left = walk(words, lambda: command == "down" and rocelab("up", file), chosen)
    print(printed(outcomes))
    assert left == []
    assert {outcome for counted in outcomes.values() for outcome in counted} == {OUTCOMES[0]}
