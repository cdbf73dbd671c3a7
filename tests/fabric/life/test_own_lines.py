"""``frr:`` of a topology: vtysh looks at it before anything is built, and the daemons have it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.backends.lifecycle import open_fabric
from lab.rdma.sysfs import until
from tests.fabric.command import rocelab
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """name: own
nodes:
  leaf: {role: leaf}
  h1: {role: host, rdma: false}
links:
  - {ends: [h1, leaf]}
frr:
  leaf: |
    ip route 10.9.0.0/24 blackhole
    ip prefix-list MINE seq 5 permit 10.0.0.0/8
    router bgp 4200100001
     address-family ipv4 unicast
      network 10.9.0.0/24
"""
pytestmark = pytest.mark.usefixtures("unchanged")


def test_the_daemons_have_the_lines(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(TEXT)
    rocelab("topology", "check", file)
    rocelab("up", file)
    running = rocelab("vtysh", "leaf", "-c", "show running-config").stdout
    for line in ("ip route 10.9.0.0/24 blackhole", "ip prefix-list MINE seq 5", "network 10.9.0.0/24"):
        assert line in running
    leaf = open_fabric("own").namespace("leaf")
    wanted = "blackhole 10.9.0.0/24 proto static"
    assert until(lambda: leaf.run(["ip", "route", "show", "10.9.0.0/24"]).stdout.startswith(wanted), timeout=PATIENCE)


@pytest.mark.parametrize("words", [("topology", "check"), ("up",)])
def test_a_line_that_frr_does_not_know_is_named_and_nothing_is_built(tmp_path: Path, words: tuple[str, ...]) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(TEXT.replace("ip prefix-list MINE", "ip prefixlist MINE"))
    told = rocelab(*words, file, expect=2).stderr
    assert "frr.leaf: line 2, 'ip prefixlist MINE seq 5 permit 10.0.0.0/8': unknown command" in told
    assert "no fabric runs" in rocelab("status", expect=2).stderr
