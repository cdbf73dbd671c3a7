"""A real MCP client of the library, over standard input and output of a server process."""

from __future__ import annotations

import json
import os
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

ROOT: Final = Path(__file__).parents[2]
LEGACY: Final = "legacy"
"""The handshake of all protocol versions before 2026. "auto" would give up on a server that takes 10 s to start."""
MODERN: Final = "2026-07-28"
"""The protocol without a handshake."""


@dataclass(frozen=True)
class Session:
    """A connected client."""

    client: Client

    async def answer(self, tool: str, **arguments: Any) -> Any:
        """The answer of a call that succeeds; the client checks it against the tool's schema."""
        done = await self.client.call_tool(tool, arguments)
        (content,) = done.content
        assert content.type == "text"
        assert not done.is_error, content.text
        assert json.loads(content.text) == done.structured_content
        return done.structured_content

    async def error(self, tool: str, **arguments: Any) -> str:
        """The error of a call that fails: one line."""
        done = await self.client.call_tool(tool, arguments)
        (content,) = done.content
        assert content.type == "text"
        assert done.is_error, content.text
        assert "\n" not in content.text
        return content.text

    async def tools(self) -> dict[str, Any]:
        """The tools by name."""
        return {tool.name: tool for tool in (await self.client.list_tools()).tools}


@asynccontextmanager
async def connected(*argv: str, mode: str = LEGACY) -> AsyncIterator[Session]:
    """A client of the server that ``python argv...`` runs."""
    server = StdioServerParameters(command=sys.executable, args=list(argv), env=dict(os.environ), cwd=ROOT)
    async with Client(server, mode=mode, read_timeout_seconds=PATIENCE) as client:
        yield Session(client)


def play(work: Callable[[Session], Awaitable[None]], *argv: str, mode: str = LEGACY) -> None:
    """Do some work with a client of the server that ``python argv...`` runs."""

    async def run() -> None:
        async with connected(*argv, mode=mode) as session:
            await work(session)

    anyio.run(run)
