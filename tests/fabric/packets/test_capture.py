"""Captures of real interfaces, against what was sent, ping's own count, and Wireshark's tools."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import signal
import socket
import subprocess
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from lab.analysis.read.records import Reader
from lab.errors import OperationFailed
from lab.kernel.packets.live_capture import LinkCount, LiveCapture, Point
from lab.kernel.process import netns
from lab.kernel.process.netns import Namespace
from lab.kernel.process.process import find_tool, run
from lab.rdma.sysfs import until
from lab.wire.craft import build
from lab.wire.filter.parse import parse
from lab.wire.frame import Icrc, decode
from lab.wire.headers import Aeth, Reth
from lab.wire.opcodes import Opcode
from lab.wire.pcapng import Direction, Record, Writer
from lab.wire.syndrome import Syndrome
from lab.wire.udp_ports import ROCEV2_PORT
from tests.fabric.frames import THERE, numbered, send, write
from tests.inside import entered
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.fabric

LEFT, RIGHT = Namespace(f"rltest-left-{os.getpid()}"), Namespace(f"rltest-right-{os.getpid()}")
MTU = 9000


@pytest.fixture(scope="module")
def veth() -> Iterator[None]:
    """LEFT eth1 10.9.0.1 -- 10.9.0.2 eth1 RIGHT, without IPv6, so that nothing is sent but what a test sends."""
    netns.create([LEFT.name, RIGHT.name])
    LEFT.run(["ip", "link", "add", "eth1", "type", "veth", "peer", "name", "eth1", "netns", RIGHT.name])
    for namespace, address, peer in ((LEFT, 1, 2), (RIGHT, 2, 1)):
        namespace.run(["sysctl", "-qw", "net.ipv6.conf.eth1.disable_ipv6=1"])
        namespace.run(["ip", "link", "set", "eth1", "address", f"02:00:00:00:00:0{address}", "mtu", str(MTU), "up"])
        namespace.run(["ip", "address", "add", f"10.9.0.{address}/24", "dev", "eth1"])
        namespace.run(
            ["ip", "neighbour", "add", f"10.9.0.{peer}", "lladdr", f"02:00:00:00:00:0{peer}", "dev", "eth1"]
        )
    yield
    netns.delete([LEFT.name, RIGHT.name])


def point(namespace: Namespace) -> Point:
    return Point(namespace, "eth1", "left:eth1" if namespace is LEFT else "right:eth1", 10**9)


def rocev2_port(namespace: Namespace) -> socket.socket:
    """A socket that takes what comes to UDP 4791, so that the stack does not answer with ICMP."""
    with entered(namespace):
        taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    taken.bind(("", ROCEV2_PORT))
    return taken


class Captured:
    """The capture of a test: the counts, and the file read back."""

    def __init__(self, counts: tuple[LinkCount, ...], data: bytes) -> None:
        self.counts = counts
        self.reader = Reader(io.BytesIO(data), "captured")
        self.records: list[Record] = list(self.reader)

    def frames(self, interface: int = 0) -> list[bytes]:
        return [bytes(record.data) for record in self.records if record.interface == interface]


def ping(count: int) -> tuple[int, int]:
    """Ping RIGHT from LEFT; what ping says it sent and received."""
    text = LEFT.run([find_tool("ping", "iputils-ping"), "-c", str(count), "-i", "0.005", "10.9.0.2"]).stdout
    sent, received = text.split("statistics ---")[1].split(" packets transmitted, ")
    return int(sent.split()[-1]), int(received.split()[0])


@pytest.mark.usefixtures("veth")
def test_a_ping_is_there_both_ways_and_once(tmp_path: Path) -> None:
    file = tmp_path / "ping.pcapng"
    with file.open("wb", buffering=0) as output, LiveCapture([point(LEFT)], Writer(output)) as capture:
        capture.start()
        sent, received = ping(50)
        (count,) = capture.stop()
    assert (sent, received) == (50, 50)
    assert count == LinkCount("left:eth1", packets=100, bytes=100 * 98, dropped=0)
    fields = ("frame.interface_name", "frame.packet_flags_direction", "icmp.type", "icmp.seq")
    wanted = [word for field in fields for word in ("-e", field)]
    rows = run([find_tool("tshark", "tshark"), "-n", "-r", file, "-T", "fields", *wanted]).stdout.splitlines()
    assert Counter(rows) == Counter(
        f"left:eth1\t{direction:#010x}\t{kind}\t{number}"
        for kind, direction in ((8, Direction.OUTBOUND), (0, Direction.INBOUND))
        for number in range(1, 51)
    )


@pytest.mark.usefixtures("veth")
def test_both_ends_see_the_same_in_order_of_time() -> None:
    output = io.BytesIO()
    with LiveCapture([point(LEFT), point(RIGHT)], Writer(output)) as capture:
        capture.start()
        ping(100)
        counts = capture.stop()
    captured = Captured(counts, output.getvalue())
    assert [count.packets for count in counts] == [200, 200]
    assert Counter(captured.frames(0)) == Counter(captured.frames(1))
    times = [record.timestamp for record in captured.records]
    assert times == sorted(times)
    assert captured.reader.statistics[0].received == 200


@pytest.mark.usefixtures("veth")
def test_a_rocev2_exchange_arrives_unchanged_and_tshark_sees_it(tmp_path: Path) -> None:
    back = build.Path("02:00:00:00:00:02", "02:00:00:00:00:01", "10.9.0.2", "10.9.0.1")
    reth = Reth(va=0x1000, rkey=0x22, dmalen=4096)
    write = build.rocev2(
        THERE, build.RoceMessage(Opcode.RC_RDMA_WRITE_ONLY, 0x11, 7, ackreq=True, reth=reth, payload=bytes(4096))
    )
    ack = build.rocev2(back, build.RoceMessage(Opcode.RC_ACKNOWLEDGE, 0x12, 7, aeth=Aeth(Syndrome.decode(0x1F), 1)))
    file = tmp_path / "exchange.pcapng"
    with (
        rocev2_port(LEFT),
        rocev2_port(RIGHT),
        file.open("wb", buffering=0) as output,
        LiveCapture([point(LEFT)], Writer(output)) as capture,
    ):
        send(LEFT, write)
        send(RIGHT, ack)
        counts = capture.run(seconds=0)
    captured = Captured(counts, file.read_bytes())
    assert captured.frames() == [write, ack]
    assert [decode(frame).icrc for frame in captured.frames()] == [Icrc.OK, Icrc.OK]
    wanted = ["-e", "infiniband.bth.opcode", "-e", "infiniband.bth.psn"]
    told = run([find_tool("tshark", "tshark"), "-n", "-r", file, "-T", "fields", *wanted]).stdout
    assert told.splitlines() == ["10\t7", "17\t7"]


@pytest.mark.usefixtures("veth")
def test_listens_from_the_moment_it_is_entered_and_not_before() -> None:
    output = io.BytesIO()
    capture = LiveCapture([point(RIGHT)], Writer(output))
    send(LEFT, numbered(1))
    with capture:
        send(LEFT, numbered(2))
        counts = capture.run(seconds=0)
    send(LEFT, numbered(3))
    assert Captured(counts, output.getvalue()).frames() == [numbered(2)]


@pytest.mark.usefixtures("veth")
@pytest.mark.parametrize("tpid", ["8100", "88a8"])
def test_a_vlan_tag_is_where_it_was_on_the_wire(tpid: str) -> None:
    tagged = bytes.fromhex("020000000002020000000001" + tpid + "6064" + "88b5") + bytes(60)
    output = io.BytesIO()
    with LiveCapture([point(RIGHT)], Writer(output)) as capture:
        send(LEFT, tagged)
        counts = capture.run(packets=1, seconds=10)
    captured = Captured(counts, output.getvalue())
    assert captured.frames() == [tagged]
    assert captured.records[0].length == len(tagged)
    assert (decode(tagged).vlan, decode(tagged).pcp) == (100, 3)


def tagged(frame: bytes, tag: str = "81000064") -> bytes:
    return frame[:12] + bytes.fromhex(tag) + frame[12:]


@pytest.mark.usefixtures("veth")
@pytest.mark.parametrize("side", [LEFT, RIGHT], ids=["outbound", "inbound"])
def test_the_kernel_filters_plain_tagged_and_tunnelled_packets(side: Namespace) -> None:
    wanted = [write(0x11, psn) for psn in range(5)] + [tagged(write(0x11, 5)), build.vxlan(THERE, 10, write(0x11, 6))]
    others = [numbered(1), write(0x12, 1), tagged(write(0x12, 1)), build.vxlan(THERE, 10, write(0x12, 1))]
    output = io.BytesIO()
    with (
        rocev2_port(RIGHT),
        LiveCapture([point(side)], Writer(output), wanted=parse("qpn==0x11 and psn<7")) as capture,
    ):
        send(LEFT, *[frame for pair in zip(wanted, others * 2, strict=False) for frame in pair])
        counts = capture.run(seconds=0)
    captured = Captured(counts, output.getvalue())
    assert captured.frames() == wanted
    # The kernel counts what its program let through: no other packet ever came to the ring.
    assert captured.reader.statistics[0].received == len(wanted)


@pytest.mark.usefixtures("veth")
def test_what_the_kernel_is_unsure_of_is_sorted_out_behind_it() -> None:
    nested = [build.vxlan(THERE, 10, build.vxlan(THERE, 11, write(qpn, 1, 600))) for qpn in (0x11, 0x12)]
    output = io.BytesIO()
    with LiveCapture([point(RIGHT)], Writer(output), snaplen=64, wanted=parse("qpn==0x11")) as capture:
        send(LEFT, *nested)
        counts = capture.run(seconds=0)
    captured = Captured(counts, output.getvalue())
    assert captured.frames() == [nested[0][:64]]
    assert captured.records[0].length == len(nested[0])
    assert (counts[0].packets, captured.reader.statistics[0].received) == (1, 2)


@pytest.mark.usefixtures("veth")
def test_snaplen_keeps_the_head_and_the_true_length() -> None:
    output = io.BytesIO()
    with LiveCapture([point(RIGHT)], Writer(output), snaplen=64) as capture:
        send(LEFT, numbered(1, size=1500))
        counts = capture.run(packets=1, seconds=10)
    (record,) = Captured(counts, output.getvalue()).records
    assert (record.data, record.length) == (numbered(1, size=1500)[:64], 1500)


@pytest.mark.usefixtures("veth")
def test_stops_after_exactly_so_many_packets_the_first_ones() -> None:
    output = io.BytesIO()
    with LiveCapture([point(RIGHT)], Writer(output)) as capture:
        send(LEFT, *map(numbered, range(30)))
        counts = capture.run(packets=10, seconds=10)
    assert Captured(counts, output.getvalue()).frames() == [numbered(number) for number in range(10)]


@pytest.mark.usefixtures("veth")
def test_stops_after_so_many_seconds() -> None:
    with LiveCapture([point(RIGHT)], Writer(io.BytesIO())) as capture:
        began = time.monotonic()
        capture.run(seconds=0.3)
    assert time.monotonic() - began >= 0.3


@pytest.mark.usefixtures("veth")
def test_what_the_ring_cannot_hold_is_counted() -> None:
    frames = [numbered(number, size=MTU) for number in range(5000)]  # 45 MB into a ring of 32 MiB that nobody reads
    output = io.BytesIO()
    with LiveCapture([point(RIGHT)], Writer(output)) as capture:
        send(LEFT, *frames)
        (count,) = capture.run(seconds=0)
    captured = Captured((count,), output.getvalue())
    assert count.dropped > 0
    assert count.packets + count.dropped == len(frames)
    assert captured.frames() == frames[: count.packets]
    statistics = captured.reader.statistics[0]
    assert (statistics.received, statistics.dropped) == (len(frames), count.dropped)


BLOCKS, BLOCK, SIZE = 24, 1500, 1500
STORED = SIZE + 32
"""Bytes of a packet in a file: an Enhanced Packet Block without options."""


def holds(file: Path, packets: int) -> bool:
    """Whether so many packets are in a file."""
    return file.stat().st_size >= packets * STORED


@pytest.mark.usefixtures("veth")
def test_it_keeps_what_dumpcap_keeps_of_the_same_packets(tmp_path: Path) -> None:
    """Side by side with rings of as many bytes. The sender waits for dumpcap, so that dumpcap loses none."""
    ours, theirs = tmp_path / "ours.pcapng", tmp_path / "theirs.pcapng"
    frames = [numbered(number, size=SIZE) for number in range(BLOCKS * BLOCK)]  # 54 MB, more than a ring holds
    words: list[str | Path] = [find_tool("dumpcap", "wireshark-common"), "-q", "-i", "eth1", "-B", "32", "-w", theirs]
    with (
        RIGHT.start(words, stderr=subprocess.PIPE) as dumping,
        ours.open("wb", buffering=0) as output,
        LiveCapture([point(RIGHT)], Writer(output)) as capture,
    ):
        assert dumping.stderr is not None
        while not dumping.stderr.readline().startswith("File:"):  # it listens from here on
            assert dumping.poll() is None
        capture.start()
        for first in range(0, len(frames), BLOCK):
            send(LEFT, *frames[first : first + BLOCK])
            assert until(functools.partial(holds, theirs, first + BLOCK), timeout=PATIENCE)
        (count,) = capture.stop()
        dumping.send_signal(signal.SIGINT)
        dumping.communicate(timeout=PATIENCE)
    kept = Reader(io.BytesIO(theirs.read_bytes()), "theirs")
    assert [bytes(record.data) for record in kept] == frames
    assert (kept.statistics[0].received, kept.statistics[0].dropped) == (len(frames), 0)
    assert (count.packets, count.dropped) == (len(frames), 0)
    assert Captured((count,), ours.read_bytes()).frames() == frames


@pytest.mark.usefixtures("veth")
def test_a_ring_that_fills_up_is_urgent_and_an_empty_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """A nice value counts within a session only, and would not do beside programs that take every processor."""
    policies: list[int] = []
    write_blocks = Writer.write_blocks

    def written(writer: Writer, blocks: bytes | memoryview) -> None:
        policies.append(os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK)
        write_blocks(writer, blocks)

    monkeypatch.setattr(Writer, "write_blocks", written)
    for count, wanted in ((2000, os.SCHED_RR), (1, os.SCHED_OTHER)):
        policies.clear()
        with LiveCapture([point(RIGHT)], Writer(io.BytesIO())) as capture:
            send(LEFT, *(numbered(number, size=MTU) for number in range(count)))
            (counted,) = capture.run(seconds=0)
        assert (counted.packets, counted.dropped) == (count, 0)
        assert policies[0] == wanted
        assert os.sched_getscheduler(0) == os.SCHED_OTHER


@pytest.mark.usefixtures("veth")
def test_an_interface_that_is_not_there_is_named() -> None:
    missing = Point(LEFT, "swp9", "left:swp9")
    with pytest.raises(OperationFailed, match=f"cannot capture on swp9 in namespace {LEFT.name}: No such device"):
        LiveCapture([missing], Writer(io.BytesIO())).__enter__()


@pytest.mark.usefixtures("veth")
def test_outlives_the_interface() -> None:
    LEFT.run(["ip", "link", "add", "gone0", "type", "veth", "peer", "name", "gone1"])
    LEFT.run(["ip", "link", "set", "gone0", "up"])
    output = io.BytesIO()
    with LiveCapture([Point(LEFT, "gone0", "left:gone0"), point(LEFT)], Writer(output)) as capture:
        capture.start()
        LEFT.run(["ip", "link", "del", "gone0"])
        send(RIGHT, numbered(1))
        counts = capture.stop()
    assert Captured(counts, output.getvalue()).frames(1) == [numbered(1)]


def test_ends_when_the_namespace_is_taken_down() -> None:
    short = Namespace(f"rltest-short-{os.getpid()}")
    netns.create([short.name])
    short.run(["ip", "link", "set", "lo", "up"])
    output = io.BytesIO()
    with LiveCapture([Point(short, "lo", "short:lo")], Writer(output)) as capture:
        netns.delete([short.name])
        counts = capture.run(seconds=30)
    assert counts == (LinkCount("short:lo", 0, 0, 0),)
    assert 0 in Captured(counts, output.getvalue()).reader.statistics


@pytest.mark.usefixtures("veth")
@pytest.mark.parametrize("soon", [True, False])
def test_a_write_that_fails_ends_a_background_capture_with_the_reason(soon: bool) -> None:
    broken, output = os.pipe()
    with os.fdopen(output, "wb", buffering=0) as pipe, LiveCapture([point(LEFT)], Writer(pipe)) as capture:
        os.close(broken)
        capture.start()
        send(LEFT, numbered(1))
        if not soon:
            assert capture._thread is not None
            capture._thread.join(30)  # the write fails long before anybody asks
        with pytest.raises(OperationFailed, match="cannot write the capture: Broken pipe"):
            capture.stop()


@pytest.mark.usefixtures("veth")
def test_reads_the_statistics_that_dumpcap_writes(tmp_path: Path) -> None:
    file = tmp_path / "theirs.pcapng"
    command: list[str | Path] = [find_tool("dumpcap", "wireshark-common"), "-q", "-i", "eth1", "-c", "5", "-w", file]
    dumping = LEFT.start(command)
    while dumping.poll() is None:  # it does not say when it listens
        send(RIGHT, numbered(1))
        with contextlib.suppress(subprocess.TimeoutExpired):  # what fills its buffer meanwhile counts as dropped
            dumping.wait(0.05)
    assert dumping.returncode == 0
    reader = Reader(io.BytesIO(file.read_bytes()), "theirs")
    assert [record.data for record in reader] == [numbered(1)] * 5
    assert (reader.statistics[0].received, reader.statistics[0].dropped) == (5, 0)
