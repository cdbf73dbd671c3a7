"""Root is not led astray in the folders of user frr, who may put a link where root is about to look or to write."""

from __future__ import annotations

import os
import shutil
import signal
from typing import TYPE_CHECKING

import pytest

from lab.backends.fabric_state import FABRICS
from lab.errors import OperationFailed
from lab.kernel.process import netns, netns_processes, process
from lab.kernel.process.netns import Namespace
from lab.model.addressing import plan_addresses
from lab.model.load import read_topology
from lab.routing.daemons import Launches, Router
from lab.routing.frr_config.render import render_router
from tests.fabric.command import hosts
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.routing.frr_config.render import RouterConfig

pytestmark = pytest.mark.fabric
HIDDEN = "what only root may read\n"
NODE = Namespace("rl-folder.leaf")


@pytest.fixture
def config(tmp_path: Path) -> RouterConfig:
    topology = read_topology(hosts(tmp_path, "folder", "h1", "h2"))
    return render_router(topology, plan_addresses(topology), "leaf")


@pytest.fixture
def router(config: RouterConfig) -> Iterator[Router]:
    """Ready to start, its folder already frr's."""
    cookies: dict[str, int] = {}
    netns.create([NODE.name], cookies.update)
    made = Router("leaf", NODE, FABRICS / "folder" / "nodes" / "leaf")
    made.write(config)
    yield made
    with netns_processes.inhabited(cookies) as places:
        process.kill(netns_processes.processes_in(places), meant=lambda pid: netns.place_of(pid) in places)
    netns.delete([NODE.name])
    shutil.rmtree(FABRICS / "folder")
    for folder in (FABRICS, FABRICS.parent):
        if not any(folder.iterdir()):
            folder.rmdir()


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.write_text(HIDDEN)
    return file


def test_what_daemons_print_goes_through_no_link(router: Router, config: RouterConfig, secret: Path) -> None:
    for daemon in config.files:
        (router.directory / f"{daemon}.out").symlink_to(secret)
    router.start(config, Launches())
    assert secret.read_text() == HIDDEN
    assert set(router.pids()) >= set(config.files)


def test_a_log_that_is_a_link_is_not_read(router: Router, secret: Path) -> None:
    (router.directory / "bgpd.log").symlink_to(secret)
    with pytest.raises(OperationFailed, match=r"bgpd\.log is not read: Too many levels of symbolic links"):
        router.last_words("bgpd")


def test_a_pid_file_that_never_ends_is_not_waited_for(router: Router) -> None:
    os.mkfifo(router.directory / "bgpd.pid")
    with pytest.raises(OperationFailed, match=r"bgpd\.pid is not read: it is no file"):
        router.pids()


def test_only_numbers_are_pids_and_only_the_end_of_a_log_is_read(router: Router) -> None:
    (router.directory / "bgpd.pid").write_text("1; rm -rf /")
    (router.directory / "zebra.pid").write_text("4711\n")
    assert router.pids() == {"zebra": 4711}
    (router.directory / "bgpd.log").write_text("x" * 2**20 + "\nthe end\n")
    assert router.last_words("bgpd") == "its log ends with: the end"
    assert router.last_words("zebra") == "its log is empty"


def test_a_daemon_that_does_not_start_is_told_in_its_own_words(router: Router, config: RouterConfig) -> None:
    """Its pid file cannot be: zebra says so on standard error, and ends."""
    (router.directory / "zebra.pid").mkdir()
    with pytest.raises(OperationFailed, match=r"leaf: zebra did not start: .*zebra\.pid"):
        router.start(config, Launches())


def test_launches_that_are_given_up_end_whatever_comes_later() -> None:
    launches = Launches()
    programs = [process.start(["sleep", "600"]) for _ in range(2)]
    launches.add(programs[0])
    launches.give_up()
    launches.add(programs[1])
    assert [program.wait(PATIENCE) for program in programs] == [-signal.SIGKILL] * 2
