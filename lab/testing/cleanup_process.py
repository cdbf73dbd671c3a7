"""A program that reads names of fabrics, and takes down the remaining ones when its input ends.

Its input is a pipe from pytest: the kernel closes it however pytest ends, including ``kill -9``.
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
