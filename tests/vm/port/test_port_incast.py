"""The promise: ib_write_bw from many hosts to one loses nothing with PFC, and loses packets without it.

The judges are rxe's own counters, tc, tshark and arithmetic; what the port counted must agree with all of them.
"""

from __future__ import annotations

import csv
import io
import json
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.analysis.read.records import Reader
from lab.analysis.results.fact_builder import analyse
from lab.dataplane.port_layout import Drop, EventKind
from lab.kernel.packets.live_capture import LiveCapture, Point
from lab.kernel.process import time_source
from lab.model.qos.headroom import PFC_FRAME, headroom_needed
from lab.rdma import device_counters
from lab.rdma.measure import BandwidthTest, Pair
from lab.rdma.perftest import measure_bandwidth
from lab.wire.pcapng import Direction, Record, Writer
from tests.inside import entered
from tests.vm.one_switch import OVERHEAD, SWITCH, Star, balanced, named, ports, settle, star
from tests.vm.rdma_switch import device, nic, with_rdma

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lab.analysis.results.analysis_facts import AnalysisFacts

pytestmark = [pytest.mark.vm, pytest.mark.timeout(600)]

RATE: Final = 40_000_000
MTU: Final = 4500
SENDERS: Final = 8
SINK: Final = "h9"
SINK_PORT: Final = "swp9"
DURATION: Final = 4
PRIORITY: Final = 3
LOSSY: Final = BandwidthTest(duration=2, size=4096, tx_depth=28, timeout=14)
"""Messages of one packet, 28 under way, and retries after 67 ms: bursts lose their tails, and no sender starves.

Four seconds with the margins are sixty timeouts.
"""
QUANTA: Final = 40_000
"""Of the pauses in a captured incast: not the default."""
ROOMY: Final = ("buffer.pool=8MB", "buffer.groups.3.xoff=60KB", "buffer.groups.3.xon=30KB")
"""Headroom stays what it is computed to be."""
_STAMPED_EARLY: Final = Path("/proc/sys/net/core/netdev_tstamp_prequeue")
DEEP: Final = ("buffer.groups.3.xoff=400KB", "buffer.groups.3.xon=300KB")
"""Four senders are let go again while there is 0.1 s to send at 100 Mb/s: a CPU's stall does not empty the queue."""


@pytest.fixture(scope="module")
def fabric() -> Iterator[Star]:
    """A switch with nine hosts that have RDMA devices."""
    with with_rdma(star(SENDERS + 1, f"{RATE}bit", MTU)) as built:
        yield built


def pairs(fabric: Star, senders: int) -> list[Pair]:
    """The first ``senders`` hosts write to the sink."""

    return [Pair(nic(fabric, f"h{number}"), nic(fabric, SINK)) for number in range(1, senders + 1)]


def trouble(before: Mapping[str, dict[str, int]]) -> dict[str, int]:
    """Counters of rxe that speak of a fault and have moved, of all hosts together."""
    found: dict[str, int] = {}
    for name, old in before.items():
        for counter, grown in device_counters.moved(old, device_counters.read(name)).items():
            if device_counters.meaning(counter).trouble:
                found[counter] = found.get(counter, 0) + grown
    return found


def devices(fabric: Star) -> dict[str, dict[str, int]]:
    return device_counters.snapshot([device(fabric, host) for host in fabric.namespaces if host != SWITCH])


@pytest.mark.parametrize(
    "senders", [pytest.param(2, marks=pytest.mark.long), pytest.param(4, marks=pytest.mark.long), 8]
)
def test_an_incast_pauses_the_senders_and_loses_nothing(fabric: Star, senders: int) -> None:
    fabric.configure(SWITCH, *ROOMY)
    before, old = devices(fabric), ports(fabric)
    results = measure_bandwidth(pairs(fabric, senders), BandwidthTest(duration=DURATION))
    settle(fabric)
    now = ports(fabric)
    assert trouble(before) == {}
    assert all((now[place]["queue"]["drop_packets"] == old[place]["queue"]["drop_packets"]).all() for place in now)
    assert all(balanced(port) for port in now.values())
    # The sink's link is full, all the time, and the senders share it.
    carried = sum(result.goodput_bps for result in results)
    assert carried == pytest.approx(RATE * 4096 / (4096 + 58 + OVERHEAD), rel=0.03)
    # PFC did it: what the switch sent is what the hosts received, and every XOFF was ended by an XON.
    for number in range(1, senders + 1):
        port = now[SWITCH, f"swp{number}"]["priority"][PRIORITY]
        past = old[SWITCH, f"swp{number}"]["priority"][PRIORITY]
        host, host_past = now[f"h{number}", "eth1"]["priority"], old[f"h{number}", "eth1"]["priority"]
        assert port["tx_pause"] > past["tx_pause"]
        assert port["tx_pause"] - past["tx_pause"] == host[PRIORITY]["rx_pause"] - host_past[PRIORITY]["rx_pause"]
        assert host[PRIORITY]["paused_ns"] > host_past[PRIORITY]["paused_ns"]
    groups = [port["group"][PRIORITY] for port in now.values()]
    assert all(group["xoff"] == group["xon"] and not group["bytes"] for group in groups)
    assert now[SWITCH, SINK_PORT]["queue"][PRIORITY]["ecn_marked"] > 0
    # A PFC frame has 60 octets by the standard, and the kernel's own counts say that it had them on the wire.
    for interface in ("swp1", f"swp{senders}"):
        port = fabric.counters(SWITCH, interface)
        assert port["tx_pfc_bytes"] == PFC_FRAME * port["tx_pfc"] > 0
        sent = int(port["queue"]["sent_bytes"].sum()) + PFC_FRAME * int(port["tx_pfc"])
        said = fabric.namespaces[SWITCH].run(["ip", "-j", "-s", "link", "show", "dev", interface]).stdout
        (link,) = json.loads(said)
        assert link["stats64"]["tx"]["bytes"] == sent
        assert kernel_root(fabric, interface)["bytes"] == sent


@pytest.mark.long
@pytest.mark.parametrize("rate", [20_000_000, 100_000_000])
def test_writes_fill_a_port_to_its_rate(fabric: Star, rate: int) -> None:
    """By what the sink's interface received in four seconds: with FCS, preamble and gap, the rate."""
    fabric.configure(SWITCH, *ROOMY, *DEEP)
    fabric.maps.config["rate"][fabric.id(SWITCH, SINK_PORT)] = rate
    assert written(fabric) == pytest.approx(rate, rel=0.01)


def written(fabric: Star) -> float:
    """Bits per second on the wire to the sink while four hosts write to it."""
    seen: list[tuple[float, int]] = []

    def watch(stage: str, done: int, total: int) -> None:
        if stage == "measure" and 2 <= done < total - 1:
            seen.append(fabric.arrived(SINK))

    measure_bandwidth(pairs(fabric, 4), BandwidthTest(duration=6), progress=watch)
    (began, first), (ended, last) = seen[0], seen[-1]
    assert ended - began > 3
    return (last - first) * 8 / (ended - began)


@contextmanager
def stamped_when_taken() -> Iterator[None]:
    """Captures say meanwhile when a packet left the receiver's backlog, and not when it was put there."""
    before = _STAMPED_EARLY.read_text(encoding="ascii")
    _STAMPED_EARLY.write_text("0", encoding="ascii")
    try:
        yield
    finally:
        _STAMPED_EARLY.write_text(before, encoding="ascii")


def longest_way(records: Iterable[Record]) -> float:
    """Seconds that a packet took at most from a host's port (interface 0) to the switch's (interface 1)."""
    sent: list[Record] = []
    came: list[Record] = []
    for record in records:
        if (record.interface, record.direction) in ((0, Direction.OUTBOUND), (1, Direction.INBOUND)):
            (came if record.interface else sent).append(record)
    assert [bytes(record.data) for record in sent] == [bytes(record.data) for record in came]
    return max(there.timestamp - here.timestamp for here, there in zip(sent, came, strict=True)) / 1e9


def longest_reaction(fabric: Star, host: str, since: int) -> float:
    """Seconds from an XOFF of the switch to the pause of a host, at most."""
    events = fabric.events(since)
    sent = named(events, EventKind.XOFF_SENT, fabric.id(SWITCH, host.replace("h", "swp")))
    heard = named(events, EventKind.PAUSED, fabric.id(host))
    return max(int(there["ns"]) - int(here["ns"]) for here, there in zip(sent, heard, strict=True)) / 1e9


def test_what_comes_after_xoff_is_no_more_than_the_formula_has(fabric: Star) -> None:
    """At every sender, for the time that it took: a packet to the switch, XOFF to the host, and its late shaper.

    And all hosts obey in the time that headroom allows them.
    """
    fabric.configure(SWITCH, *ROOMY)
    senders = {f"h{number}": f"swp{number}" for number in range(1, 5)}
    for port in senders.values():
        fabric.live(SWITCH, port)["group"]["headroom_watermark_bytes"] = 0
    ends = [end for host, port in senders.items() for end in ((host, "eth1"), (SWITCH, port))]
    points = [Point(fabric.namespaces[node], nic, f"{node}:{nic}", RATE) for node, nic in ends]
    since, output = fabric.event_count, io.BytesIO()
    with stamped_when_taken(), LiveCapture(points, Writer(output), snaplen=64) as capture:
        capture.start()
        measure_bandwidth(pairs(fabric, 4), BandwidthTest(duration=2))
        settle(fabric)
        assert not any(count.dropped for count in capture.stop())
    records = list(Reader(io.BytesIO(output.getvalue()), "senders"))
    for number, (host, port) in enumerate(senders.items()):
        own = [r._replace(interface=r.interface - 2 * number) for r in records if r.interface // 2 == number]
        late = int(fabric.live(host)["late_ns"]) / 1e9
        reaction = longest_reaction(fabric, host, since)
        assert 0 < reaction < time_source.reaction(), f"{host} in {reaction:.6f} s"
        took = longest_way(own) + reaction + late
        arrived = int(fabric.live(SWITCH, port)["group"]["headroom_watermark_bytes"][PRIORITY])
        assert 0 < arrived <= headroom_needed(RATE, MTU, 0, took), f"{host} in {took:.6f} s"


@dataclass(frozen=True)
class Incast:
    """An incast: its goodput in bit/s, rxe's counters that moved, and all ports before and after it."""

    goodput: float
    trouble: dict[str, int]
    before: dict[tuple[str, str], Any]
    after: dict[tuple[str, str], Any]

    @classmethod
    def run(cls, fabric: Star, senders: int, test: BandwidthTest) -> Incast:
        """Let the first ``senders`` hosts write to the sink, until nothing is under way."""
        counted, before = devices(fabric), ports(fabric)
        results = measure_bandwidth(pairs(fabric, senders), test)
        settle(fabric)
        return cls(sum(result.goodput_bps for result in results), trouble(counted), before, ports(fabric))


@pytest.fixture(scope="module")
def dropping(fabric: Star) -> Incast:
    """Four hosts write without PFC; a test that only needs drops uses the same run."""
    fabric.configure(SWITCH, "pfc.priorities=[]", "buffer.queues.3=60KB", "buffer.groups.3.alpha=8")
    ended = Incast.run(fabric, 4, LOSSY)
    fabric.configure(SWITCH)
    return ended


def test_the_same_without_pfc_drops_and_says_where(dropping: Incast) -> None:
    old, now = dropping.before, dropping.after
    assert dropping.trouble["out_of_seq_request"] > 0
    assert dropping.trouble["completer_retry_err"] > 0
    assert all(balanced(port) for port in now.values())
    dropped = {
        place: now[place]["queue"]["drop_packets"].sum(axis=0) - old[place]["queue"]["drop_packets"].sum(axis=0)
        for place in now
    }
    assert dropped.pop((SWITCH, SINK_PORT))[Drop.LIMIT] > 0
    assert not any(drops.sum() for drops in dropped.values())
    pauses = [port[SWITCH, "swp1"]["priority"][PRIORITY]["tx_pause"] for port in (old, now)]
    assert pauses[0] == pauses[1]
    assert dropping.goodput < RATE


@contextmanager
def capturing(fabric: Star, host: str, file: Path) -> Iterator[None]:
    """What a host receives by MAC control meanwhile, written by tcpdump."""
    argv = [
        "tcpdump",
        "-i",
        "eth1",
        "-Q",
        "in",
        "--immediate-mode",
        "-w",
        str(file),
        "-U",
        "ether",
        "proto",
        "0x8808",
    ]
    with entered(fabric.namespaces[host]):
        dump = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    assert dump.stderr is not None
    while "listening on" not in dump.stderr.readline():
        assert dump.poll() is None
    try:
        yield
    finally:
        dump.terminate()
        dump.communicate(timeout=30)


@dataclass(frozen=True)
class CapturedIncast:
    """An incast, the PFC frames that h1 received by tcpdump, and rocelab's capture at h1 and the sink."""

    incast: Incast
    pfc: Path
    facts: AnalysisFacts


@pytest.fixture(scope="module")
def captured(fabric: Star, tmp_path_factory: pytest.TempPathFactory) -> CapturedIncast:
    """Two hosts write, and two readers of captures use the same run."""
    fabric.configure(SWITCH, *ROOMY, f"pfc.quanta={QUANTA}")
    points = [Point(fabric.namespaces[host], "eth1", f"{host}:eth1", RATE) for host in ("h1", SINK)]
    file, output = tmp_path_factory.mktemp("captured") / "pfc.pcap", io.BytesIO()
    with (
        capturing(fabric, "h1", file),
        stamped_when_taken(),
        LiveCapture(points, Writer(output), snaplen=128) as capture,
    ):
        capture.start()
        incast = Incast.run(fabric, 2, BandwidthTest(duration=2))
        assert [count.dropped for count in capture.stop()] == [0, 0]
    return CapturedIncast(incast, file, analyse(io.BytesIO(output.getvalue()), "incast"))


def test_tshark_reads_every_pfc_frame_as_it_was_meant(fabric: Star, captured: CapturedIncast) -> None:
    """Class vector, quanta, addresses and length, and as many frames as were counted."""
    before, after = (
        counted[SWITCH, "swp1"]["priority"][PRIORITY] for counted in (captured.incast.before, captured.incast.after)
    )
    fields = ["eth.dst", "eth.src", "macc.opcode", "macc.cbfc.enbv", "macc.cbfc.pause_time.c3", "frame.len"]
    argv = [
        "tshark",
        "-r",
        str(captured.pfc),
        "-T",
        "fields",
        "-E",
        "separator=,",
        *(word for f in fields for word in ("-e", f)),
    ]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout
    rows = list(csv.reader(io.StringIO(said)))
    mac = fabric.plan[SWITCH].interfaces["swp1"].mac
    assert rows
    assert {tuple(row[:4]) for row in rows} == {("01:80:c2:00:00:01", mac, "0x0101", "0x0008")}
    assert {row[5] for row in rows} == {str(PFC_FRAME)}
    quanta = [int(row[4]) for row in rows]
    assert set(quanta) == {QUANTA, 0}
    assert quanta.count(QUANTA) == after["tx_pause"] - before["tx_pause"]
    assert quanta.count(0) == after["tx_resume"] - before["tx_resume"]


def test_the_analyser_finds_in_captures_what_the_ports_counted(captured: CapturedIncast) -> None:
    """Every mark that the sink received was made by some port; h1 received as many XOFFs and XONs as were counted."""
    old, now, facts = captured.incast.before, captured.incast.after, captured.facts
    made = sum(
        int(now[place]["queue"]["ecn_marked"].sum() - old[place]["queue"]["ecn_marked"].sum()) for place in now
    )
    assert sum(flow.marked for flow in facts.flows if flow.link == f"{SINK}:eth1") == made > 0
    (pause,) = facts.pauses
    before, after = (counted["h1", "eth1"]["priority"][PRIORITY] for counted in (old, now))
    grown = {name: int(after[name] - before[name]) for name in ("rx_pause", "rx_resume", "paused_ns")}
    assert (pause.link, pause.direction, pause.cls) == ("h1:eth1", "in", PRIORITY)
    assert (pause.xoff, pause.xon) == (grown["rx_pause"], grown["rx_resume"])
    assert pause.paused == pytest.approx(grown["paused_ns"] / 1e9, rel=0.05)


def kernel_root(fabric: Star, interface: str) -> dict[str, Any]:
    """What ``tc -s qdisc`` says of the root qdisc of one of the switch's ports."""
    said = fabric.namespaces[SWITCH].run(["tc", "-j", "-s", "qdisc", "show", "dev", interface]).stdout
    root: dict[str, Any] = next(qdisc for qdisc in json.loads(said) if qdisc.get("root"))
    return root


@pytest.mark.usefixtures("dropping")
def test_tc_counts_what_we_count(fabric: Star) -> None:
    """``tc -s qdisc`` has every byte and packet that a port sent, its PFC frames, and every drop."""
    for interface in (SINK_PORT, "swp1"):
        root = kernel_root(fabric, interface)
        port = fabric.counters(SWITCH, interface)
        queue = port["queue"]
        assert root["packets"] == queue["sent_packets"].sum() + port["tx_pfc"]
        assert root["bytes"] == queue["sent_bytes"].sum() + PFC_FRAME * port["tx_pfc"]
        assert root["drops"] == queue["drop_packets"].sum()
        assert (root["qlen"], root["backlog"]) == (queue["depth_packets"].sum(), queue["depth_bytes"].sum())
