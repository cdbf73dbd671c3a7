"""A program that sends one frame repeatedly from an interface of its network namespace.

``python -m lab.faults.sender INTERFACE SECONDS HEX`` sends a frame every SECONDS. After a delay it does not catch up,
like a stuck NIC.
"""

from __future__ import annotations

import socket
import sys
import time

from lab.faults.helper_process import say_ready


def main(interface: str, period: float, frame: bytes) -> None:
    """Send the frame until the process is ended."""
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
    """Send a frame, ignoring errors: the link may be down, or the queue full."""
    try:
        out.send(frame)
    except OSError:
        return


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), bytes.fromhex(sys.argv[3]))
