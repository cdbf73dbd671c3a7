"""Which containers are ours and what is taken away, asked of a Docker that is a script with a list of containers."""

import fcntl
import os
import threading
import time
from pathlib import Path

import pytest

from lab.backends import containers
from lab.errors import EnvironmentLacks, OperationFailed, UsageError
from lab.kernel.process import netns
from tests.fake_docker import Docker
from tests.patience import PATIENCE


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Docker:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    for name in ("netns", "ssh"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(netns, "NETNS_DIR", tmp_path / "netns")
    monkeypatch.setattr(containers, "_SSH", tmp_path / "ssh")
    return Docker(folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The lab, with what containerlab leaves outside of containers."""
    (tmp_path / "clab.yml").touch()
    for node in ("h1", "h2"):
        (tmp_path / "netns" / f"clab-mine-{node}").symlink_to("/proc/1/ns/net")
    (tmp_path / "netns" / "clab-mine-h3").touch()
    (tmp_path / "ssh" / "clab-mine.conf").touch()
    return tmp_path


def traces(folder: Path) -> set[str]:
    return {path.name for name in ("netns", "ssh") for path in (folder / name).iterdir()}


def remove(folder: Path) -> None:
    containers.remove(folder, "mine", ["h1", "h2", "h3"], "us")


def test_ours_are_removed_with_what_containerlab_has_beside_them(docker: Docker, folder: Path) -> None:
    docker.add("mine", "h1", "us")
    docker.add("mine", "h2", "us", pid=0)
    docker.add("other", "h1", "them")
    remove(folder)
    assert docker.left == ["clab-other-h1"]
    assert traces(folder) == {"clab-mine-h3"}, "what is no link is somebody else's"


def test_a_lab_of_others_is_found_with_the_processes_of_its_nodes(docker: Docker) -> None:
    docker.add("theirs", "r1", pid=41)
    docker.add("theirs", "c1", pid=42)
    docker.add("other", "r1", pid=43)
    found = containers.of_lab("theirs", ["c1", "r1"])
    assert {name: (box.name, box.pid) for name, box in found.items()} == {
        "c1": ("clab-theirs-c1", 42),
        "r1": ("clab-theirs-r1", 41),
    }


def test_a_lab_that_cannot_be_adopted_is_told(docker: Docker) -> None:
    docker.add("theirs", "r1", pid=0)
    docker.add("mine", "r1", "us")
    with pytest.raises(UsageError, match="no lab nobody is deployed"):
        containers.of_lab("nobody", [])
    with pytest.raises(UsageError, match="lab mine is of a fabric of rocelab's"):
        containers.of_lab("mine", ["r1"])
    with pytest.raises(EnvironmentLacks, match="node c1 of lab theirs has no container"):
        containers.of_lab("theirs", ["c1"])
    with pytest.raises(EnvironmentLacks, match=r"the container of r1 does not run.*docker start clab-theirs-r1"):
        containers.of_lab("theirs", ["r1"])


def test_the_file_of_a_lab_is_in_its_labels_and_may_be_gone(docker: Docker) -> None:
    docker.add("theirs", "r1")
    with pytest.raises(UsageError, match=r"/labs/theirs\.clab\.yml, is not there"):
        containers.file_of("theirs")
    with pytest.raises(UsageError, match="no lab nobody is deployed"):
        containers.file_of("nobody")


def test_a_lab_of_others_that_has_our_name_keeps_what_it_has(docker: Docker, folder: Path) -> None:
    docker.add("mine", "h1", "them")
    before = traces(folder)
    remove(folder)
    assert docker.left == ["clab-mine-h1"]
    assert traces(folder) == before
    with pytest.raises(UsageError, match="a containerlab lab mine exists"):
        containers.refuse_taken("mine")
    containers.refuse_taken("another")


def test_a_lab_that_is_gone_leaves_nothing(docker: Docker, folder: Path) -> None:
    remove(folder)
    assert docker.left == []
    assert traces(folder) == {"clab-mine-h3"}


def test_a_container_that_stays_is_told(docker: Docker, folder: Path) -> None:
    docker.add("mine", "h1", "us", stuck=True)
    with pytest.raises(OperationFailed, match="Docker does not remove clab-mine-h1"):
        remove(folder)


def test_a_containerlab_that_still_deploys_is_waited_for(docker: Docker, folder: Path) -> None:
    """It holds the lab's file, and makes a container before it ends."""
    deploying = os.open(folder / "clab.yml", os.O_RDONLY)
    fcntl.flock(deploying, fcntl.LOCK_SH)
    removing = threading.Thread(target=remove, args=[folder])
    removing.start()
    deadline = time.monotonic() + PATIENCE
    while not is_waited_for(deploying):
        assert time.monotonic() < deadline, "nobody waits"
    docker.add("mine", "h1", "us")
    os.close(deploying)
    removing.join(PATIENCE)
    assert docker.left == []


def is_waited_for(descriptor: int) -> bool:
    """Whether somebody waits for the lock on this file, as the kernel says (proc_locks(5))."""
    inode = f":{os.fstat(descriptor).st_ino} "
    return any("->" in line and inode in line for line in Path("/proc/locks").read_text().splitlines())


def test_the_first_process_of_each_node_is_found(docker: Docker) -> None:
    docker.add("mine", "h1", "us", pid=17)
    docker.add("mine", "h2", "us", pid=18)
    docker.add("mine", "h1", "them", pid=19)
    assert containers.running("us", ["h1", "h2"]) == {"h1": 17, "h2": 18}


def test_what_a_container_said_last_is_told(docker: Docker) -> None:
    docker.add("mine", "h1", "us", pid=0)
    with pytest.raises(OperationFailed, match="the container of h1 has ended: exec: no such program"):
        containers.running("us", ["h1"])
    with pytest.raises(OperationFailed, match="h2 has no container"):
        containers.running("us", ["h2"])


def test_a_docker_that_does_not_answer_is_told(docker: Docker, folder: Path) -> None:
    docker.stop()
    with pytest.raises(EnvironmentLacks, match="Docker does not answer: Cannot connect"):
        remove(folder)
    assert "clab-mine.conf" in traces(folder)


def test_what_containerlab_says_last_is_told(docker: Docker, folder: Path) -> None:
    program = folder / "bin" / "containerlab"
    program.write_text('#!/bin/sh\necho INFO begins\necho "ERROR no image $CLAB_VERSION_CHECK $TMPDIR" >&2\nexit 1\n')
    program.chmod(0o755)
    assert docker.left == []
    with pytest.raises(OperationFailed, match=f"does not deploy the lab: ERROR no image disable {folder}"):
        containers.deploy(folder)
