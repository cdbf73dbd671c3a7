"""The MCP server with a real client over standard input and output, and a program in place of rocelab."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import pytest

from lab.cli.agents.tool_catalogue import TOOLS, ToolAccess
from tests.fabric.mcp_client import LEGACY, MODERN, play
from tests.patience import PATIENCE, until

if TYPE_CHECKING:
    from tests.fabric.mcp_client import Session

ROOT: Final = Path(__file__).parents[4]
SERVER: Final = (
    "import sys\n"
    "from lab.cli.agents.mcp_server import serve\n"
    "from lab.cli.agents.tool_call import ToolRunner\n"
    "serve(ToolRunner((sys.executable, sys.argv[1])), set(sys.argv[2:]))\n"
)
ANSWERS: Final = """
import json, os, sys, time
if "hang" in sys.argv:
    open(f"{sys.argv[0]}.{os.getpid()}", "w").close()
    time.sleep(1000)
if "ls" in sys.argv:
    print("[]")
elif "inject" in sys.argv:
    print('{"kind": "a", "place": "b", "came": 1, "interrupted": false}')
elif "exec" in sys.argv:
    print("text")
elif "check" in sys.argv:
    print('{"verdict": "right"}')  # which does not fit the schema
else:
    sys.exit("error: no fabric runs: build one")
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "rocelab.py"
    file.write_text(ANSWERS)
    return file


def server(program: Path, *allowed: str) -> tuple[str, ...]:
    return "-c", SERVER, str(program), *allowed


def hanging(program: Path) -> list[int]:
    return [int(each.suffix[1:]) for each in program.parent.glob("rocelab.py.*")]


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
def test_reading_tools_are_listed_and_answer(program: Path, mode: str) -> None:
    async def work(session: Session) -> None:
        tools = await session.tools()
        assert set(tools) == {name for name, tool in TOOLS.items() if tool.access is ToolAccess.READ}
        assert all(each.output_schema["type"] == "object" for each in tools.values())
        changing = {name for name, each in tools.items() if not each.annotations.read_only_hint}
        assert changing == {"challenge_check", "challenge_hint"}
        assert await session.answer("fabrics") == {"items": []}
        assert (await session.answer("show", node="h1", what="rules"))["output"] == "text\n"

    play(work, *server(program), mode=mode)


def test_every_failure_is_one_line_and_the_server_goes_on(program: Path) -> None:
    async def work(session: Session) -> None:
        assert await session.error("status") == "no fabric runs: build one"
        assert await session.error("statsu") == "there is no tool statsu: did you mean 'status'?"
        assert (await session.error("no\nsuch" * 1000)).startswith("there is no tool no such")
        assert "tool exec is not allowed: start rocelab mcp with --allow exec" in await session.error("exec")
        assert "ports: Input should be a valid list" in await session.error("counters", ports="leaf1")
        with pytest.raises(Exception, match="told"):
            await session.answer("challenge_check", cause="a", place="b")
        assert await session.answer("fabrics") == {"items": []}

    play(work, *server(program))


def test_calls_run_beside_each_other_and_end_when_they_are_cancelled(program: Path) -> None:
    """The server has all tools."""

    async def work(session: Session) -> None:
        assert set(await session.tools()) == set(TOOLS)
        assert (await session.answer("exec", node="h1", command=["id"]))["output"] == "text\n"
        assert (await session.answer("fault_inject", kind="a", place="b"))["came"] == 1

        async def hang() -> None:
            await session.client.call_tool("ping", {"node": "h1", "destination": "hang"})

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hang)
            while not hanging(program):
                assert await session.answer("fabrics") == {"items": []}
            tasks.cancel_scope.cancel()
        while any(Path(f"/proc/{pid}").exists() for pid in hanging(program)):
            assert await session.answer("fabrics") == {"items": []}

    play(work, *server(program, "exec", "inject"))


def begun(*argv: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, *argv], stdin=pipe, stdout=pipe, stderr=pipe, cwd=ROOT)


def send(it: subprocess.Popen[bytes], method: str, number: int | None, **parameters: Any) -> None:
    assert it.stdin is not None
    numbered = {} if number is None else {"id": number}
    message = {"jsonrpc": "2.0", "method": method, "params": parameters, **numbered}
    it.stdin.write(json.dumps(message).encode() + b"\n")
    it.stdin.flush()


def greet(it: subprocess.Popen[bytes]) -> None:
    """Begin a session by hand."""
    about = {"name": "test", "version": "1"}
    send(it, "initialize", 1, protocolVersion="2025-06-18", capabilities={}, clientInfo=about)
    assert receive(it)["id"] == 1
    send(it, "notifications/initialized", None)


def receive(it: subprocess.Popen[bytes]) -> Any:
    assert it.stdout is not None
    return json.loads(it.stdout.readline())


@pytest.mark.parametrize("end", ["input", "SIGTERM"])
def test_the_server_ends_with_its_input_or_by_a_signal_and_so_does_a_command(program: Path, end: str) -> None:
    """Also while its client keeps the input open."""
    with begun(*server(program)) as it:
        try:
            greet(it)
            send(it, "tools/call", 2, name="ping", arguments={"node": "h1", "destination": "hang"})
            until(lambda: bool(hanging(program)))
            if end == "input":
                assert it.stdin is not None
                it.stdin.close()
            else:
                it.send_signal(signal.Signals[end])
            assert it.wait(PATIENCE) == 0
            assert it.stderr is not None
            assert it.stderr.read() == b""
            (pid,) = hanging(program)
            assert not Path(f"/proc/{pid}").exists()
        finally:
            it.kill()


def test_garbage_and_endless_lines_do_not_end_the_server(program: Path) -> None:
    with begun(*server(program)) as it:
        try:
            assert it.stdin is not None
            greet(it)
            for garbage in (
                b"{\n",
                b"\n",
                b"\xff\xfe\n",
                b"[1]\n",
                b'{"jsonrpc": "2.0"}\n',
                b"x" * 3_000_000 + b"\n",
            ):
                it.stdin.write(garbage)
            it.stdin.flush()
            send(it, "tools/call", 2, name="fabrics", arguments={})
            while (answer := receive(it)).get("id") != 2:
                pass
            assert answer["result"]["structuredContent"] == {"items": []}
        finally:
            it.kill()


@pytest.mark.parametrize("name", [os.devnull, "requests"])
def test_the_input_may_be_a_file(program: Path, tmp_path: Path, name: str) -> None:
    """A launcher opens /dev/null for a program without input."""
    (tmp_path / "requests").write_text('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
    with (tmp_path / name).open(encoding="utf-8") as requests:
        done = subprocess.run(
            [sys.executable, *server(program)], stdin=requests, capture_output=True, cwd=ROOT, check=False
        )
    assert (done.returncode, done.stderr) == (0, b"")


def test_without_the_library_it_is_an_error_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "mcp_types.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'mcp_types'\", name='mcp_types')"
    )
    done = subprocess.run(
        [sys.executable, "-m", "lab", "mcp"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        check=False,
    )
    remedy = "pip install 'rocelab[mcp]', or run ./scripts/setup"
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == f"error: the MCP server needs Python's package mcp_types: {remedy}\n"
