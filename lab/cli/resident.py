"""The resident rocelab of a VM: a process with all modules imported, which forks for each command.

Without KVM, a command would spend three to five seconds on imports. The guest's agent starts the resident and passes
it a listening socket (lab/vm/guest/launch.py). Its only argument is the descriptor.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import io
import json
import os
import select
import signal
import socket
import sys
import termios
import time
from typing import TYPE_CHECKING, Final, NoReturn

from lab.cli.app import main as run_command
from lab.cli.command_groups import load_command
from lab.cli.command_registry import all_functions
from lab.cli.kit import output
from lab.cli.typer_internals import SLOW_MODULES
from lab.dataplane import impair_layout, port_layout, qp_pairs
from lab.errors import LabError
from lab.kernel.bpf.type_layouts import compile_checked
from lab.vm.calls.request import GuestRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_WARM: Final = (
    "lab.analysis.results.fact_builder",
    "lab.analysis.views.follow",
    "lab.backends.lifecycle",
    "lab.backends.live_qos",
    "lab.cli.kit.complete",
    "lab.dataplane.port_maps",
    "lab.diagnose.run",
    "lab.doctor.features",
    "lab.kernel.packets.live_capture",
    "lab.kernel.packets.inject",
    "lab.rdma.perftest",
    "lab.telemetry.record.background_recorder",
    "lab.telemetry.store.parquet",
    "lab.wire.craft.packet_craft",
    "lab.wire.explain.explanation",
    "numpy.ma",
    "pyarrow.compute",
    "rich._emoji_codes",
    *SLOW_MODULES,
)
"""Modules that commands import at run time, and that are slow to import."""
_AGENT: Final = 0
"""Standard input: it is closed when the agent exits, or replaces this resident."""
_STREAMS: Final = 3
_LONGEST_REQUEST: Final = 1 << 20
_OUTPUT_LOST: Final = 120
"""Python's exit code when its standard output cannot be flushed (documentation of ``sys.exit``)."""


def warm_up() -> None:
    """Import the modules, create the commands and find the programs that each fork would otherwise load itself.

    The garbage collector is off meanwhile. Its searches would take a quarter of the time and find almost nothing.
    """
    gc.disable()
    try:
        for name, function in all_functions():
            load_command(name, function)
        for module in _WARM:
            importlib.import_module(module)
        _find_programs()
    finally:
        gc.enable()
    gc.freeze()


def _find_programs() -> None:
    """Find the objects of the BPF programs, so that no fork reads their sources. A command reports what fails."""
    for source in (port_layout.SOURCE, impair_layout.SOURCE, qp_pairs.SOURCE):
        with contextlib.suppress(LabError, OSError):
            compile_checked(source)


class Resident:
    """Forks for each request; the child returns from ``serve``, the resident does not until the agent closes."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._callers: dict[int, socket.socket] = {}
        self._children: dict[int, socket.socket] = {}
        self._leaving = False
        self._woken, self._waker = socket.socketpair()
        for end in (self._woken, self._waker):
            end.setblocking(False)

    def serve(self) -> GuestRequest | None:
        """Serve callers; a child returns its request.

        The resident returns None when the agent has closed the connection and all children have ended.
        """
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while not (self._leaving and not self._children):
            for descriptor in self._ready():
                if descriptor == self._woken.fileno():
                    self._report_exits()
                elif descriptor == _AGENT:
                    self._leaving = True
                elif descriptor == self._listener.fileno():
                    self._callers |= {(caller := self._listener.accept()[0]).fileno(): caller}
                elif request := self._receive(self._callers[descriptor]):
                    return request
        return None

    def _ready(self) -> list[int]:
        poll = select.poll()
        for descriptor in (self._woken.fileno(), *self._callers):
            poll.register(descriptor, select.POLLIN)
        if not self._leaving:
            poll.register(self._listener.fileno(), select.POLLIN)
            poll.register(_AGENT, select.POLLIN)
        return [descriptor for descriptor, _ in poll.poll()]

    def _report_exits(self) -> None:
        self._woken.recv(256)
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                caller = self._children.pop(ended[0])
                code = os.waitstatus_to_exitcode(ended[1])
                with contextlib.suppress(OSError):
                    caller.send(json.dumps({"exit": code}).encode())
                # The client closes the connection after reading the exit code. Were it closed here while a message
                # of the client is unread, the client would see a reset instead of the exit code.
                if caller.fileno() not in self._callers:
                    caller.close()

    def _receive(self, caller: socket.socket) -> GuestRequest | None:
        """Receive a request to run, which the child returns, or a signal. A lost connection counts as SIGHUP."""
        try:
            message, descriptors, _, _ = socket.recv_fds(caller, _LONGEST_REQUEST, _STREAMS)
        except ConnectionResetError:  # the caller is gone, with messages unread
            message, descriptors = b"", []
        pid = next((pid for pid, owner in self._children.items() if owner is caller), None)
        if len(descriptors) == _STREAMS:
            return self._fork(caller, message, descriptors)
        if descriptors:  # this process has too many open files for the rest
            self._refuse(caller, descriptors)
            return None
        if pid is None:
            if not message:
                del self._callers[caller.fileno()]
                caller.close()
            return None
        number = int(json.loads(message)["signal"]) if message else signal.SIGHUP
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, number)
        if not message:
            self._callers.pop(caller.fileno())
        return None

    def _fork(self, caller: socket.socket, message: bytes, descriptors: list[int]) -> GuestRequest | None:
        try:
            pid = os.fork()
        except OSError:  # no memory, or too many processes: the caller starts a program itself
            self._refuse(caller, descriptors)
            return None
        if pid:
            self._children[pid] = caller
            for descriptor in descriptors:
                os.close(descriptor)
            return None
        os.setsid()
        caller.send(b"{}")
        request = GuestRequest.from_json(message)
        self._become_child(descriptors, terminal=request.terminal is not None)
        return request

    def _refuse(self, caller: socket.socket, descriptors: Sequence[int]) -> None:
        for descriptor in descriptors:
            os.close(descriptor)
        del self._callers[caller.fileno()]
        caller.close()

    def _become_child(self, descriptors: Sequence[int], *, terminal: bool) -> None:
        """Restore signals, close the resident's sockets, and take over the caller's streams."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for end in (self._listener, self._woken, self._waker, *self._callers.values()):
            end.close()
        for stream, descriptor in enumerate(descriptors):
            os.dup2(descriptor, stream)
        for descriptor in descriptors:
            os.close(descriptor)
        if terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def run(request: GuestRequest, command: Callable[[], None] = run_command) -> NoReturn:
    """Run the requested command as a new Python process would.

    It exits without Python's finalization, which would write to, and so copy, all memory shared with the resident.
    """
    os.environ.clear()
    os.environ.update(request.whole_environment)
    time.tzset()
    os.chdir(request.directory)
    sys.argv = list(request.argv)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for the process's life
    sys.stdout = _writer(1, "strict")
    sys.stderr = _writer(2, "backslashreplace", line_buffering=True)
    output.look_again()
    try:
        code = _code_of(command)
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        code = output.BROKEN_PIPE
    except OSError:
        code = _OUTPUT_LOST
    os._exit(code)


def _code_of(command: Callable[[], None]) -> int:
    try:
        command()
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    except BaseException:  # noqa: BLE001 - as the interpreter does
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _writer(descriptor: int, errors: str, *, line_buffering: bool = False) -> io.TextIOWrapper:
    raw = open(descriptor, "wb", closefd=False)  # noqa: SIM115 - for the process's life
    return io.TextIOWrapper(raw, "utf-8", errors, line_buffering=line_buffering or os.isatty(descriptor))


def main() -> None:
    """Import everything, serve requests, and run the command in each child."""
    warm_up()
    request = Resident(socket.socket(fileno=int(sys.argv[1]))).serve()
    if request is not None:
        run(request)


if __name__ == "__main__":
    main()
