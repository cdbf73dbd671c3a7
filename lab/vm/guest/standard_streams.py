"""A command's standard streams in the guest: three pipes, or one pseudo-terminal for all."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from typing import Final

from lab.vm.calls.frames import CHUNK, CallFrameKind

_WINDOW_SIZE: Final = struct.Struct("HHHH")


class StandardStreams:
    """The command's ends until ``hand_over``, and the agent's ends, which never block."""

    def __init__(self, terminal: tuple[int, int] | None) -> None:
        self.unread = bytearray()
        """Input that the command has not yet read."""
        self._input_ends = False
        if terminal:
            master, slave = os.openpty()
            self.theirs = (slave, slave, slave)
            self.input, self.outputs = os.dup(master), {master: CallFrameKind.OUTPUT}
            self.resize(*terminal)
        else:
            (their_input, self.input), (output, their_output), (errors, their_errors) = (
                os.pipe(),
                os.pipe(),
                os.pipe(),
            )
            self.theirs = (their_input, their_output, their_errors)
            self.outputs = {output: CallFrameKind.OUTPUT, errors: CallFrameKind.ERRORS}
        for ours in (self.input, *self.outputs):
            os.set_blocking(ours, False)

    def hand_over(self) -> None:
        """Close the agent's copies of the command's ends."""
        for descriptor in set(self.theirs):
            os.close(descriptor)

    def resize(self, rows: int, columns: int) -> None:
        """Set the terminal's size. Its foreground processes get SIGWINCH."""
        fcntl.ioctl(self.input, termios.TIOCSWINSZ, _WINDOW_SIZE.pack(rows, columns, 0, 0))

    def end_input(self) -> None:
        """Mark the end of the input: the command sees it after the input that is left."""
        self._input_ends = True

    def write(self) -> int:
        """Write input to the command, as much as it accepts. Return the number of bytes written or discarded."""
        disposed = 0
        try:
            while self.unread and self.input >= 0:
                written = os.write(self.input, self.unread[:CHUNK])
                del self.unread[:written]
                disposed += written
        except BlockingIOError:
            return disposed
        except OSError:  # the input has no reader any more
            self._input_ends = True
        if self._input_ends or self.input < 0:
            disposed += len(self.unread)
            self.unread.clear()
            self._close_input()
        return disposed

    def read(self) -> list[tuple[CallFrameKind, bytes]]:
        """Return a chunk of each output that has data. Closes outputs that have ended."""
        pieces = []
        for descriptor, kind in list(self.outputs.items()):
            try:
                data = os.read(descriptor, CHUNK)
            except BlockingIOError:
                continue
            except OSError:  # no process has the terminal open any more
                data = b""
            if data:
                pieces.append((kind, data))
            else:
                os.close(descriptor)
                del self.outputs[descriptor]
        return pieces

    def close(self) -> None:
        """Close the agent's ends that are still open."""
        self._close_input()
        for descriptor in self.outputs:
            os.close(descriptor)
        self.outputs = {}

    def _close_input(self) -> None:
        if self.input >= 0:
            os.close(self.input)
            self.input = -1
