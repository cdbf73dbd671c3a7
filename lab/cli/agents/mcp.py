"""``rocelab mcp``: serve the running fabric to an agent by the Model Context Protocol (MCP)."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from lab.cli.command_line import global_options
from lab.cli.kit.child_command import PROGRAM
from lab.cli.kit.complete import FabricOption
from lab.errors import EnvironmentLacks, UsageError


class AllowedAccess(StrEnum):
    """Access beyond reading."""

    EXEC = "exec"
    INJECT = "inject"


def mcp(
    allow: Annotated[
        list[AllowedAccess] | None,
        typer.Option(help="Also allow any command in a node, as root (exec), or faults (inject). Repeatable."),
    ] = None,
    fabric: FabricOption = None,
) -> None:
    """Serve the running fabric to an agent over MCP, on standard input and output, until the input ends.

    Its tools only read: status, counters, congestion, events, path, capture, diagnose and others. An agent can also
    answer the challenge of rocelab scenario break.

    With --allow exec, an agent can run any command as root. Namespaces are no sandbox: it can leave the node.
    """
    if sys.stdin.isatty():
        raise UsageError("rocelab mcp is started by an MCP client, not in a terminal", "rocelab docs mcp")
    try:
        from lab.cli.agents.mcp_server import serve  # noqa: PLC0415 - an optional library, and slow to import
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "lab":
            raise
        raise EnvironmentLacks(
            f"the MCP server needs Python's package {error.name}",
            "pip install 'rocelab[mcp]', or run ./scripts/setup",
        ) from error
    from lab.cli.agents.tool_call import ToolRunner  # noqa: PLC0415 - pydantic, for which --help does not wait

    prefix = (*PROGRAM, *global_options())
    serve(ToolRunner(prefix, fabric), {each.value for each in allow or ()})
