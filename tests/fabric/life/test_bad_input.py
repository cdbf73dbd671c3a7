"""Each thing that can be wrong gives one clear line, its exit code, and leaves nothing behind."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.fabric.command import TOPOLOGIES, argv, only_line, rocelab, running
from tests.patience import PATIENCE

pytestmark = [pytest.mark.fabric, pytest.mark.usefixtures("unchanged")]
SMALL = TOPOLOGIES / "clos-2x2.yaml"


def test_a_missing_file() -> None:
    assert "there is no file" in only_line(rocelab("up", "no-such.yaml", expect=2).stderr)


def test_a_broken_topology_builds_nothing(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("name: bad\nnodes:\n  leaf1: {role: leaf, colour: red}\nlinks:\n  - {ends: [leaf1, leaf9]}\n")
    stderr = rocelab("up", file, expect=2).stderr
    assert "colour" in stderr
    assert "leaf9" in stderr


def test_a_name_in_use_and_a_second_fabric_beside_it() -> None:
    rocelab("up", SMALL, "--no-rdma", "--name", "one")
    assert "fabric one exists" in only_line(rocelab("up", SMALL, "--no-rdma", "--name", "one", expect=2).stderr)
    rocelab("up", SMALL, "--no-rdma", "--name", "two")
    assert "2 fabrics run" in only_line(rocelab("exec", "h1", "--", "true", expect=2).stderr)
    rocelab("exec", "h1", "--fabric", "two", "--", "ping", "-nqc1", "-W5", "10.0.0.5")


def test_down_of_what_does_not_exist() -> None:
    assert "no fabric ghost" in only_line(rocelab("down", "--fabric", "ghost", expect=2).stderr)
    assert "no fabric runs" in only_line(rocelab("down", expect=2).stderr)
    rocelab("down", "--all")


def test_a_node_that_does_not_exist() -> None:
    rocelab("up", SMALL, "--no-rdma")
    line = only_line(rocelab("exec", "h9", "--", "true", expect=2).stderr)
    assert "no node h9 in fabric clos-2x2" in line
    assert "h1, h2, h3, h4" in line


def test_a_namespace_that_is_not_ours_is_not_touched() -> None:
    taken = Path("/run/netns/rl-one.leaf1")
    made = not taken.parent.exists()
    taken.parent.mkdir(exist_ok=True)
    taken.touch()
    try:
        line = only_line(rocelab("up", SMALL, "--no-rdma", "--name", "one", expect=2).stderr)
        assert "namespace rl-one.leaf1 exists" in line
        assert taken.exists()
    finally:
        taken.unlink()
        if made:
            taken.parent.rmdir()


def refused(*confinement: str) -> str:
    """The one line of an ``up`` that is run under ``confinement`` and ends for want of something."""
    command = [*confinement, *argv("up", SMALL, "--no-rdma")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 4
    return only_line(done.stderr)


def mounted(*words: str) -> tuple[str, ...]:
    """Confinement to a mount namespace in which ``mount words...`` has been done."""
    return "unshare", "--mount", "sh", "-c", f'mount {" ".join(words)} && exec "$@"', "sh"


@pytest.mark.parametrize(
    ("directory", "complaint"),
    [
        ("/usr/lib/frr", "FRR not found: apt-get install frr"),
        ("/proc/sys/net/ipv6", "IPv6 is off in this kernel: boot it without ipv6.disable=1, or use --vm"),
    ],
)
def test_without_what_it_needs(directory: str, complaint: str) -> None:
    """An empty directory in front of the real one stands for a machine that has none."""
    assert refused(*mounted("-t", "tmpfs", "none", directory)) == f"error: {complaint}"


def test_without_root() -> None:
    """A user namespace in which the command is an unprivileged user."""
    assert "needs root: use sudo, or --vm" in refused("unshare", "--user", "--map-user=65534")


def test_without_room_for_state() -> None:
    """A full /run: nothing is built."""
    assert "No space left" in refused(*mounted("-t", "tmpfs", "-o", "size=4k,nr_inodes=3", "none", "/run"))


def test_a_topology_that_cannot_converge_names_what_is_missing(tmp_path: Path) -> None:
    """Daemons that connect and do not listen: no session can ever be up, however fast the machine."""
    line = not_converged(tmp_path, SMALL, "*", seconds=2)
    assert re.search(r"BGP session spine\d swp\d to leaf\d:swp\d is ", line)


def test_up_waits_for_sessions_that_no_leaf_has_a_path_less_without(tmp_path: Path) -> None:
    """Neither end of one session listens: leaves have all their uplinks, and super-spine and spine not each other."""
    assert not_converged(tmp_path, TOPOLOGIES / "clos-3tier.yaml", "*/superspine1/*|*/spine3/*", seconds=5)


def not_converged(tmp_path: Path, topology: Path, deaf: str, seconds: int) -> str:
    """The line of the error, where the bgpd of nodes whose command line is like ``deaf`` does not listen."""
    wrapper, real = tmp_path / "bgpd", tmp_path / "real"
    shutil.copy("/usr/lib/frr/bgpd", real)
    wrapper.write_text(f'#!/bin/sh\ncase "$*" in\n{deaf}) exec {real} --bgp_port 0 "$@" ;;\nesac\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    inside = mounted("--bind", str(wrapper), "/usr/lib/frr/bgpd")
    command = [*inside, *argv("up", topology, "--no-rdma", "--timeout", str(seconds))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 1, done.stdout
    line = only_line(done.stderr)
    assert f"not converged after {seconds} s: " in line
    return line


def test_a_daemon_that_dies_during_up() -> None:
    with running("up", SMALL, "--no-rdma", "--name", "one") as process:
        pid_file = Path("/run/rocelab/fabrics/one/nodes/spine2/bgpd.pid")
        while not pid_file.exists() or not pid_file.read_text().strip():
            assert process.poll() is None
        os.kill(int(pid_file.read_text()), signal.SIGKILL)
        _, stderr = process.communicate(timeout=PATIENCE)
        assert process.returncode == 1
    line = only_line(stderr)  # it died before or after its start was complete; both are told
    assert "spine2: bgpd ended while the fabric came up" in line or "spine2: bgpd did not start" in line


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_undoes(number: signal.Signals) -> None:
    with running("up", SMALL, "--no-rdma", "--name", "one") as process:
        while not Path("/run/netns/rl-one.leaf1").exists():
            assert process.poll() is None
        process.send_signal(number)
        _, stderr = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130
    assert f"ended by {number.name}" in only_line(stderr)
    assert not Path("/run/rocelab/fabrics").exists()


def test_down_from_inside_a_node_says_so() -> None:
    rocelab("up", SMALL, "--no-rdma")
    done = subprocess.run(
        [*argv("exec", "h1", "--"), *argv("down", "--fabric", "clos-2x2")],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 2
    assert "this shell runs inside clos-2x2.h1" in only_line(done.stderr)
