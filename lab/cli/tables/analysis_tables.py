"""The tables of ``rocelab analyze``, and its verdict."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from lab.analysis.results.analysis_exit_code import verdict
from lab.analysis.results.capture_verdict import is_unsorted, reordered
from lab.cli.kit.fit_columns import Column, TableLayout, left_out_note
from lab.cli.kit.output import stdout
from lab.cli.tables.pause_tree_view import Branch, draw
from lab.errors import ExitCode
from lab.units import counted, format_rate, format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lab.analysis.results.analysis_facts import AnalysisFacts, CaptureFinding, FirstPause, FlowFacts, Percentiles
    from lab.analysis.results.loss_facts import GoBackN

_ROWS: Final = 40
"""Rows of a table; JSON has all rows."""
_NAMED: Final = 5
"""Kinds of packets that a sentence names."""
_SPARKS: Final = " ▁▂▃▄▅▆▇█"
_WIDTH: Final = 48
_NARROW: Final = 16
"""Largest and smallest width of a flow's sparkline, in characters."""
_WIDE: Final = 132
"""Terminal width in characters from which full IPv6 addresses fit."""
_ADDRESS: Final = 17
"""Characters of an address on narrower terminals."""
_BESIDE: Final = 60
"""Characters that the other columns of that table take."""


def show(facts: AnalysisFacts) -> None:
    """Print all tables, then the verdict."""
    beside = f", {facts.left_out} left out" if facts.left_out else ""
    beside += f", {facts.mirrored} out of mirrors' GRE" if facts.mirrored else ""
    _line(
        f"{counted(facts.packets, 'packet')} in {format_time(facts.seconds)}: {facts.roce} of RoCEv2, "
        f"{_flow_control(facts)}{beside}"
    )
    _connections(facts)
    _troubles(facts)
    _episodes(facts)
    _goodput(facts)
    _pauses(facts)
    _pause_trees(facts)
    _table("Parallel links", _columns("link", "bytes", "flows", "Jain index of the group"), (
        (link, format_size(size), group.flows[link], f"{group.jain:.3f}")
        for group in facts.spread for link, size in group.bytes.items()
    ))  # fmt: skip
    _table("Marked CE along the path", _columns("from", "to", "QP", "links"), (
        (
            _host(path.src), _host(path.dst), f"{path.qp:#x}",
            ", ".join(f"{hop.link}\N{NO-BREAK SPACE}{hop.marked_share:.1%}" for hop in path.hops),
        )
        for path in facts.paths if any(hop.marked for hop in path.hops)
    ))  # fmt: skip
    _table("Inside VXLAN and GENEVE", _columns("VNI", "link", "from", "to", "packets 2", "bytes", "RoCEv2 1"), (
        (t.vni, t.link, _host(t.src) or "not IP", _host(t.dst) or "not IP", t.packets, format_size(t.bytes), t.roce)
        for t in facts.tunnels
    ))  # fmt: skip
    _table(
        "Not decoded",
        _columns("what", "packets"),
        ((name, f"{count:,}") for name, count in facts.not_decoded.items()),
    )
    _icrcs(facts)
    _conclude(facts)


def _icrcs(facts: AnalysisFacts) -> None:
    """Print the counts of checked ICRCs, and whether they are of a sample."""
    icrc = facts.icrc
    if facts.roce:
        sample = "" if icrc.every else "; a sample was checked: --icrc checks every packet"
        _line(f"ICRC: {icrc.right} right, {icrc.wrong} wrong, {icrc.unknown} that cannot be checked{sample}")


def _flow_control(facts: AnalysisFacts) -> str:
    """Return the number of flow control frames, or the reason why the capture cannot contain any."""
    if facts.pause_frames or not facts.pause_frames_hidden:
        return f"{facts.pause_frames} of flow control"
    return f"flow control {facts.pause_frames_hidden}"


def _connections(facts: AnalysisFacts) -> None:
    """Print one row for each direction with requests; it includes the responses of the other direction."""
    peers = {(flow.link, flow.vni, flow.src, flow.dst, flow.qp): flow for flow in facts.flows if flow.cnps}
    columns = (
        "link",
        "from",
        "to",
        "packets 3",
        "messages 2",
        "goodput",
        "ACK latency p50, p99 1",
        "CE 4",
        "CNPs back 5",
    )
    _table("Queue pairs", _columns(*columns), (
        (
            flow.link if flow.vni is None else f"{flow.link} VNI {flow.vni}",
            f"{_host(flow.src)} QP {'?' if flow.peer is None else hex(flow.peer)}",
            f"{_host(flow.dst)} QP {flow.qp:#x}",
            flow.packets, _messages(flow), _rate(flow), _percentiles(flow.round_trip),
            f"{flow.marked_share:.1%}",
            _cnps(flow, peers.get((flow.link, flow.vni, flow.dst, flow.src, flow.peer or 0))),
        )
        for flow in facts.flows
        if flow.messages or flow.peer is None or not (flow.answers or flow.cnps)
    ))  # fmt: skip


def _messages(flow: FlowFacts) -> str:
    if not flow.messages:
        return ""
    least, most = format_size(flow.smallest), format_size(flow.largest)
    counts = ", ".join(f"{count} {kind}" for kind, count in flow.messages.items())
    return f"{counts} of {least}" if least == most else f"{counts} of {least} to {most}"


def _rate(flow: FlowFacts) -> str:
    """Return the goodput of sent data, and of data that READs returned."""
    if not flow.read_goodput:
        return format_rate(flow.goodput)
    read = f"{format_rate(flow.read_goodput)} read"
    return f"{format_rate(flow.goodput)}, {read}" if flow.payload else read


def _cnps(flow: FlowFacts, peer: FlowFacts | None) -> str:
    """Return the number of CNPs, their delay after a mark, and the sender's rate before and after them."""
    if peer is None or not peer.cnps:
        return ""
    delay = f" after {format_time(peer.cnp_delay.p50)}" if peer.cnp_delay.count else ""
    rates = [format_rate(round(rate)) for rate in (flow.rate_before_cnps, flow.rate_after_cnps) if rate]
    slower = f", {' to '.join(rates)}" if len(rates) == 2 else ""
    return f"{peer.cnps}{delay}{slower}"


def _host(address: str) -> str:
    """Return an address; on narrow terminals, only both ends of a long one, which distinguish hosts."""
    return address if len(address) <= _ADDRESS or stdout.width >= _WIDE else f"{address[:8]}…{address[-8:]}"


def _percentiles(times: Percentiles) -> str:
    return f"{format_time(times.p50)}, {format_time(times.p99)}" if times.count else ""


def _troubles(facts: AnalysisFacts) -> None:
    columns = (
        "link", "from 6", "to", "QP 1", "missing 2", "gaps 10", "ACKed unseen 7", "out-of-order 5", "retransmitted 4",
        "go-back-N 8", "duplicates 11", "not in time order 9", "answers 3",
    )  # fmt: skip
    _table("PSNs and answers", _columns(*columns), (
        (
            flow.link, _host(flow.src), _host(flow.dst), f"{flow.qp:#x}", *_psn_counts(flow),
            ", ".join(f"{count} {kind}" for kind, count in flow.answers.items() if kind != "ACK"),
        )
        for flow in facts.flows
        if flow.missing or flow.resent or flow.late or flow.go_back_n or set(flow.answers) - {"ACK"}
    ))  # fmt: skip


def _psn_counts(flow: FlowFacts) -> list[object]:
    """Return the counts of a flow's PSNs: "" for 0, and "?" for what the order of packets in the file hides.

    Empty columns are left out first on narrow terminals.
    """
    missing = max(0, flow.missing - flow.displaced)
    gaps = flow.gaps if missing else 0
    counts = (missing, gaps, flow.unseen, reordered(flow), flow.resent, flow.go_back_n, flow.duplicates)
    unknown = is_unsorted(flow)
    return [*("?" if unknown and count else count or "" for count in counts), flow.displaced or ""]


def _episodes(facts: AnalysisFacts) -> None:
    """Print the episodes of retransmission, without those of flows whose packets the file has in another order."""
    columns = (
        "at s", "link", "from 3", "to 4", "QP 2", "PSN", "back 6", "retransmitted 1", "for 5", "because of",
    )  # fmt: skip
    unsorted = {_flow_key(flow) for flow in facts.flows if is_unsorted(flow)} if facts.go_back_n else set()
    _table("Go-back-N episodes", _columns(*columns), (
        (
            f"{step.time:.6f}", step.link, _host(step.src), _host(step.dst), f"{step.qp:#x}", step.psn, step.back,
            step.packets, format_time(step.seconds), step.cause,
        )
        for step in facts.go_back_n if _flow_key(step) not in unsorted
    ))  # fmt: skip


def _flow_key(of: FlowFacts | GoBackN) -> tuple[str, str, str, int]:
    return of.link, of.src, of.dst, of.qp


def _goodput(facts: AnalysisFacts) -> None:
    columns = _columns("link", "from 2", "to", "peak 1", "over time")
    _table(f"Goodput over {format_time(facts.seconds)}", columns, (
        (
            flow.link, _host(flow.src), f"{_host(flow.dst)} QP {flow.qp:#x}", format_rate(flow.peak),
            _sparks(flow.goodput),
        )
        for flow in facts.over_time.flows if flow.goodput
    ))  # fmt: skip


def _sparks(rates: Sequence[float]) -> str:
    """Return one character for each interval, scaled to the highest; intervals are merged if there are too many."""
    width = max(_NARROW, min(_WIDTH, stdout.width - _BESIDE))
    share, peak = -(-len(rates) // width), max(rates)
    means = [sum(part) / len(part) for part in (rates[i : i + share] for i in range(0, len(rates), share))]
    return "".join(_SPARKS[round(mean / peak * (len(_SPARKS) - 1))] for mean in means)


def _pauses(facts: AnalysisFacts) -> None:
    columns = (
        "link", "frames", "priority", "XOFF 1", "XON 4", "pairs 6", "expired 5", "paused", "longest 3", "share 2",
    )  # fmt: skip
    _table("Pauses", _columns(*columns), (
        (
            port.link, port.direction or f"from {port.sender}", "all" if port.cls is None else port.cls,
            port.xoff, port.xon, port.pairs, port.expired,
            _bounded(port.paused, port.least), _bounded(port.longest, port.longest_least),
            "?" if port.share is None else f"{port.share:.2%}",
        )
        for port in facts.pauses
    ))  # fmt: skip


def _bounded(seconds: float | None, least: float) -> str:
    """Return a time, or its lower bound if it is not known."""
    return (f"≥ {format_time(least)}" if least else "?") if seconds is None else format_time(seconds)


def _pause_trees(facts: AnalysisFacts) -> None:
    """Print pause trees if a pause led to another one; single pauses are in the table."""
    if not any(pause.behind for tree in facts.pause_trees for pause in tree.pauses):
        return
    _line("Pause trees")
    for tree in facts.pause_trees[:_ROWS]:
        what = "all classes" if tree.priority is None else f"priority {tree.priority}"
        stdout.print(draw(f"{tree.node}, {what}", map(_branch, tree.pauses)))


def _branch(pause: FirstPause) -> Branch:
    share = "" if pause.share is None else f", {pause.share:.0%} of the time"
    text = f"{pause.end} pauses {pause.peer} from {pause.since:.6f} s on{share}, {pause.xoffs} XOFF"
    return Branch(text, tuple(map(_branch, pause.behind)))


def _conclude(facts: AnalysisFacts) -> None:
    for damage in facts.damages:
        _line(f"damaged: {damage.place} {damage.what}")
    for cause in facts.causes[:_ROWS]:
        stdout.print("root cause: ", style="red", end="")
        _line(cause.what)
    for finding in facts.findings[:_ROWS]:
        stdout.print(f"{_heading(finding)}: ", style="yellow" if finding.note else "red", end="")
        _line(f"{finding.what}: {finding.meaning}")
    if len(facts.findings) > _ROWS:
        _line(f"... and {len(facts.findings) - _ROWS} more; --json has all")
    if all(finding.note for finding in facts.findings):
        judged = verdict(facts) is ExitCode.PASS
        _line("nothing looks wrong" if judged else f"no RoCE, flow control or VXLAN to judge: {_others(facts)}")


def _heading(finding: CaptureFinding) -> str:
    if finding.unjudged:
        return "not judged"
    return "note" if finding.note else "looks wrong"


def _others(facts: AnalysisFacts) -> str:
    """Return the kinds of packets in a capture without RoCE, as text."""
    named = list(facts.not_decoded.items())[:_NAMED]
    counts = [f"{counted(count, 'packet')} of {name}" for name, count in named]
    more = sum(facts.not_decoded.values()) - sum(count for _, count in named)
    counts += [f"{more:,} of others"] if more else []
    return f"{', '.join(counts)}, not decoded" if counts else counted(facts.packets - facts.left_out, "packet")


def _columns(*texts: str) -> list[Column]:
    """Return columns from their heads; a number after a head is its rank, and the highest rank is left out first."""
    found = []
    for text in texts:
        head, _, rank = text.rpartition(" ")
        found.append(Column(head, head, int(rank)) if rank.isdecimal() else Column(text, text))
    return found


def _table(title: str, columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> None:
    coming = iter(rows)
    shown = list(islice(coming, _ROWS))
    if shown:
        drawn, left_out = TableLayout(columns).draw(title, shown, stdout.width)
        stdout.print(drawn)
        if left_out:
            _line(left_out_note(left_out, "--json has all."))
    if more := sum(1 for _ in coming):
        _line(f"... and {more} more; --json has all")


def _line(text: str) -> None:
    stdout.print(text, markup=False, highlight=False, soft_wrap=True)
