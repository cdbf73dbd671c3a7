"""``exec`` and ``shell``: the tools that a network engineer types first, in any node."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pexpect
import pytest

from tests.fabric import snapshot
from tests.fabric.command import ROOT, argv, rocelab

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.fabric

PATIENCE = 60

FABRIC = """
name: logged
generate: {shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 1, rdma: false}
"""


@pytest.fixture(scope="module", autouse=True)
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    before = snapshot.take()
    file = tmp_path_factory.mktemp("node") / "logged.yaml"
    file.write_text(FABRIC)
    rocelab("up", file)
    yield
    rocelab("down")
    assert before.differences(snapshot.take()) == []


def test_vtysh_talks_to_the_daemons_of_its_own_node() -> None:
    for node in ("leaf1", "leaf2", "spine1"):
        said = rocelab("exec", node, "--", "vtysh", "-c", "show running-config").stdout
        assert f"hostname {node}" in said


@pytest.mark.parametrize(
    "words",
    [("vtysh",), ("/usr/bin/vtysh",), ("sh", "-c", 'exec vtysh "$@"', "sh"), ("env", "-i", "/usr/bin/vtysh")],
)
def test_vtysh_is_found_however_it_is_called(words: tuple[str, ...]) -> None:
    command = [*words, "-c", "show ip bgp summary json"]
    summary = json.loads(rocelab("exec", "leaf1", *command).stdout)
    assert summary["ipv4Unicast"]["peers"]["swp1"]["state"] == "Established"


def test_a_host_has_no_router_not_even_the_machines() -> None:
    done = rocelab("exec", "h1", "--", "vtysh", "-c", "show version", expect=1)
    assert "failed to connect to any daemons" in done.stdout + done.stderr


@pytest.mark.parametrize("name", ["/bin/sh", "/bin/bash"])
def test_vtysh_in_a_shell(name: str) -> None:
    program, *words = argv("shell", "leaf2")
    with pexpect.spawn(
        program, words, cwd=str(ROOT), timeout=PATIENCE, encoding="utf-8", env={**os.environ, "SHELL": name}
    ) as shell:
        shell.expect_exact("logged/leaf2")
        shell.sendline("vtysh")
        shell.expect_exact("leaf2# ")
        shell.sendline("show ip bgp summary")
        shell.expect("Total number of neighbors 1")
        shell.sendline("exit")
        shell.expect_exact("logged/leaf2")
        shell.sendline("exit")
        shell.expect(pexpect.EOF)


def test_vtysh_without_a_shell_has_the_nodes_name_too() -> None:
    """In its prompt, and in a configuration that has one line of a hostname."""
    program, *words = argv("vtysh", "leaf2")
    with pexpect.spawn(program, words, cwd=str(ROOT), timeout=PATIENCE, encoding="utf-8") as shell:
        shell.expect("\n([^\n ]*)# $")
        assert shell.match[1] == "leaf2"
        shell.sendline("exit")
        shell.expect(pexpect.EOF)
    running = rocelab("vtysh", "leaf1", "-c", "show running-config").stdout.splitlines()
    assert [line for line in running if line.startswith("hostname")] == ["hostname leaf1"]


def test_the_machine_has_the_nodes_name() -> None:
    assert rocelab("exec", "leaf1", "hostname").stdout == "leaf1\n"
    assert rocelab("exec", "h2", "uname", "-n").stdout == "h2\n"


def test_no_separator_is_needed() -> None:
    assert "1 received" in rocelab("exec", "h1", "ping", "-nqc1", "-W5", "h2").stdout
    assert rocelab("exec", "h1", "sh", "-c", "exit 7", expect=7).returncode == 7


def test_what_is_mounted_there_is_seen_by_nobody_else() -> None:
    before = Path("/proc/self/mountinfo").read_text()
    rocelab("exec", "leaf1", "ls", "/run/frr/zebra.vty")
    assert Path("/proc/self/mountinfo").read_text() == before


def test_a_program_that_cannot_be_run(tmp_path: Path) -> None:
    assert "nosuch" in rocelab("exec", "h1", "nosuch", expect=4).stderr
    file = tmp_path / "text"
    file.write_text("no program")
    assert f"{file} cannot be run: Permission denied" in rocelab("exec", "h1", str(file), expect=2).stderr


def test_tools_of_lossless_ports_say_that_there_are_none() -> None:
    for node, *words in (("leaf1", "show", "pfc", "counters"), ("h1", "mlnx_qos", "-i", "eth1")):
        done = rocelab("exec", node, *words, expect=1)
        assert "fabric logged has no lossless ports: write `qos: lab` into its topology" in done.stderr
        assert done.stdout == ""


def test_what_is_not_emulated_goes_to_the_real_tools() -> None:
    assert "driver: veth" in rocelab("exec", "h1", "ethtool", "-i", "eth1").stdout
    assert rocelab("exec", "h1", "ethtool", "-S", "eth1").stdout.startswith("NIC statistics:")
    assert "swp1" in rocelab("exec", "leaf1", "show", "ip", "route").stdout
    assert "n_gids_found=0" in rocelab("exec", "h1", "show_gids").stdout
