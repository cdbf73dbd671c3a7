"""Run a command in the guest as if it ran here, with the caller's directory, terminal, signals and exit code."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed
from lab.kernel.process import wall_clock
from lab.kernel.process.signals import received
from lab.vm.calls.caller_terminal import raw, size
from lab.vm.calls.channel import Lost, opened
from lab.vm.calls.frames import CHUNK, WINDOW, CallFrameKind
from lab.vm.calls.handover import IN_VM, prepared
from lab.vm.calls.request import ATTENDED, GuestRequest
from lab.vm.checkpoints.fingerprint import of_code
from lab.vm.host.vm_lifecycle import last_fault
from lab.vm.host.vm_teardown import has_ended

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lab.vm.calls.channel import GuestChannel
    from lab.vm.calls.frames import CallFrame
    from lab.vm.calls.handover import Handover, NamedFile
    from lab.vm.host.vm_state import RunningVm, StateFolder

    Sink = Callable[[int, bytes], None]

ROOM: Final = "ROCELAB_ROOM"
"""Free bytes where the command's results are copied when it has ended."""
FORWARDED: Final = ("COLORTERM", "FORCE_COLOR", "NO_COLOR", "PYTEST_ADDOPTS")
"""Variables that are forwarded, besides ``ROCELAB_*`` and, with a terminal, ``TERM``."""
_PASSED_ON: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_BROKEN_PIPE: Final = 128 + signal.SIGPIPE


def inside_vm() -> bool:
    """Return whether this process runs in the guest."""
    return bool(os.environ.get(IN_VM))


def room() -> int | None:
    """Return the largest size in bytes of a result that is copied back; None if results are not copied."""
    told = os.environ.get(ROOM, "") if inside_vm() else ""
    return int(told) if told else None


def call(  # noqa: PLR0913 - the VM, the command, and its options
    state: StateFolder,
    running: RunningVm,
    command: list[str],
    files: Sequence[NamedFile],
    tell: Callable[[str], None],
    *,
    attended: bool = False,
) -> int:
    """Run ``command`` in the guest with the caller's streams and return its exit code.

    It runs in the caller's directory. If the guest does not see that, it runs in a folder of its own: ``files`` of
    the command line are copied there, and results are copied back at the end. ``tell`` reports other files that the
    command wrote. SIGINT, SIGTERM and SIGHUP are forwarded. For an ``attended`` command a second lasts a real second,
    even in virtual time.

    Raises OperationFailed if the VM is lost meanwhile, and UsageError as ``Handover.name`` does.
    """
    with prepared(running, command, files, tell) as handover:
        return _run(state, running, handover, attended=attended)


def ask(state: StateFolder, running: RunningVm, command: list[str]) -> tuple[int, bytes]:
    """Run a command in the guest without a terminal. Return its exit code and output. Raises as ``call`` does."""
    said = bytearray()

    def keep(descriptor: int, data: bytes) -> None:
        if descriptor == 1:
            said.extend(data)

    with prepared(running, command, (), lambda _line: None) as handover:
        return _run(state, running, handover, keep), bytes(said)


def on_terminal() -> bool:
    """Return whether this process has a terminal as input and output, so that a guest command gets one, too."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _run(
    state: StateFolder, running: RunningVm, handover: Handover, sink: Sink | None = None, *, attended: bool = False
) -> int:
    """Run the command with the caller's streams, or with no input and its output passed to ``sink``."""
    terminal = sink is None and on_terminal()
    settings = {ROOM: "" if handover.room is None else str(handover.room), ATTENDED: str(int(attended))}
    request = GuestRequest(
        argv=tuple(handover.words),
        directory=handover.directory,
        environment=forwarded(os.environ, terminal=terminal) | _times(state) | settings,
        terminal=size() if terminal else None,
        code=of_code(),
    )
    watched = (signal.SIGWINCH,) if terminal else _PASSED_ON
    try:
        seen = raw() if terminal else contextlib.nullcontext()
        with opened(state, request) as channel, received(watched) as signals, seen:
            code = _Relay(channel, signals, sink).run()
    except Lost as lost:
        if has_ended(running):
            why = f"\n{said}\n" if (said := last_fault(state)) else ""
            raise OperationFailed(f"the VM ended while {handover.words[0]} ran{why}", "rocelab vm up") from lost
        raise OperationFailed(f"the way into the VM broke while {handover.words[0]} ran", "try again") from lost
    with contextlib.suppress(OSError):
        state.call_ended.write_text(f"{time.time():.3f}", encoding="ascii")
    return code


def _times(state: StateFolder) -> dict[str, str]:
    """Return the caller's time zone, the time now, and the time at which the last command in this VM ended."""
    times = {wall_clock.CALLED_AT: f"{time.time():.3f}", "TZ": wall_clock.time_zone()}
    with contextlib.suppress(OSError):
        times[wall_clock.LAST_ENDED_AT] = state.call_ended.read_text(encoding="ascii")
    return times


def forwarded(environment: Mapping[str, str], *, terminal: bool) -> dict[str, str]:
    """Return the variables of ``environment`` that are forwarded."""
    names = {*FORWARDED, "TERM"} if terminal else set(FORWARDED)
    return {name: value for name, value in environment.items() if name in names or name.startswith("ROCELAB_")}


class _Relay:
    """Passes streams and signals on until the exit code arrives."""

    def __init__(self, channel: GuestChannel, signals: int, sink: Sink | None) -> None:
        self._channel = channel
        self._signals = signals
        self._sink = sink or _write
        self._window = WINDOW
        self._reading = sink is None
        if sink:
            channel.send(CallFrameKind.INPUT_END)

    def run(self) -> int:
        """Return the command's exit code, or that of SIGPIPE if its output has no reader. Raises Lost."""
        while True:
            for descriptor in self._ready():
                if descriptor == self._signals:
                    self._pass_signals()
                elif descriptor == self._channel.fileno():
                    for frame in self._channel.receive():
                        if (code := self._take(frame)) is not None:
                            return code
                else:
                    self._pass_input()

    def _ready(self) -> list[int]:
        poll = select.poll()
        poll.register(self._channel.fileno(), select.POLLIN)
        poll.register(self._signals, select.POLLIN)
        if self._reading and self._window > 0:
            poll.register(0, select.POLLIN)
        return [descriptor for descriptor, _ in poll.poll()]

    def _take(self, frame: CallFrame) -> int | None:
        """Process a frame; return the exit code if the frame contains it."""
        if frame.kind is CallFrameKind.EXIT:
            return int(frame.payload)
        if frame.kind is CallFrameKind.TAKEN:
            self._window += int(frame.payload)
            return None
        try:
            self._sink(2 if frame.kind is CallFrameKind.ERRORS else 1, frame.payload)
        except BrokenPipeError:
            return _BROKEN_PIPE
        return None

    def _pass_input(self) -> None:
        # A read in a terminal's background would stop this process.
        mine = not os.isatty(0) or os.tcgetpgrp(0) == os.getpgrp()
        data = os.read(0, CHUNK) if mine else b""
        if data:
            self._window -= len(data)
            self._channel.send(CallFrameKind.INPUT, data)
        else:
            self._reading = False
            self._channel.send(CallFrameKind.INPUT_END)

    def _pass_signals(self) -> None:
        for number in os.read(self._signals, 64):
            if number == signal.SIGWINCH:
                self._channel.send(CallFrameKind.RESIZE, b"%d %d" % size())
            else:
                self._channel.send(CallFrameKind.SIGNAL, b"%d" % number)


def _write(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
