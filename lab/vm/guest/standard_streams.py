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
    """The command's ends until they are handed over, and ours, which never block."""

    def __init__(self, terminal: tuple[int, int] | None) -> None:
        self.unread = bytearray()
        """Input that the command has yet to take."""
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
        """Close the command's ends: it has them."""
        for descriptor in set(self.theirs):
            os.close(descriptor)

    def resize(self, rows: int, columns: int) -> None:
        """Tell the terminal its size; whoever runs on it gets SIGWINCH."""
        fcntl.ioctl(self.input, termios.TIOCSWINSZ, _WINDOW_SIZE.pack(rows, columns, 0, 0))

    def end_input(self) -> None:
        """No more input comes: the command sees the end when it has read what there is."""
        self._input_ends = True

    def write(self) -> int:
        """Give the command what it takes of its input, and return how many octets were disposed of."""
        disposed = 0
        try:
            while self.unread and self.input >= 0:
                written = os.write(self.input, self.unread[:CHUNK])
                del self.unread[:written]
                disposed += written
        except BlockingIOError:
            return disposed
        except OSError:  # nobody will read it
            self._input_ends = True
        if self._input_ends or self.input < 0:
            disposed += len(self.unread)
            self.unread.clear()
            self._close_input()
        return disposed

    def read(self) -> list[tuple[CallFrameKind, bytes]]:
        """A piece of each output that has something; those that ended are closed."""
        pieces = []
        for descriptor, kind in list(self.outputs.items()):
            try:
                data = os.read(descriptor, CHUNK)
            except BlockingIOError:
                continue
            except OSError:  # a terminal that nobody has open any more
                data = b""
            if data:
                pieces.append((kind, data))
            else:
                os.close(descriptor)
                del self.outputs[descriptor]
        return pieces

    def close(self) -> None:
        """Close what is still open of our ends."""
        self._close_input()
        for descriptor in self.outputs:
            os.close(descriptor)
        self.outputs = {}

    def _close_input(self) -> None:
        if self.input >= 0:
            os.close(self.input)
            self.input = -1
