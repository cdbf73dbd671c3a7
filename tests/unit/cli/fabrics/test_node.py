"""``rocelab exec NODE COMMAND``: what is the command's, and what is rocelab's own."""

from __future__ import annotations

import pytest
import typer

from lab.cli.command_groups import Commands

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
