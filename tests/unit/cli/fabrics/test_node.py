"""``rocelab exec NODE COMMAND``: what is the command's, and what is rocelab's own."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import pytest
import typer
from typer.testing import CliRunner

from lab.backends.fabric_state import rdma_needs_the_vm
from lab.cli.app import app
from lab.cli.command_groups import Commands
from lab.cli.fabrics import node as node_commands
from lab.errors import EnvironmentLacks
from lab.kernel.process.node_session import NodeSession
from tests.unit.cli.traffic.planned_fabric import planned

if TYPE_CHECKING:
    from types import SimpleNamespace

ALL = [host.name for host in planned("incast").topology.hosts]
EXEC = Commands(name="rocelab").get_command(typer.Context(Commands(name="rocelab")), "exec")


@pytest.mark.parametrize(
    ("typed", "node", "command", "fabric"),
    [
        ("h1 -- ping -c1 h2", "h1", "ping -c1 h2", None),
        ("h1 ping -c1 h2", "h1", "ping -c1 h2", None),
        ("h1 vtysh -c show", "h1", "vtysh -c show", None),
        ("--fabric a h1 ip -j link", "h1", "ip -j link", "a"),
        ("h1 --fabric a ip -j link", "h1", "ip -j link", "a"),
        ("--fabric=a h1 ls --help", "h1", "ls --help", "a"),
        ("h1 other --fabric b --help", "h1", "other --fabric b --help", None),
        ("h1 --fabric a -- other --fabric b", "h1", "other --fabric b", "a"),
        ("h1 sh -c x -- y", "h1", "sh -c x -- y", None),
        ("h1 -- ssh -- y", "h1", "ssh -- y", None),
    ],
)
def test_what_follows_the_node_is_the_command(typed: str, node: str, command: str, fabric: str | None) -> None:
    assert EXEC is not None
    found = EXEC.make_context("exec", typed.split()).params
    assert found == {"node": node, "command": command.split(), "name": fabric, "not_in_challenge": False}


def without_rdma(*hosts: str) -> SimpleNamespace:
    """The incast fabric, where some hosts have no RDMA."""
    fabric = planned("incast")
    for host in hosts:
        plan = fabric.plan[host]
        fabric.plan[host] = replace(plan, node=replace(plan.node, rdma=False))
    return fabric


@pytest.mark.parametrize(
    ("typed", "without", "code", "told"),
    [
        ("h1 rdma link", ALL, 1, "fabric incast has no RDMA: rocelab down, then rocelab"),
        ("h1 /usr/bin/ib_write_bw -d x", ["h1"], 1, "h1 has no RDMA device: run it in a host with RDMA, like h2"),
        ("leaf1 ibv_devinfo", [], 255, "leaf1 has no RDMA device: run it in a host with RDMA, like h1"),
        ("h1 ib_write_bw", [], 1, ""),
        ("h1 ib_write_bw", ["h1"], 0, ""),
        ("h1 ibdump", ["h1"], 1, ""),
        ("h1 lldpctl", [], 1, "use rocelab lldp"),
        ("h1 lldpctl", [], 0, ""),
        ("h1 ./config", [], 1, ""),
    ],
)
def test_an_rdma_program_that_fails_without_rdma_gets_a_line(
    typed: str, without: list[str], code: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It follows what the program prints, and the exit code stays the program's."""
    monkeypatch.setattr(node_commands, "open_fabric", lambda _: without_rdma(*without))
    monkeypatch.setattr(node_commands, "_interact", lambda *_: code)
    done = CliRunner().invoke(app, ["exec", *typed.split()])
    assert done.exit_code == code
    assert (told in done.stderr) if told else (done.stderr == "")
    assert done.stderr.count("\n") == bool(told)
    if "fabric" in told:
        assert (" --vm" in done.stderr) == rdma_needs_the_vm(os.uname().release)


@pytest.mark.parametrize(
    ("program", "remedy"),
    [
        ("ibdev2netdev", "use rocelab rdma show, or show_gids in a host"),
        ("/usr/local/bin/pfcwd", "use rocelab qos show and rocelab qos set"),
        ("nosuch", "check its name: a node has the programs of this machine"),
    ],
)
def test_a_missing_tool_of_real_devices_names_the_command_to_use(
    program: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(_session: NodeSession, argv: list[str], **_: bool) -> NoReturn:
        raise EnvironmentLacks(f"program {argv[0]} not found")

    monkeypatch.setattr(node_commands, "open_fabric", lambda _: without_rdma())
    monkeypatch.setattr(NodeSession, "interact", lacking)
    refused = CliRunner().invoke(app, ["exec", "h1", program]).exception
    assert str(refused) == f"program {program} not found: {remedy}"
