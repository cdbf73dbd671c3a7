"""A program that reads names of fabrics, and takes down those that still are when its input ends.

Its input is a pipe from pytest: however pytest ends, ``kill -9`` among others, the kernel closes it.
"""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Wait for the end of the input, then take down what is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    names = [line.strip() for line in sys.stdin]
    from lab.backends.fabric_state import FabricState  # noqa: PLC0415 - mostly nothing is left, and it need not start fast

    left = [state for state in map(FabricState, names) if state.exists()]
    if left:
        from lab.backends import lifecycle  # noqa: PLC0415

        for state in left:
            lifecycle.down(state, lambda _: None)


if __name__ == "__main__":
    main()
