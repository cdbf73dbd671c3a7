"""Facts of a window: transfers, jobs, probes, and commands that users ran with their output."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from lab.diagnose.facts import ARROW, ArpProbe, FailedJob, GaveUp, Ran, StartedTransfer, Swept, SweptPair
from lab.errors import UsageError
from lab.model.hosts import parse_pair
from lab.telemetry.read.recorded_jobs import recorded_jobs
from lab.telemetry.read.recorded_requests import recorded_requests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.diagnose.facts import WindowFacts
    from lab.telemetry.read.recorded_jobs import RecordedJob
    from lab.telemetry.read.recording import Recording
    from lab.telemetry.read.series import RecordingPhase

_NS: Final = 10**9
_SENT: Final = "sent_pkts"
"""The counter of an RDMA device that grows with each packet, also with one that is sent again."""


def commands_run(recording: Recording, window: RecordingPhase) -> Iterator[Ran]:
    """Yield the commands that users ran within the window."""
    for command in recording.commands:
        if window.start <= command.ns and command.end_ns <= window.end:
            seconds = (command.ns - recording.clock.start) / _NS
            yield Ran(
                seconds=seconds,
                node=command.node,
                argv=command.argv,
                exit_code=command.exit_code,
                printed=command.stdout,
            )


def swept_paths(recording: Recording, window: RecordingPhase) -> Iterator[Swept]:
    """Yield the results of path sweeps, one for each path."""
    for event in recording.events(source="caller", kind="note", during=window):
        if event.data.get("text") == "swept":
            (sent, came), (large_sent, large_came) = event.data["small"], event.data["large"]
            first, *others = map(str, event.data["path"])
            port, size = int(event.data["port"]), int(event.data["size"])
            yield Swept(
                seconds=event.seconds,
                path=(first, *others),
                port=port,
                size=size,
                sent=int(sent),
                came=int(came),
                large_sent=int(large_sent),
                large_came=int(large_came),
                delay=_seconds(event.data.get("delay")),
            )


def swept_pairs(recording: Recording, window: RecordingPhase) -> Iterator[SweptPair]:
    """Yield the results of sweeps between NICs, one for each direction of a pair."""
    for event in recording.events(source="caller", kind="note", during=window):
        if event.data.get("text") == "swept pairs":
            for src, dst, sent, came, delay in event.data["pairs"]:
                yield SweptPair(
                    seconds=event.seconds, src=str(src), dst=str(dst), sent=int(sent), came=int(came),
                    delay=_seconds(delay),
                )  # fmt: skip


def _seconds(ns: Any) -> float | None:
    return None if ns is None else int(ns) / _NS


def arp_probes(recording: Recording, window: RecordingPhase) -> Iterator[ArpProbe]:
    """Yield the ARP probes, each with the MACs that answered."""
    for event in recording.events(source="caller", kind="note", during=window):
        if event.data.get("text") == "asked":
            port, macs = f"{event.node}:{event.data['port']}", frozenset(map(str, event.data["answers"]))
            yield ArpProbe(seconds=event.seconds, port=port, address=str(event.data["address"]), macs=macs)


def failed_transfers(recording: Recording, window: RecordingPhase) -> Iterator[GaveUp]:
    """Yield the transfers that failed in the window, or in or before it if that was only noticed after it.

    A transfer that is not awaited fails with its last packet.
    """
    for event in recording.events(source="caller", kind="note"):
        if event.ns < window.start or event.data.get("text") != "gave up" or "pair" not in event.data:
            continue
        pair = str(event.data["pair"])
        failed = event.ns if event.ns <= window.end else _last_packet(recording, pair, event.ns)
        if failed is not None and failed <= window.end:
            yield GaveUp((failed - recording.clock.start) / _NS, pair, str(event.data["said"]))


def _last_packet(recording: Recording, pair: str, until: int) -> int | None:
    """Return when the NICs of a pair ``h1 -> h4`` sent their last packet before a time; None if they sent none."""
    names = pair.split(ARROW)
    sent = [
        recording.rdma(nic).counter(_SENT).between(recording.clock.start, until)
        for nic in recording.devices
        if {nic, nic.partition(":")[0]} & {*names} and _SENT in recording.rdma(nic).counters
    ]
    grown = [int(each.ns[1:][each.values[1:] > each.values[:-1]][-1]) for each in sent if each.delta()]
    return max(grown, default=None) if len(names) > 1 else None


def failed_jobs(recording: Recording, window: RecordingPhase) -> Iterator[FailedJob]:
    """Yield the training jobs that ended with an error."""
    for event in recording.events(source="caller", kind="note", during=window):
        if event.data.get("text") == "job failed":
            mtu = event.data.get("mtu")
            yield FailedJob(
                seconds=event.seconds, job=str(event.data["job"]), nics=tuple(map(str, event.data["nics"])),
                mtu=None if mtu is None else int(mtu), said=str(event.data["said"]),
            )  # fmt: skip


def jobs_with_steps(recording: Recording, window: RecordingPhase) -> Iterator[RecordedJob]:
    """Yield the training jobs, each with the steps that ended in the window; without such steps it is left out."""
    for job in recorded_jobs(recording):
        if steps := tuple(each for each in job.steps if window.start <= each.end <= window.end):
            yield replace(job, steps=steps)


def started_transfers(recording: Recording, window: RecordingPhase, facts: WindowFacts) -> Iterator[StartedTransfer]:
    """Yield the last transfer of each pair before the end of the window, if its sender sends or has packets queued.

    Those that a scenario announces are known from their start, others, such as those of ``rdma bw``, when they have
    ended. A transfer with a recorded GID index is yielded in any case.
    """
    latest: dict[tuple[str, str], StartedTransfer] = {}
    for event in recording.events(source="caller", kind="note"):
        if event.ns <= window.end and event.data.get("text") == "traffic":
            for pair in event.data.get("pairs", ()):
                src, dst = (_nic(recording, facts, name) for name in _ends(str(pair)))
                index = event.data.get("gid_index")
                made = StartedTransfer(
                    src=src,
                    dst=dst,
                    qps=int(event.data.get("qps", 1)),
                    gid_index=None if index is None else int(index),
                )
                latest[src, dst] = made
    for each in recording.transfers():
        if each.ns <= window.end and each.end_ns >= window.start:
            ends = (each.dst, each.src) if each.verb == "read" else (each.src, each.dst)
            src, dst = (_nic(recording, facts, name) for name in ends)
            latest.setdefault((src, dst), StartedTransfer(src=src, dst=dst, qps=each.qps))
    of_jobs = (_of_job(job) for job in facts.jobs)
    for made in chain(_requested(recording, window), *of_jobs):
        latest.setdefault((made.src, made.dst), made)
    for transfer in latest.values():
        lanes = [lane for port in facts.links_of(transfer.src) for lane in facts.by_port.get(port.name, ())]
        if transfer.gid_index is not None or any(lane.tx_bytes > 10_000 or lane.deepest > 10_000 for lane in lanes):
            yield transfer


def _requested(recording: Recording, window: RecordingPhase) -> Iterator[StartedTransfer]:
    """Yield the transfers whose requests moved data in the window; each has one QP to each of its targets."""
    for transfer in recorded_requests(recording):
        for each in transfer.requests:
            if each.begin <= window.end and each.end >= window.start:
                src, dst = (each.nic, each.target_nic) if each.verb == "write" else (each.target_nic, each.nic)
                yield StartedTransfer(src=src, dst=dst, qps=1)


def _of_job(job: RecordedJob) -> Iterator[StartedTransfer]:
    """Yield a transfer for each pair of NICs that QPs of a job connect; QPs of one UDP source port are one flow."""
    nics = {each.rank: f"{each.node}:{each.interface}" for each in job.ranks}
    known = job.about.qps if job.about else ()
    flows = {(nics.get(qp.rank), nics.get(qp.peer_rank), qp.source_port) for qp in known}
    pairs = Counter((src, dst) for src, dst, _ in flows)
    for (src, dst), qps in sorted(pairs.items(), key=str):
        if src is not None and dst is not None:
            yield StartedTransfer(src=src, dst=dst, qps=qps)


def _ends(pair: str) -> tuple[str, str]:
    """Return the two ends of a recorded pair. Raises ValueError if it is damaged."""
    try:
        return parse_pair(pair)
    except UsageError as error:
        raise ValueError(error.message) from error


def _nic(recording: Recording, facts: WindowFacts, name: str) -> str:
    """Return ``h1:eth2`` itself, or for ``h1`` its first NIC, in the order of ``lab.rdma.nic_choice``."""
    cabled = (port.name for port in facts.ports_of(name) if port.peer)
    known = (*(nic for nic in recording.devices if nic in facts.addresses), *recording.devices, *cabled)
    return name if ":" in name else next((nic for nic in known if nic.partition(":")[0] == name), name)
