"""However ``up --backend containerlab`` ends, nothing is left of it, and labs of others are as they were."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from lab.export.containerlab import BUILT_IMAGE
from tests.fabric import snapshot
from tests.fabric.command import hosts, rocelab, running
from tests.patience import until

from .conftest import containerlab, docker, traces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.timeout(1500), pytest.mark.usefixtures("as_it_was")]

NAME = "doomed"
OTHER_IMAGE = "somebody/frr:other"


@pytest.fixture
def as_it_was() -> Iterator[None]:
    """The machine afterwards is as before."""
    before, there = snapshot.take(), traces()
    yield
    assert docker("ps", "--all", "--quiet") == ""
    assert before.differences(snapshot.take()) == []
    assert traces() == there


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return hosts(tmp_path, NAME, "h1", "h2")


def has_a_container() -> bool:
    return docker("ps", "--all", "--quiet") != ""


def test_down_undoes_a_deploy_whose_rocelab_was_killed(file: Path) -> None:
    with running("up", file, "--backend", "containerlab") as up:
        until(has_a_container)
        up.kill()
        up.wait()
    rocelab("down", "--fabric", NAME, timeout=600)


def test_containers_are_of_the_image_that_was_asked_for(file: Path) -> None:
    docker("tag", BUILT_IMAGE, OTHER_IMAGE)
    try:
        rocelab("up", file, "--backend", "containerlab", "--image", OTHER_IMAGE, "--no-rdma", timeout=900)
        ids = docker("ps", "--quiet").split()
        assert set(docker("inspect", "--format", "{{.Config.Image}}", *ids).split()) == {OTHER_IMAGE}
        rocelab("down", "--fabric", NAME, timeout=600)
    finally:
        docker("rmi", OTHER_IMAGE)


def test_ctrl_c_undoes_a_deploy(file: Path) -> None:
    with running("up", file, "--backend", "containerlab") as up:
        until(has_a_container)
        up.send_signal(signal.SIGINT)
        up.communicate()
        assert up.returncode != 0
    assert rocelab("ls").stdout.find(NAME) == -1


def test_a_lab_of_the_same_name_is_refused_and_left_alone(file: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.clab.yml"
    node = f"{{kind: linux, image: '{BUILT_IMAGE}', network-mode: none, entrypoint: sleep, cmd: infinity}}"
    theirs.write_text(f"name: {NAME}\nmgmt: {{skip-when-unused: true}}\ntopology: {{nodes: {{h1: {node}}}}}\n")
    containerlab("deploy", theirs)
    before = docker("ps", "--all", "--no-trunc", "--quiet")
    refused = rocelab("up", file, "--backend", "containerlab", expect=2)
    assert f"a containerlab lab {NAME} exists" in refused.stderr
    assert docker("ps", "--all", "--no-trunc", "--quiet") == before
    containerlab("destroy", theirs)
