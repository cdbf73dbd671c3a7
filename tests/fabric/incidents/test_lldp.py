"""``rocelab lldp`` on a real fabric: ip(8) moves cables, and lldpd leaves neither processes nor files."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from lab.cli.schemas import adapter
from tests.fabric import snapshot
from tests.fabric.command import rocelab, running
from tests.patience import until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.fabric
NAME: Final = "cables"
TOPOLOGY: Final = f"""name: {NAME}
nodes:
  spine1: {{role: spine}}
  spine2: {{role: spine}}
  leaf1: {{role: leaf}}
  h1: {{role: host, rdma: false}}
links:
  - {{ends: [leaf1, spine1]}}
  - {{ends: [leaf1, spine2]}}
  - {{ends: [h1, leaf1]}}
"""


@pytest.fixture(scope="module", autouse=True)
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    file = tmp_path_factory.mktemp("cables") / "cables.yaml"
    file.write_text(TOPOLOGY)
    before = snapshot.take()
    rocelab("up", file)
    yield
    rocelab("down", "--fabric", NAME)
    assert before.differences(snapshot.take()) == []


def ip(node: str, *words: str) -> str:
    command = ["ip", "-n", f"rl-{NAME}.{node}", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def exchange_uplinks() -> None:
    """Give each uplink of leaf1 the name of the other, which is what moving both cables does."""
    for port in ("swp1", "swp2"):
        ip("leaf1", "link", "set", port, "down")
    for old, new in (("swp1", "spare"), ("swp2", "swp1"), ("spare", "swp2")):
        ip("leaf1", "link", "set", old, "name", new)
    for port in ("swp1", "swp2"):
        ip("leaf1", "link", "set", port, "up")


def seen(expect: int, *options: str) -> dict[str, tuple[str, str]]:
    """The neighbours and the state of each port."""
    said = rocelab("lldp", "--fabric", NAME, "--json", *options, expect=expect).stdout
    adapter("lldp").validate_json(said)
    return {
        f"{each['node']}:{each['port']}": (",".join(each["seen"]), each["state"])
        for each in json.loads(said)["ports"]
    }


def daemons() -> list[str]:
    done = subprocess.run(["pgrep", "-x", "lldpd"], capture_output=True, text=True, check=False)
    return done.stdout.split()


def test_planned_cables_are_seen_and_nothing_is_left() -> None:
    groups = ip("leaf1", "maddress", "show")
    files = sorted(Path("/run").iterdir())
    assert {state for _, state in seen(0).values()} == {"ok"}
    assert len(seen(0)) == 6
    assert daemons() == []
    assert sorted(Path("/run").iterdir()) == files
    assert ip("leaf1", "maddress", "show") == groups
    assert "6 of 6 ports have the planned neighbour" in rocelab("lldp", "--fabric", NAME).stdout
    rocelab("drift", "--fabric", NAME)


def test_exchanged_cables_are_seen_at_both_ends_and_by_nothing_else() -> None:
    exchange_uplinks()
    try:
        found = seen(1)
        shown = rocelab("lldp", "--fabric", NAME, expect=1).stdout
    finally:
        exchange_uplinks()
    assert found == {
        "spine1:swp1": ("leaf1:swp2", "wrong"),
        "spine2:swp1": ("leaf1:swp1", "wrong"),
        "leaf1:swp1": ("spine2:swp1", "wrong"),
        "leaf1:swp2": ("spine1:swp1", "wrong"),
        "leaf1:swp3": ("h1:eth1", "ok"),
        "h1:eth1": ("leaf1:swp3", "ok"),
    }
    assert "2 of 6 ports have the planned neighbour" in shown
    assert {state for _, state in seen(0).values()} == {"ok"}


def test_a_port_that_is_down_is_not_waited_for() -> None:
    """Waiting would take an hour."""
    ip("h1", "link", "set", "eth1", "down")
    try:
        said = rocelab("lldp", "--fabric", NAME, "--wait", "3600s", expect=3).stdout
    finally:
        ip("h1", "link", "set", "eth1", "up")
    assert said.count("down") == 2
    assert "4 of 6 ports" in said


def test_killed_command_leaves_no_daemon() -> None:
    with running("lldp", "--fabric", NAME, "--wait", "3600s") as command:
        until(lambda: len(daemons()) >= 1)
        command.send_signal(signal.SIGKILL)
        command.wait()
        until(lambda: daemons() == [])
    assert {state for _, state in seen(0).values()} == {"ok"}


def test_a_cable_to_a_device_outside_the_fabric_is_not_seen() -> None:
    """Last: the other end of h1's cable leaves for a namespace in which nothing speaks LLDP."""
    subprocess.run(["ip", "netns", "add", "outside"], check=True)
    try:
        ip("h1", "link", "set", "eth1", "netns", "outside")
        subprocess.run(["ip", "-n", "outside", "link", "set", "eth1", "up"], check=True)
        found = seen(3, "--wait", "1s")
    finally:
        subprocess.run(["ip", "netns", "del", "outside"], check=True)
    assert found["leaf1:swp3"] == ("", "not seen")
    assert found["h1:eth1"] == ("", "down")
