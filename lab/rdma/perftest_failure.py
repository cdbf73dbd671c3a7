"""Errors of failed perftest runs: one line with the pair and the cause, and a remedy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed
from lab.kernel.process import signals
from lab.rdma.measure import ClockUnsteady
from lab.rdma.sysfs import MAKE_AGAIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.rdma.measure import Pair

BUSY: Final = "the machine may be too busy: use fewer pairs or QPs"
_LOSS: Final = (
    "look for loss on the path: rocelab status, rocelab capture; is one link's MTU smaller, or UDP 4791 blocked?"
)
_MOST_QPS: Final = 4
"""Maximum number of QP numbers in a line."""
_MEMORY: Final = "use a smaller size, fewer QPs, or raise the limit of locked memory (ulimit -l)"
_STATUS: Final = re.compile(r"Failed status (\d+)")
_STATUSES: Final = {
    4: ("local protection error", "report it: this is a fault of the test"),
    5: ("the QP broke and its work was flushed", _LOSS),
    9: ("the peer refused the request as invalid", "use the same perftest version on both sides"),
    10: ("the peer denied access to its memory", "use the same perftest version on both sides"),
    12: ("the peer stopped acknowledging (transport retry counter exceeded)", _LOSS),
    13: ("the peer had no receive buffer (RNR retry counter exceeded)", BUSY),
}
"""Values of enum ibv_wc_status (IBA vol. 1, 11.6.2) that occur for RC queue pairs in practice."""
_GIDS: Final = "rocelab rdma show lists GIDs: each side needs one of its address"
_SAYINGS: Final = (
    (r"Couldn't connect to (\S+)", "no TCP connection to {0}", ""),
    (r"Couldn't listen to port (\d+)", "TCP port {0} is taken", "run it again"),
    (r"IB device (\S+) not found|Did not detect devices", "its RDMA device is missing", MAKE_AGAIN),
    (r"Incompatibility issue with GID|Invalid GID|Unable to Connect the HCA", "the QPs do not connect", _GIDS),
    (r"Did not get Message for 120 Seconds", "no message came for a minute", _LOSS),
    (r"Couldn't (?:allocate|create)|Cannot allocate memory|Failed to create", "memory ran out", _MEMORY),
    (r"unrecognized option|invalid option", "this perftest is too old", "install perftest 4.5 or newer"),
    (r"Couldn't read remote address", "the other side ended", "run it again"),
)
"""Patterns in perftest's output, the most specific first; the cause; the remedy, or "" to suggest a ping."""


_UNSTEADY: Final = re.compile(r"Can't produce a report|Correlation coefficient")


def unsteady(pair: Pair) -> ClockUnsteady:
    """Return the error for a successful run that perftest could not time."""
    return ClockUnsteady(f"{pair}: the CPU's clock is too unsteady to measure by", BUSY)


def unreachable(pair: Pair) -> str:
    """Return the remedy if perftest's control connection fails."""
    return f"try: rocelab exec {pair.src.host} -- ping -c1 {pair.dst.address}"


def stalled(pair: Pair, seconds: float, *, ever: bool) -> OperationFailed:
    """Return the error for a pair whose source no longer gets answers, or never got one (``ever`` is False)."""
    what = f"no RDMA packet came back for {seconds:g} s"
    if ever:
        return OperationFailed(f"{pair}: {what}", _LOSS)
    return OperationFailed(f"{pair}: the QP of {pair.src} was never answered: {what}", _filtered(pair))


def unanswered(pair: Pair, qps: tuple[Sequence[int], Sequence[int]], seconds: float) -> OperationFailed:
    """Return the error for a pair whose source sent for ``seconds`` and got no RDMA packet back.

    ``qps`` are the numbers of its QPs: those of the source and those of the destination.
    """
    what = f"{_named(qps[0])} of {pair.src} was never answered"
    where = f"{_named(qps[1])} of {pair.dst} at {pair.dst.address}"
    return OperationFailed(f"{pair}: {what}: no RDMA packet came back from {where} in {seconds:g} s", _filtered(pair))


def incomplete(pair: Pair, qps: tuple[Sequence[int], Sequence[int]], seconds: float) -> OperationFailed:
    """Return the error for a pair that completed no message in ``seconds``, even if packets came back."""
    return OperationFailed(
        f"{pair}: no message was completed in {seconds:g} s: {_named(qps[0])} of {pair.src} was not acknowledged by "
        f"{_named(qps[1])} of {pair.dst} at {pair.dst.address}",
        f"measure for longer, see whether congestion control holds a QP: rocelab rdma show, or {_LOSS}",
    )


def _named(numbers: Sequence[int]) -> str:
    """Return ``QP 0x11``, or a list if there are several."""
    if not numbers:
        return "the QP"
    shown = ", ".join(f"{number:#x}" for number in numbers[:_MOST_QPS])
    more = f" and {len(numbers) - _MOST_QPS} more" if len(numbers) > _MOST_QPS else ""
    return f"QP {shown}{more}" if len(numbers) == 1 else f"every one of QPs {shown}{more}"


def _filtered(pair: Pair) -> str:
    return f"{unreachable(pair)}; where that answers, {_LOSS}"


def explain(pair: Pair, ended: Sequence[tuple[str, int | None, str]]) -> OperationFailed:
    """Return the error for failed programs of a pair: (name, exit code, output), the likelier cause first.

    A program killed by a signal is reported before one that noticed it, and a known reason before an unknown one.
    """
    for name, code, _ in ended:
        if code is not None and code < 0:
            by = signals.name_of(-code)
            return OperationFailed(f"{pair}: {name} was killed ({by})", "nothing was measured; run it again")
    if any(_UNSTEADY.search(said) for _, _, said in ended):
        return unsteady(pair)
    for name, _, said in ended:
        for status in _STATUS.findall(said):
            reason, remedy = _STATUSES.get(int(status), (f"work completion status {status}", _LOSS))
            return OperationFailed(f"{pair}: {name}: {reason}", remedy)
    for pattern, reason, remedy in _SAYINGS:
        for name, _, said in ended:
            if found := re.search(pattern, said):
                return OperationFailed(
                    f"{pair}: {name}: {reason.format(*found.groups())}", remedy or unreachable(pair)
                )
    name, code, said = ended[0]
    lines = [line.strip() for line in said.splitlines() if line.strip(" -")]
    return OperationFailed(f"{pair}: {name} ended with {code}: {lines[-1] if lines else 'it printed nothing'}", BUSY)
