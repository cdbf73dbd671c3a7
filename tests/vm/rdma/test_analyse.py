"""What the analyser counts in a lossy run is what rxe itself counted at both ends, and what tshark's columns say.

        h1 == router == h2       every link loses packets, of requests as of answers; both hosts write at once

A link shows what its host sent and received, so that each device has a witness of its own.
"""

from __future__ import annotations

import io
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from lab.analysis.results.fact_builder import analyse
from lab.kernel.netlink.interfaces import interfaces
from lab.kernel.packets.live_capture import LiveCapture, Point
from lab.rdma import device_counters
from lab.rdma.measure import BandwidthTest
from lab.rdma.perftest import measure_bandwidth
from lab.wire.pcapng import Writer
from tests.unit.wire.opinions import ask_tshark
from tests.vm.conftest import RATE, Path

if TYPE_CHECKING:
    from pathlib import Path as File

    from lab.analysis.results.analysis_facts import AnalysisFacts, FlowFacts

pytestmark = pytest.mark.vm

ADDRESS: Final = {"h1": "10.9.0.1", "h2": "10.9.0.3"}
SNAPLEN: Final = 128
ITERATIONS: Final = 200
SIZE: Final = 16384
REQUESTED: Final = 2 * 100 * ITERATIONS
"""Bytes that are requests in part at least: twice what the answers to a whole measurement and its words take."""
ACKNOWLEDGE: Final = 0x11
NAK_SEQUENCE_ERROR: Final = 0x60
MODULUS: Final = 2**24


class Run(NamedTuple):
    """A measurement: the file of it, the facts in it, and by host what its device counted meanwhile."""

    file: File
    facts: AnalysisFacts
    moved: dict[str, dict[str, int]]

    def flows(self, host: str, **which: str) -> list[FlowFacts]:
        """What the link of ``host`` saw, of those with these attributes."""
        seen = [flow for flow in self.facts.flows if flow.link == f"{host}:eth1"]
        return [flow for flow in seen if all(getattr(flow, name) == value for name, value in which.items())]


class Losing:
    """Makes the router lose 3% both ways once both hosts have received requests of a measurement.

    Where a queue pair's very first packet was lost before, nobody sees that the next ones came too early. A host
    that has received packets may have received answers alone: its own queue pair can be that much ahead.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._before = self._received()
        self._begun = False

    def _received(self) -> list[int]:
        return [interfaces(host)["eth1"].rx_bytes for host in (self._path.a, self._path.b)]

    def __call__(self, *_: object) -> None:
        """Progress of the measurement."""
        arrived = all(now >= then + REQUESTED for now, then in zip(self._received(), self._before, strict=True))
        if arrived and not self._begun:
            self._begun = True
            for interface in ("swp1", "swp2"):
                words = ["netem", "limit", "4000", "rate", f"{RATE}bit", "loss", "3%"]
                self._path.router.run(["tc", "qdisc", "change", "dev", interface, "root", *words])


@pytest.fixture(scope="module")
def lossy(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    built.shape()
    devices = {host: built.device(host) for host in ADDRESS}
    before = device_counters.snapshot(devices.values())
    points = [Point(built.a, "eth1", "h1:eth1", RATE), Point(built.b, "eth1", "h2:eth1", RATE)]
    output = io.BytesIO()
    with LiveCapture(points, Writer(output), snaplen=SNAPLEN) as capture:
        capture.start()
        test = BandwidthTest(duration=None, iterations=ITERATIONS, size=SIZE, tx_depth=8)
        measure_bandwidth([built.pair, built.back], test, progress=Losing(built))
        assert [count.dropped for count in capture.stop()] == [0, 0]
    file = tmp_path_factory.mktemp("lossy") / "lossy.pcapng"
    file.write_bytes(output.getvalue())
    with file.open("rb") as stream:
        facts = analyse(stream, file.name)
    after = device_counters.snapshot(devices.values())
    return Run(file, facts, {host: device_counters.moved(before[it], after[it]) for host, it in devices.items()})


@pytest.mark.parametrize("host", ADDRESS)
def test_counts_are_those_of_the_device(lossy: Run, host: str) -> None:
    sent, received = lossy.flows(host, src=ADDRESS[host]), lossy.flows(host, dst=ADDRESS[host])
    moved = lossy.moved[host]
    assert sum(flow.packets for flow in sent) == moved["sent_pkts"]
    assert sum(flow.packets for flow in received) == moved["rcvd_pkts"]
    assert sum(flow.answers.get("PSN Sequence Error", 0) for flow in sent) == moved["out_of_seq_request"] > 0
    assert sum(flow.duplicates for flow in received) == moved.get("duplicate_request", 0)
    assert sum(flow.go_back_n for flow in sent) == moved["completer_retry_err"]
    # rxe leaves out a NAK for the very PSN that it waits for.
    assert sum(flow.answers.get("PSN Sequence Error", 0) for flow in received) >= moved["rcvd_seq_err"] > 0


def test_what_one_end_sent_and_the_other_did_not_get_was_lost(lossy: Run) -> None:
    for near, far in (("h1", "h2"), ("h2", "h1")):
        sent = sum(flow.packets for flow in lossy.flows(near, src=ADDRESS[near]))
        received = sum(flow.packets for flow in lossy.flows(far, src=ADDRESS[near]))
        assert 0 < sent - received == lossy.moved[near]["sent_pkts"] - lossy.moved[far]["rcvd_pkts"]


class Responder:
    """A queue pair that expects one PSN after the other (IBA vol. 1 section 9.7.3), as simple as can be."""

    def __init__(self) -> None:
        self.expected: int | None = None
        self.previous = 0
        self.counts: Counter[str] = Counter()

    def request(self, psn: int) -> None:
        """Count what became of it, and steps back."""
        self.counts["packets"] += 1
        if self.expected is not None:
            ahead = (psn - self.expected + MODULUS // 2) % MODULUS - MODULUS // 2
            self.counts["out_of_sequence"] += ahead > 0
            self.counts["duplicates"] += ahead < 0
            self.counts["go_back_n"] += (psn - self.previous) % MODULUS > MODULUS // 2 or psn == self.previous
        if self.expected in {None, psn}:
            self.expected = (psn + 1) % MODULUS
        self.previous = psn


def tsharks_view(file: File) -> dict[tuple[str, str, int], Counter[str]]:
    """Counts by link, sender and queue pair, from columns that tshark printed."""
    names = ("bth.destqp", "bth.opcode", "bth.psn", "aeth.syndrome")
    rows = ask_tshark(file, "frame.interface_name", "ip.src", *(f"infiniband.{name}" for name in names))
    responders: defaultdict[tuple[str, str, int], Responder] = defaultdict(Responder)
    for link, src, destqp, opcode, psn, syndrome in rows:
        if not destqp:
            continue
        responder = responders[link, src, int(destqp, 0)]
        if int(opcode, 0) == ACKNOWLEDGE:
            responder.counts["packets"] += 1
            responder.counts["naks"] += int(syndrome, 0) == NAK_SEQUENCE_ERROR
        else:
            responder.request(int(psn, 0))
    return {key: responder.counts for key, responder in responders.items()}


def test_counts_are_those_of_tshark(lossy: Run) -> None:
    told: dict[tuple[str, str, int], Any] = tsharks_view(lossy.file)
    assert {(flow.link, flow.src, flow.qp) for flow in lossy.facts.flows} == told.keys()
    for flow in lossy.facts.flows:
        counts = told[flow.link, flow.src, flow.qp]
        assert flow.packets == counts["packets"]
        assert flow.answers.get("PSN Sequence Error", 0) == counts["naks"]
        assert flow.out_of_sequence == counts["out_of_sequence"]
        assert flow.duplicates == counts["duplicates"]
        assert flow.go_back_n == counts["go_back_n"]
