"""Faults in a topology's file, on a live fabric: there when ``up`` has ended, by the clock, and gone with the fabric.

Judges: ping, and the whole host before and after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from lab.backends.fabric_state import FabricState
from lab.kernel.process.netns import Namespace
from tests.fabric.command import hosts, rocelab, rocelab_json
from tests.patience import until

if TYPE_CHECKING:
    from pathlib import Path

NAME: Final = "declared"
FAULTS: Final = """faults:
  - {kind: link-cut, place: h1--leaf}
  - {kind: link-cut, place: h2--leaf, for: 600s}
"""


def pings(source: str, target: str) -> bool:
    node = Namespace(f"rl-{NAME}.{source}", FabricState(NAME).groups / source)
    return node.run(["ping", "-c", "1", "-W", "1", target], check=False).returncode == 0


@pytest.mark.usefixtures("unchanged")
def test_up_breaks_what_is_declared_and_heal_mends_it(tmp_path: Path) -> None:
    file = hosts(tmp_path, NAME, "h1", "h2", "h3", "h4")
    file.write_text(file.read_text(encoding="utf-8") + FAULTS, encoding="utf-8")
    assert "ok, 5 nodes" in rocelab("topology", "check", file).stdout
    assert "2 faults declared: rocelab fault ls" in rocelab("up", file).stdout
    until(lambda: len(rocelab_json("fault", "ls")) == 3)
    listed = rocelab_json("fault", "ls")
    assert [(each["kind"], each["place"], each["timing"]) for each in listed] == [
        ("link-cut", "h1--leaf", ""), ("link-cut", "h2--leaf", "for 600 s"), ("link-cut", "h2--leaf", ""),
    ]  # fmt: skip
    until(lambda: pings("h3", "10.0.0.6"))
    assert not any(pings(host, "10.0.0.6") for host in ("h1", "h2"))
    rocelab("fault", "heal", "--all")
    assert rocelab_json("fault", "ls") == []
    until(lambda: pings("h1", "10.0.0.2"))
    rocelab("down", "--fabric", NAME)


@pytest.mark.usefixtures("unchanged")
def test_a_fault_that_the_fabric_cannot_have_leaves_no_fabric(tmp_path: Path) -> None:
    file = hosts(tmp_path, NAME, "h1", "h2")
    text = file.read_text(encoding="utf-8") + "faults: [{kind: pauses-ignored, place: h1}]\n"
    file.write_text(text, encoding="utf-8")
    assert "has no lossless ports" in rocelab("up", file, expect=2).stderr
    assert not FabricState(NAME).directory.exists()
