"""Run a command in the guest as if it ran here: directory, terminal, signals and exit code go across."""

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
from lab.vm.calls.handover import prepared
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

IN_VM: Final = "ROCELAB_IN_VM"
"""Set in the guest's environment."""
ROOM: Final = "ROCELAB_ROOM"
"""Bytes for which there is room where the command's results are to go when it has ended."""
FORWARDED: Final = ("COLORTERM", "FORCE_COLOR", "NO_COLOR", "PYTEST_ADDOPTS")
"""Besides these, variables of rocelab's own go across, and of a terminal its kind."""
_PASSED_ON: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_BROKEN_PIPE: Final = 128 + signal.SIGPIPE


def inside_vm() -> bool:
    """Whether this process runs in the guest."""
    return bool(os.environ.get(IN_VM))


def called_at() -> float:
    """What the clock of whoever typed the command says, in seconds since 1970."""
    told = os.environ.get(wall_clock.CALLED_AT, "") if inside_vm() else ""
    return float(told) if told else time.time()


def room() -> int | None:
    """Bytes that a result of this command may have, for it to be brought back; None where it stays where it is."""
    told = os.environ.get(ROOM, "") if inside_vm() else ""
    return int(told) if told else None


def call(  # noqa: PLR0913 - where, what, and how
    state: StateFolder,
    running: RunningVm,
    command: list[str],
    files: Sequence[NamedFile],
    tell: Callable[[str], None],
    *,
    attended: bool = False,
) -> int:
    """Run ``command`` in the guest with the caller's streams and return its exit code.

    It runs in the caller's directory, and where the guest does not see that, in a folder that stands for it:
    ``files`` of the command line are taken along or brought back when it has ended, and ``tell`` is told what else it
    has written. SIGINT, SIGTERM and SIGHUP reach it. A second lasts a second for an ``attended`` command, even in
    virtual time. OperationFailed when the VM is lost meanwhile, UsageError as of
    ``Handover.name``.
    """
    with prepared(running, command, files, tell) as handover:
        return _run(state, running, handover, attended=attended)


def ask(state: StateFolder, running: RunningVm, command: list[str]) -> tuple[int, bytes]:
    """Run a command in the guest without a terminal; its exit code and output. Errors as of ``call``."""
    said = bytearray()

    def keep(descriptor: int, data: bytes) -> None:
        if descriptor == 1:
            said.extend(data)

    with prepared(running, command, (), lambda _line: None) as handover:
        return _run(state, running, handover, keep), bytes(said)


def on_terminal() -> bool:
    """Whether this process reads from and writes to a terminal, so that a command in the guest gets one, too."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _run(
    state: StateFolder, running: RunningVm, handover: Handover, sink: Sink | None = None, *, attended: bool = False
) -> int:
    """Run it with the caller's streams, or without input and its output going to ``sink``."""
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
    """The caller's time of now and of the end of the last command in this VM, and its time zone."""
    times = {wall_clock.CALLED_AT: f"{time.time():.3f}", "TZ": wall_clock.time_zone()}
    with contextlib.suppress(OSError):
        times[wall_clock.LAST_ENDED_AT] = state.call_ended.read_text(encoding="ascii")
    return times


def forwarded(environment: Mapping[str, str], *, terminal: bool) -> dict[str, str]:
    """The variables that go across."""
    names = {*FORWARDED, "TERM"} if terminal else set(FORWARDED)
    return {name: value for name, value in environment.items() if name in names or name.startswith("ROCELAB_")}


class _Relay:
    """Passes streams and signals until the exit code comes."""

    def __init__(self, channel: GuestChannel, signals: int, sink: Sink | None) -> None:
        self._channel = channel
        self._signals = signals
        self._sink = sink or _write
        self._window = WINDOW
        self._reading = sink is None
        if sink:
            channel.send(CallFrameKind.INPUT_END)

    def run(self) -> int:
        """Return the command's exit code; that of SIGPIPE when nobody reads what it writes. Raises Lost."""
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
        """Do what a frame says; return the exit code when it is that."""
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
        # In a terminal's background a read would stop this process.
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
