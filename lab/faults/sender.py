"""A program that sends one frame again and again from an interface of the namespace that it runs in.

``python -m lab.faults.sender INTERFACE SECONDS HEX``: a frame every so many seconds. When it was late it does not
catch up: a NIC that is stuck asks for a pause when it can.
"""

from __future__ import annotations

import socket
import sys
import time

from lab.faults.helper_process import say_ready


def main(interface: str, period: float, frame: bytes) -> None:
    """Send until ended."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as out:
        out.bind((interface, 0))
        out.send(frame)
        say_ready()
        due = time.monotonic()
        while True:
            due = max(due + period, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
            _send(out, frame)


def _send(out: socket.socket, frame: bytes) -> None:
    """A NIC whose link is down, or whose queue is full, has nothing to say."""
    try:
        out.send(frame)
    except OSError:
        return


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), bytes.fromhex(sys.argv[3]))
