"""A fabric of the promised size needs few open files, comes up whole, and leaves nothing behind."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from tests.fabric.command import ROOT, argv, hosts, rocelab, rocelab_json

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.fabric, pytest.mark.usefixtures("unchanged")]
MOST = 2000


def leaf_spine(folder: Path, spines: int, leaves: int, hosts_per_leaf: int) -> Path:
    file = folder / "many.yaml"
    shape = f"shape: leaf-spine, spines: {spines}, leaves: {leaves}, hosts_per_leaf: {hosts_per_leaf}, rdma: false"
    file.write_text(f"name: many\ngenerate: {{{shape}}}\n")
    return file


def up_with_few_files(file: Path, limits: str) -> None:
    """``up`` with so many open files, soft:hard of prlimit(1)."""
    command = ["prlimit", f"--nofile={limits}", *argv("up", file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_more_nodes_than_files_may_be_open(tmp_path: Path) -> None:
    """And no right to open more is needed: nothing is held open for each node."""
    up_with_few_files(hosts(tmp_path, "many", *(f"h{number}" for number in range(1, 151))), "128:128")
    assert rocelab_json("ls") == [{"fabric": "many", "state": "up", "nodes": 151, "place": "here"}]


def test_more_daemons_than_files_may_be_open(tmp_path: Path) -> None:
    """Each is watched, by a file; the limit can be raised as far as the hard one."""
    up_with_few_files(leaf_spine(tmp_path, 2, 14, 1), "64:")
    assert rocelab_json("status")["healthy"]


def test_a_limit_that_cannot_be_raised_is_told(tmp_path: Path) -> None:
    """No process raises a hard limit without CAP_SYS_RESOURCE."""
    file = leaf_spine(tmp_path, 2, 14, 1)
    command = ["setpriv", "--bounding-set=-sys_resource", *argv("up", file)]
    limited = ["prlimit", "--nofile=64:64", *command]
    done = subprocess.run(limited, capture_output=True, text=True, check=False, timeout=300, cwd=ROOT)
    assert done.returncode == 4
    assert "open files are needed and 64 are allowed: ulimit -Hn" in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.long
@pytest.mark.parametrize(("spines", "leaves", "hosts_per_leaf"), [(2, 16, 123), (4, 62, 31)])
def test_the_most_nodes_come_up_and_go(tmp_path: Path, spines: int, leaves: int, hosts_per_leaf: int) -> None:
    """Switches with their daemons, few or many, and hosts."""
    file = leaf_spine(tmp_path, spines, leaves, hosts_per_leaf)
    nodes = spines + leaves + leaves * hosts_per_leaf
    assert 0.99 * MOST <= nodes <= MOST
    began = time.monotonic()
    rocelab("up", file, timeout=900)
    middle = time.monotonic()
    assert rocelab_json("ls") == [{"fabric": "many", "state": "up", "nodes": nodes, "place": "here"}]
    rocelab("exec", "h1", "--", "ping", "-nqc1", "-W5", "10.0.7.1")
    late = time.monotonic()
    rocelab("down", "--fabric", "many", timeout=300)
    print(f"up {middle - began:.1f} s, down {time.monotonic() - late:.1f} s")
