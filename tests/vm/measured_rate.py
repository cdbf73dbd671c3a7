"""The rate of a limited QP as a capture of its NIC's wire shows it: the gap behind each packet follows the rate."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import numpy as np

from tests.inside import entered
from tests.vm.limited_qp import NS
from tests.vm.one_switch import OVERHEAD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tests.vm.port_programs import Switch, Wire

WINDOW: Final = 16
"""Packets whose gaps are judged together. The port may send each up to 50 us late (``RL_PACE_SLACK``), and then the
next ones earlier. Of 4000 bytes at 100 Mb/s, that is 1.8% of the time of 8 packets and 0.9% of 16."""
BOUND: Final = 0.02
UNCERTAIN: Final = 30_000
"""Nanoseconds between a packet's times in the port and in the capture. If the rate changes then, both are right."""
_ROOM: Final = 1 << 26
"""Bytes of a socket's buffer, for all packets of a run."""
_SO_RCVBUFFORCE: Final = 33


def make_room(wire: Wire) -> None:
    """Let a wire's socket hold all packets of a run."""
    wire._end.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _ROOM)


@contextmanager
def saturated(nic: Switch, frames: Iterator[bytes]) -> Iterator[None]:
    """A host that sends as fast as its NIC takes frames: a socket's buffer holds it back, as rxe's limit does."""
    ended = threading.Event()
    with entered(nic.inside):
        out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        out.bind(("swp1", 0))

    def run_on() -> None:
        while not ended.is_set():
            out.send(next(frames))

    sender = threading.Thread(target=run_on)
    with out:
        sender.start()
        try:
            yield
        finally:
            ended.set()
            sender.join()


def deviation(changes: NDArray[np.int64], rates: NDArray[np.float64], times: NDArray[np.int64], size: int) -> float:
    """How far the time that any ``WINDOW`` packets of ``size`` bytes took is from a model's, as a fraction of that.

    The model's rate in bit/s is ``rates`` from each of ``changes`` on; packets left at ``times``. All are in ns.
    """
    early, late = (rates[np.searchsorted(changes, times + by, side="right") - 1] for by in (-UNCERTAIN, UNCERTAIN))
    starts = np.arange(2, len(times) - WINDOW)
    took = times[starts + WINDOW] - times[starts]
    least, most = (
        _owed(rate, size)[starts + WINDOW] - _owed(rate, size)[starts]
        for rate in (np.maximum(early, late), np.minimum(early, late))
    )
    return float(np.maximum(took / most - 1, 1 - took / least).max())


def _owed(rates: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Nanoseconds from the first packet to each, if the gap behind each follows its rate in bit/s."""
    return np.concatenate([[0], np.cumsum((size + OVERHEAD) * 8 * NS / rates)])
