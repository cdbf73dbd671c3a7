"""Summarise losses in sentences: place, answer, delay, retransmitted packets, and the counters that show them.

The counters are those of ConnectX (``rdma statistic``, mlx5's hw_counters) and of rxe (rxe_hw_counters.c).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.analysis.decode.opcode_tables import ACKS, SEQUENCE_ERROR
from lab.analysis.results.loss_facts import LossCause, LossCounter
from lab.analysis.transport.naks import IMPLIED, TIMEOUT, UNKNOWN
from lab.units import format_time
from lab.wire.headers import PSN_MASK

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lab.analysis.results.loss_facts import Loss

_AGAIN: Final = LossCounter("requester", "", "completer_retry_err")
COUNTERS: Final[dict[str, tuple[LossCounter, ...]]] = {
    ACKS[SEQUENCE_ERROR]: (
        LossCounter("responder", "out_of_sequence", "out_of_seq_request"),
        LossCounter("requester", "packet_seq_err", "rcvd_seq_err"),
        _AGAIN,
    ),
    TIMEOUT: (LossCounter("requester", "local_ack_timeout_err", "completer_retry_err"),),
    IMPLIED: (LossCounter("requester", "implied_nak_seq_err", "completer_retry_err"),),
}
"""By the signal that made the requester retransmit."""
DUPLICATE: Final = LossCounter("responder", "duplicate_request", "duplicate_request")
"""Counts duplicates at the responder, if the answer was lost."""


def causes(losses: Iterable[Loss]) -> tuple[LossCause, ...]:
    """Group losses by kind and place; the place with the most losses comes first."""
    groups: dict[tuple[object, ...], list[Loss]] = {}
    for loss in losses:
        groups.setdefault((loss.after, loss.before, loss.answer, loss.response), []).append(loss)
    return tuple(sorted(map(_cause, groups.values()), key=lambda cause: -cause.losses))


def _cause(group: Sequence[Loss]) -> LossCause:
    first = group[0]
    flows = len({(loss.src, loss.dst, loss.qp) for loss in group})
    counters = COUNTERS.get(first.answer, ())
    if first.before is None and not first.response:
        counters += (DUPLICATE,)
    return LossCause(
        what=_sentence(group, flows, counters),
        after=first.after,
        before=first.before,
        answer=first.answer,
        losses=len(group),
        flows=flows,
        resent=sum(loss.resent for loss in group),
        longest=max(loss.waited for loss in group),
        counters=counters,
    )


def _sentence(group: Sequence[Loss], flows: int, counters: Sequence[LossCounter]) -> str:
    first, resent = group[0], sum(loss.resent for loss in group)
    who = f"{first.src} to {first.dst} QP {first.qp:#x}"
    longest = format_time(max(loss.waited for loss in group))
    if len(group) == 1:
        head, took = f"{_packets(first)}, {who}, {_where(first)}", f"after {longest}"
    else:
        of = who if flows == 1 else f"{flows} flows, the first {_packets(first)}, {who}"
        head, took = f"{len(group)} losses of {of}, {_where(first)}", f"after up to {longest}"
    again = "1 packet was retransmitted" if resent == 1 else f"{resent} packets were retransmitted"
    return f"{head}: {_answered(first)}, {again} {took}{_counted(counters)}"


def _packets(loss: Loss) -> str:
    last = loss.psn + loss.count - 1 & PSN_MASK
    what = f"PSN {loss.psn}" if loss.count == 1 else f"PSNs {loss.psn} to {last}"
    return f"a response to READ {what}" if loss.response else what


def _where(loss: Loss) -> str:
    if loss.after is not None and loss.before is not None:
        return f"lost between {loss.after} and {loss.before}"
    if loss.before is not None:
        return f"lost before {loss.before}"
    return f"lost behind {loss.after}" + ("" if loss.response else ", or its answer was")


_ANSWERED: Final = {
    TIMEOUT: "no answer until the requester's timer expired (timeout)",
    UNKNOWN: "the trigger of the retransmission is not in the capture",
    IMPLIED: "the requester detected the gap (implied NAK)",
}


def _answered(loss: Loss) -> str:
    return _ANSWERED.get(loss.answer, f"the responder answered NAK, {loss.answer}")


def _counted(counters: Sequence[LossCounter]) -> str:
    """Return the counters by family, with their side."""
    families = (("ConnectX", [(c.side, c.mlx5) for c in counters]), ("rxe", [(c.side, c.rxe) for c in counters]))
    told = [f"{family}: {_sides(named)}" for family, named in families if any(name for _, name in named)]
    return f"; counted by {', by '.join(told)}" if told else ""


def _sides(named: Sequence[tuple[str, str]]) -> str:
    sides: dict[str, list[str]] = {}
    for side, name in named:
        if name:
            sides.setdefault(side, []).append(name)
    return ", ".join(f"{' and '.join(names)} ({side})" for side, names in sides.items())
