"""rocelab from its wheel, in an empty folder, on a fabric of this machine: what takes neither RDMA nor the VM."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.installed import build, install, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.fabric, pytest.mark.long, pytest.mark.usefixtures("unchanged")]


def test_up_record_and_report_without_a_checkout(tmp_path: Path) -> None:
    for name in ("wheel", "here"):
        (tmp_path / name).mkdir()
    programs, here = install(build(tmp_path / "wheel"), tmp_path / "env"), tmp_path / "here"

    def rocelab(*words: str) -> str:
        return run(programs / "rocelab", *words, where=here)

    rocelab("examples", "copy", "topologies/clos-2x2.yaml")
    rocelab("up", "topologies/clos-2x2.yaml", "--no-rdma")
    try:
        rocelab("record", "start", "first")
        rocelab("exec", "h1", "--", "ping", "-c1", "h2")
        rocelab("record", "stop")
    finally:
        rocelab("down")
    rocelab("report", "first")
    assert [each["name"] for each in json.loads(rocelab("record", "ls", "--json"))] == ["first"]
    assert (here / "reports/first.html").is_file()
