"""A node without an answer and a dead daemon stop nothing: the rest of the fabric is recorded and diagnosed."""

from __future__ import annotations

import json
import subprocess

import pytest

from lab.kernel.process.netns import Namespace
from tests.fabric.command import TOPOLOGIES, rocelab

pytestmark = [pytest.mark.fabric, pytest.mark.usefixtures("unchanged")]


def test_the_rest_is_diagnosed() -> None:
    """The name of h3's namespace stays, as an ordinary file; leaf2 has no bgpd."""
    rocelab("up", TOPOLOGIES / "clos-2x2.yaml", "--no-rdma")
    gone = Namespace("rl-clos-2x2.h3")
    assert gone.answers()
    subprocess.run(["umount", gone.path], check=True)
    assert not gone.answers()
    rocelab("fault", "inject", "daemon-killed", "leaf2")
    answer = json.loads(rocelab("diagnose", "--seconds", "1", "--settings", "--json", expect=1).stdout)
    assert [(each["cause"], each["places"]) for each in answer["causes"]] == [("daemon-killed", ["leaf2"])]
    assert "the state of h3: it did not answer" in answer["missing"]
    assert "the state of h3: it did not answer" in answer["unchecked"]
    assert {each["node"] for each in answer["differing"]} >= {"spine1", "leaf2"}
    rocelab("fault", "heal", "--all")
    rocelab("down")
