"""A call of a tool: runs its command lines, bounded in time and output, and returns the answer."""

from __future__ import annotations

import json
import os
import select
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_origin

from pydantic import TypeAdapter, ValidationError

from lab.cli.agents.tool_arguments import CaptureArguments
from lab.cli.agents.tool_catalogue import CAPTURE
from lab.cli.answers.agents import CapturedPackets, NodeOutput
from lab.cli.answers.base import create
from lab.cli.kit.child_command import PROGRAM
from lab.cli.schemas import answer_type
from lab.errors import LabError, OperationFailed, UsageError
from lab.kernel.process import process

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lab.cli.agents.tool_arguments import ToolArguments
    from lab.cli.agents.tool_catalogue import AgentTool

MOST_OUTPUT: Final = 256 * 1024
"""Bytes of an answer. Longer text is cut; a longer JSON answer is an error, because half of it cannot be read."""
PATIENCE: Final = 120.0
"""Seconds for a command besides the time that its arguments ask for, also in a busy VM."""
_GRACE: Final = 10.0
_CHUNK: Final = 1 << 16
_LOOK: Final = 0.2
_LONGEST_ERROR: Final = 600
_ITEMS: Final = "items"
"""The key of an answer that is a list: the protocol wants an object."""


@dataclass(frozen=True, slots=True)
class ToolRunner:
    """Runs tools on one fabric; ``prefix`` is the command line before the name of rocelab's command."""

    prefix: tuple[str, ...] = PROGRAM
    fabric: str | None = None
    patience: float = PATIENCE

    def call(self, tool: AgentTool, arguments: Mapping[str, Any], checkpoint: Callable[[], object]) -> dict[str, Any]:
        """Return the answer of a tool.

        ``checkpoint`` is called several times a second while a command runs; its errors end the command. LabError if
        the arguments are invalid, or if the command fails.
        """
        values = _parsed(tool, arguments)
        limit = self.patience + values.patience()
        if isinstance(values, CaptureArguments):
            return self._capture(tool, values, limit, checkpoint)
        done = self._run(tool.argv(values, self.fabric), limit, checkpoint)
        return _read_json(done) if tool.prints_json else _read_text(done)

    def _capture(
        self, tool: AgentTool, values: CaptureArguments, limit: float, checkpoint: Callable[[], object]
    ) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="rocelab-mcp-") as folder:
            file = Path(folder) / "packets.pcapng"
            counts = _read_json(self._run(tool.argv(values, self.fabric, file), limit, checkpoint))
            decode = ["--no-vm", "dissect", "--summary", "--json", f"--limit={values.packets}", str(file)]
            return {"links": counts["links"]} | _read_json(self._run(decode, limit, checkpoint))

    def _run(self, words: Sequence[str], timeout: float, checkpoint: Callable[[], object]) -> _Done:
        """Run a command of rocelab, at most ``timeout`` seconds, and until it has printed ``MOST_OUTPUT``."""
        argv = [*self.prefix, *words]
        with process.ended(lambda: process.start(argv, stdout=process.PIPE, stderr=process.PIPE)) as child:
            try:
                output, errors, cut = _collect(child, time.monotonic() + timeout, checkpoint)
            except TimeoutError:
                raise OperationFailed(f"rocelab {words[0]} did not answer within {timeout:g} s") from None
            finally:
                code = process.stop(child, _GRACE)
        return _Done(
            name=words[0],
            code=None if cut else code,
            output=output.decode(errors="replace"),
            errors=errors.decode(errors="replace"),
        )


@dataclass(frozen=True, slots=True)
class _Done:
    """A command that has ended."""

    name: str
    code: int | None
    """Its exit code; None if it was ended because it printed too much."""
    output: str
    errors: str

    def failure(self) -> LabError:
        """Return its error, in one line."""
        lines = [line for line in self.errors.splitlines() if line.strip()]
        said = next((line for line in reversed(lines) if line.startswith("error: ")), lines[-1] if lines else "")
        return OperationFailed(
            shorten(said.removeprefix("error: ")) or f"rocelab {self.name} ended with {self.code} and no error"
        )


def shorten(text: str) -> str:
    """Return text as one line of limited length."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_ERROR else f"{line[:_LONGEST_ERROR]}..."


def answer_schema(tool: AgentTool) -> dict[str, Any]:
    """Return the JSON Schema of a tool's answer, which is always an object."""
    return {"type": "object", **TypeAdapter(_answer_type(tool)).json_schema()}


def _answer_type(tool: AgentTool) -> Any:
    if tool.name == CAPTURE:
        return CapturedPackets
    if not tool.answer:
        return NodeOutput
    plain = answer_type(tool.answer)
    return create("Items", **{_ITEMS: (plain, ...)}) if get_origin(plain) is list else plain


def _parsed(tool: AgentTool, arguments: Mapping[str, Any]) -> ToolArguments:
    try:
        return tool.arguments.model_validate(dict(arguments))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "arguments"
        known = ", ".join(tool.arguments.model_fields) or "none"
        raise UsageError(f"{tool.name}: {shorten(where)}: {first['msg']}", f"its arguments are {known}") from error


def _collect(
    child: process.Process, deadline: float, checkpoint: Callable[[], object]
) -> tuple[bytearray, bytearray, bool]:
    """Return output and errors of a program until it has ended, and whether the output was cut.

    A program that it left in the background does not count. TimeoutError at the deadline.
    """
    if child.stdout is None or child.stderr is None:
        raise ValueError("both streams must be pipes")
    output, errors = bytearray(), bytearray()
    into = {child.stdout.fileno(): output, child.stderr.fileno(): errors}
    end = os.pidfd_open(child.pid)
    try:
        ready = select.poll()
        for descriptor in (*into, end):
            ready.register(descriptor, select.POLLIN)
        while into:
            if time.monotonic() > deadline:
                raise TimeoutError
            checkpoint()
            found = [descriptor for descriptor, _ in ready.poll(_LOOK * 1000)]
            if found == [end]:
                break
            for descriptor in into.keys() & set(found):
                data = os.read(descriptor, _CHUNK)
                into[descriptor] += data[: max(0, MOST_OUTPUT - len(into[descriptor]))]
                if not data:
                    ready.unregister(descriptor)
                    del into[descriptor]
                elif descriptor == child.stdout.fileno() and len(output) == MOST_OUTPUT:
                    return output, errors, True
        process.readable(end, max(0.0, deadline - time.monotonic()))
        return output, errors, False
    finally:
        os.close(end)


def _read_json(done: _Done) -> dict[str, Any]:
    """Return the JSON answer of a command, whatever its exit code: 1 also means that something is unhealthy."""
    if done.code is None:
        raise UsageError(
            f"the answer of rocelab {done.name} has more than {MOST_OUTPUT // 1024} KiB",
            "ask for fewer ports, nodes or packets",
        )
    try:
        found = json.loads(done.output)
    except ValueError:
        raise done.failure() from None
    if isinstance(found, dict) and "error" in found:
        error = found["error"]
        raise OperationFailed(shorten(error["message"]), shorten(error["remedy"]))
    return found if isinstance(found, dict) else {_ITEMS: found}


def _read_text(done: _Done) -> dict[str, Any]:
    """Return the output of a program in a node. LabError if rocelab itself failed: it prints only an error."""
    if done.code and not done.output and done.errors.startswith("error: "):
        raise done.failure()
    return {
        "exit_code": done.code,
        "output": done.output,
        "errors": done.errors,
        "truncated": done.code is None,
    }
