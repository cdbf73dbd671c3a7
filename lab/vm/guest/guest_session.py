"""One call in the guest, from START to the exit code: relays between the command's streams and frames."""

from __future__ import annotations

import select
import signal
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from lab.errors import LabError
from lab.kernel.process import wall_clock
from lab.vm.calls.frames import CallFrame, CallFrameKind
from lab.vm.calls.request import GuestRequest
from lab.vm.guest.launch import NOT_STARTED, refusal
from lab.vm.guest.standard_streams import StandardStreams
from lab.vm.guest.virtio_port import Disconnected

if TYPE_CHECKING:
    from lab.vm.guest.idle_loop import Idler
    from lab.vm.guest.launch import GuestCommand, Launcher
    from lab.vm.guest.virtio_port import VirtioPort

_FAREWELL_MS: Final = 5000
"""Milliseconds that a command may take to end when its caller is gone."""


class GuestSession:
    """A call on ``port`` that a START frame has begun."""

    def __init__(
        self, port: VirtioPort, start: CallFrame, launcher: Launcher, idler: Idler | None, heard: list[CallFrame]
    ) -> None:
        """``heard`` are the frames received after START: they may contain GO, from a caller that does not wait."""
        self._port = port
        self._idler = idler
        self._tag = start.tag
        self._request = GuestRequest.from_json(start.payload)
        _note_times(self._request)
        self._launcher = launcher
        self._unheard = heard

    def run(self) -> CallFrame | None:
        """Serve the call to its end. If the caller is gone and another call begins, return that call's START.

        Raises Disconnected if the caller is gone and there is no other. The command is ended in both cases.
        """
        self._port.await_host()
        self._say(CallFrameKind.ACCEPTED)
        if following := self._await_go():
            return following
        with self._idler.awake() if self._idler and not self._request.attended else nullcontext():
            return self._serve()

    def _serve(self) -> CallFrame | None:
        streams = StandardStreams(self._request.terminal)
        try:
            command = self._launcher.start(self._request, streams.theirs)
        except (LabError, OSError) as error:
            self._say(CallFrameKind.ERRORS, refusal(error))
            self._say(CallFrameKind.EXIT, b"%d" % NOT_STARTED)
            return None
        finally:
            streams.hand_over()
        try:
            following = self._relay(command, streams)
        except Disconnected:
            abandon(command)
            raise
        finally:
            streams.close()
        if following:
            abandon(command)
        else:
            self._say(CallFrameKind.EXIT, b"%d" % command.code())
            _LastEnd.at = time.monotonic()
        return following

    def _await_go(self) -> CallFrame | None:
        """Wait until the caller has received ACCEPTED. Return the START of another call, if one begins instead."""
        poll = select.poll()
        poll.register(self._port.fileno(), select.POLLIN)
        while True:
            frames, self._unheard = [*self._unheard, *self._port.receive()], []
            for number, frame in enumerate(frames):
                if frame.kind is CallFrameKind.START:
                    return frame
                if (frame.tag, frame.kind) == (self._tag, CallFrameKind.GO):
                    self._unheard = frames[number + 1 :]
                    return None
            poll.poll()

    def _relay(self, command: GuestCommand, streams: StandardStreams) -> CallFrame | None:
        """Relay frames until the command has ended and all its output is sent."""
        ended = False
        while True:
            if following := self._hear(command, streams):
                return following
            if taken := streams.write():
                self._say(CallFrameKind.TAKEN, b"%d" % taken)
            self._port.flush()
            if not self._port.congested:
                pieces = streams.read()
                for kind, data in pieces:
                    self._say(kind, data)
                if ended and not pieces:
                    return None
            ended = self._wait(command, streams, ended=ended)

    def _hear(self, command: GuestCommand, streams: StandardStreams) -> CallFrame | None:
        """Process the caller's frames. Return the START of another call, if there is one."""
        frames, self._unheard = [*self._unheard, *self._port.receive()], []
        for frame in frames:
            if frame.tag != self._tag:
                if frame.kind is CallFrameKind.START:
                    return frame
            elif frame.kind is CallFrameKind.INPUT:
                streams.unread += frame.payload
            elif frame.kind is CallFrameKind.INPUT_END:
                streams.end_input()
            elif frame.kind is CallFrameKind.SIGNAL:
                command.signal(int(frame.payload))
            elif frame.kind is CallFrameKind.RESIZE:
                rows, columns = map(int, frame.payload.split())
                streams.resize(rows, columns)
        return None

    def _wait(self, command: GuestCommand, streams: StandardStreams, *, ended: bool) -> bool:
        """Wait for the next event. Return whether the command has ended."""
        poll = select.poll()
        congested = self._port.congested
        poll.register(self._port.fileno(), select.POLLIN | (select.POLLOUT if congested else 0))
        if not ended:
            poll.register(command.fileno(), select.POLLIN)
        if streams.unread:
            poll.register(streams.input, select.POLLOUT)
        for descriptor in () if congested else streams.outputs:
            poll.register(descriptor, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(0 if ended and not congested else None)}
        return ended or command.fileno() in ready

    def _say(self, kind: CallFrameKind, payload: bytes = b"") -> None:
        self._port.send(CallFrame(self._tag, kind, payload))


class _LastEnd:
    """The time at which the last command ended, in seconds of the guest's CLOCK_MONOTONIC; 0 before the first."""

    at = 0.0


def _note_times(request: GuestRequest) -> None:
    """Record the caller's time of now, and of the end of the last command."""
    ended, now = (request.environment.get(name, "") for name in (wall_clock.LAST_ENDED_AT, wall_clock.CALLED_AT))
    if ended and _LastEnd.at:
        wall_clock.note(_LastEnd.at, float(ended))
    if now:
        wall_clock.note(time.monotonic(), float(now))


def abandon(command: GuestCommand) -> None:
    """End a command without a caller: by SIGHUP, as a terminal that goes away does, then by SIGKILL."""
    poll = select.poll()
    poll.register(command.fileno(), select.POLLIN)
    command.signal(signal.SIGHUP)
    if not poll.poll(_FAREWELL_MS):
        command.signal(signal.SIGKILL)
    command.code()
