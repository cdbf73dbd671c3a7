"""The MCP server on standard input and output: lists tools, and runs each call in a thread of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import anyio.from_thread
import anyio.to_thread
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from lab import __version__
from lab.cli.agents.tool_call import answer_schema, shorten
from lab.cli.agents.tool_catalogue import TOOLS, AgentTool, ToolAccess
from lab.errors import LabError, UsageError
from lab.model.values.suggest import suggest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from anyio.abc import TaskGroup
    from mcp.server.context import ServerRequestContext

    from lab.cli.agents.tool_call import ToolRunner

_MOST_CALLS: Final = 4
"""Calls that run at a time; further ones wait."""
_LONGEST_REQUEST: Final = 1 << 20
_CHUNK: Final = 1 << 16
_ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_INSTRUCTIONS: Final = (
    "rocelab emulates an AI fabric packet by packet: switches and hosts with real routing and RoCEv2. These tools "
    "read the fabric that runs. Begin with nodes and status. If the fabric has a challenge, one fault is hidden in "
    "it: find its cause and place, then call challenge_check with one of challenge_causes."
)


class FabricServer:
    """The handlers of the protocol, for one client."""

    def __init__(self, runner: ToolRunner, allowed: Collection[str]) -> None:
        self._runner = runner
        self._tools = {
            name: tool for name, tool in TOOLS.items() if tool.access is ToolAccess.READ or tool.access in allowed
        }
        self._limiter = anyio.CapacityLimiter(_MOST_CALLS)

    def protocol(self) -> Server[Any]:
        """Return the server of the library with these handlers."""
        return Server(
            "rocelab",
            version=__version__,
            instructions=_INSTRUCTIONS,
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
        )

    async def list_tools(
        self, context: ServerRequestContext[Any], parameters: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """List the allowed tools."""
        del context, parameters
        return types.ListToolsResult(tools=[_described(tool) for tool in self._tools.values()])

    async def call_tool(
        self, context: ServerRequestContext[Any], parameters: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Call a tool. Every failure is an answer of one line, and the server goes on."""
        del context
        try:
            tool = self._find(parameters.name)
            work = partial(self._runner.call, tool, parameters.arguments or {}, anyio.from_thread.check_cancelled)
            answer = await anyio.to_thread.run_sync(work, limiter=self._limiter)
        except LabError as error:
            return types.CallToolResult(content=[_text(shorten(str(error)))], is_error=True)
        except OSError as error:  # no memory, descriptors, processes or room for a file
            return types.CallToolResult(content=[_text(shorten(f"the machine refuses: {error}"))], is_error=True)
        return types.CallToolResult(content=[_text(json.dumps(answer))], structured_content=answer)

    def _find(self, name: str) -> AgentTool:
        if name in self._tools:
            return self._tools[name]
        if name in TOOLS:
            raise UsageError(f"tool {name} is not allowed", f"start rocelab mcp with --allow {TOOLS[name].access}")
        raise UsageError(f"there is no tool {shorten(name)}", suggest(name[:64], self._tools, "list the tools"))


def _described(tool: AgentTool) -> types.Tool:
    reads = not tool.changes
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.arguments.model_json_schema(),
        output_schema=answer_schema(tool),
        annotations=types.ToolAnnotations(
            title=tool.title, read_only_hint=reads, destructive_hint=not reads, open_world_hint=False
        ),
    )


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


async def input_lines(descriptor: int) -> AsyncIterator[str]:
    """Yield the lines of a pipe, socket, terminal or file; longer lines than ``_LONGEST_REQUEST`` become empty lines.

    The library reads in a thread, which cannot be cancelled: the server would not end before its client.
    """
    pending, skipped = bytearray(), False
    while True:
        with contextlib.suppress(PermissionError):  # a file, or /dev/null: reading never blocks
            await anyio.wait_readable(descriptor)
        data = os.read(descriptor, _CHUNK)
        if not data:
            return
        pending += data
        while (end := pending.find(b"\n")) >= 0:
            line = b"" if skipped else bytes(pending[:end])
            del pending[: end + 1]
            skipped = False
            yield line.decode(errors="replace") + "\n"
        if len(pending) > _LONGEST_REQUEST:
            pending.clear()
            skipped = True


async def _serve(server: Server[Any]) -> None:
    # The library only iterates over its input.
    lines = cast("anyio.AsyncFile[str]", input_lines(0))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_end_on_signals, tasks)
        async with stdio_server(stdin=lines) as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())
        tasks.cancel_scope.cancel()


async def _end_on_signals(tasks: TaskGroup) -> None:
    with anyio.open_signal_receiver(*_ENDING) as numbers:
        async for _ in numbers:
            tasks.cancel_scope.cancel()
            return


def serve(runner: ToolRunner, allowed: Collection[str]) -> None:
    """Serve one client until it closes the input, or a signal ends this process. Commands that run are ended."""
    anyio.run(_serve, FabricServer(runner, allowed).protocol())
