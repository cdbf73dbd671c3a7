"""``rocelab lldp`` in a lab of other people: it compares with the lab's file, and leaves the lab as it was.

h1 -- r1 -- h2      namespaces, links and names by ip(8), of processes as containers have; Docker is a script.
"""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import pytest

from tests.fabric import snapshot
from tests.fabric.command import rocelab
from tests.fake_docker import Docker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.fabric
NAME: Final = "theirs"
NODES: Final = ("h1", "h2", "r1")
LAB: Final = f"""
name: {NAME}
topology:
  defaults: {{kind: linux}}
  nodes: {{h1: {{}}, h2: {{}}, r1: {{image: frr}}}}
  links:
    - endpoints: ["h1:eth1", "r1:eth1"]
    - endpoints: ["h2:eth1", "r1:eth2"]
"""
LOOKED: Final = "ip -o link | sed 's/ promiscuity.*//'; ip -o addr | sed 's/valid_lft.*//'; ip maddress; tc qdisc"


class Theirs:
    """The lab: a process for each node, whose namespace it is."""

    def __init__(self) -> None:
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def start(self, node: str, stack: ExitStack) -> int:
        words = ["unshare", "--net", "sh", "-c", "echo; exec cat"]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.processes[node] = stack.enter_context(process)
        assert process.stdin is not None
        assert process.stdout is not None
        stack.callback(process.stdin.close)
        process.stdout.readline()
        return process.pid

    def sh(self, node: str, script: str) -> str:
        words = ["nsenter", f"--net=/proc/{self.processes[node].pid}/ns/net", "sh", "-ec", script]
        return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout

    def looked(self) -> dict[str, str]:
        return {node: self.sh(node, LOOKED) for node in NODES}

    def cable(self, host: str, port: str) -> None:
        pid = self.processes[host].pid
        self.sh(
            "r1", f"ip link add {port} type veth peer name eth1 netns {pid}; ip link set {port} addrgenmode none up"
        )
        self.sh(
            host, "ip link set eth1 addrgenmode none up; until ip link show eth1 | grep -q 'state UP'; do :; done"
        )

    def exchange(self) -> None:
        """Give each port of r1 the name of the other, which is what moving both cables does."""
        self.sh("r1", "ip link set eth1 down; ip link set eth2 down; ip link set eth1 name spare")
        self.sh(
            "r1", "ip link set eth2 name eth1; ip link set spare name eth2; ip link set eth1 up; ip link set eth2 up"
        )


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theirs]:
    """An adopted lab; afterwards, nothing of rocelab is left in it."""
    folder: Path = tmp_path_factory.mktemp("theirs")
    (folder / "bin").mkdir()
    docker = Docker(folder / "bin")
    (folder / "theirs.clab.yml").write_text(LAB)
    lab = Theirs()
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
        for node in NODES:
            docker.add(NAME, node, pid=lab.start(node, stack))
        for host, port in (("h1", "eth1"), ("h2", "eth2")):
            lab.cable(host, port)
        machine = snapshot.take()
        rocelab("adopt", folder / "theirs.clab.yml")
        yield lab
        rocelab("down", "--all")
        left = machine.differences(snapshot.take())
        assert [each for each in left if not each.startswith("processes - cat")] == []  # h2 was ended by a test


def seen(expect: int, *options: str) -> dict[str, tuple[str, str]]:
    """The neighbours and the state of each port."""
    said = rocelab("lldp", "--fabric", NAME, "--json", *options, expect=expect).stdout
    return {
        f"{each['node']}:{each['port']}": (",".join(each["seen"]), each["state"])
        for each in json.loads(said)["ports"]
    }


def test_the_cables_of_the_labs_file_are_seen_and_the_lab_is_as_it_was(theirs: Theirs) -> None:
    before = theirs.looked()
    assert seen(0) == {
        "h1:eth1": ("r1:eth1", "ok"), "h2:eth1": ("r1:eth2", "ok"),
        "r1:eth1": ("h1:eth1", "ok"), "r1:eth2": ("h2:eth1", "ok"),
    }  # fmt: skip
    assert theirs.looked() == before


def test_cables_that_were_exchanged_since_are_seen(theirs: Theirs) -> None:
    theirs.exchange()
    try:
        found = seen(1)
    finally:
        theirs.exchange()
    assert found == {
        "h1:eth1": ("r1:eth2", "wrong"), "h2:eth1": ("r1:eth1", "wrong"),
        "r1:eth1": ("h2:eth1", "wrong"), "r1:eth2": ("h1:eth1", "wrong"),
    }  # fmt: skip
    assert set(seen(0).values()) == {(far, "ok") for far in ("r1:eth1", "r1:eth2", "h1:eth1", "h2:eth1")}


def test_a_port_with_a_carrier_is_not_down_though_its_operational_state_is_not_up(theirs: Theirs) -> None:
    """The kernel sets the state up to a second after the carrier; here it waits for a program, which never comes."""
    for node in ("h1", "r1"):
        theirs.sh(node, "ip link set eth1 down; ip link set eth1 mode dormant; ip link set eth1 up")
    try:
        assert "state DORMANT" in theirs.sh("h1", "ip link show eth1")
        found = seen(3, "--wait", "0s")
    finally:
        for node in ("h1", "r1"):
            theirs.sh(node, "ip link set eth1 down; ip link set eth1 mode default; ip link set eth1 up")
    assert (found["h1:eth1"], found["r1:eth1"]) == (("", "not seen"), ("", "not seen"))


def test_a_daemon_of_the_lab_keeps_running_and_its_frames_do_not_count(theirs: Theirs, tmp_path: Path) -> None:
    """As in SONiC, whose containers run lldpd."""
    enter = ["nsenter", f"--net=/proc/{theirs.processes['r1'].pid}/ns/net"]
    words = [*enter, "lldpd", "-d", f"-u{tmp_path}/theirs.sock", "-Ieth1,eth2"]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as daemon:
        try:
            assert {state for _, state in seen(0).values()} == {"ok"}
            assert daemon.poll() is None
        finally:
            daemon.terminate()


def test_swapping_cables_is_refused_in_one_line() -> None:
    done = rocelab("fault", "inject", "cable-swapped", "r1:eth1,r1:eth2", "--fabric", NAME, expect=2)
    assert f"{NAME} is an adopted lab" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_node_that_is_gone_is_one_line(theirs: Theirs) -> None:
    """Last: a container that was removed."""
    h2 = theirs.processes["h2"]
    assert h2.stdin is not None
    h2.stdin.close()
    h2.wait()
    done = rocelab("lldp", "--fabric", NAME, expect=1)
    assert len(done.stderr.strip().splitlines()) == 1
    assert "h2: its container was removed" in done.stderr
    assert done.stdout == ""
