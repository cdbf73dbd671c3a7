"""Losses that depend on size, and what routers and hosts report by ICMP."""

from __future__ import annotations

import struct
from ipaddress import ip_address
from typing import TYPE_CHECKING

import pytest

from lab.analysis.results.analysis_exit_code import verdict
from lab.errors import ExitCode
from lab.wire.opcodes import Opcode
from tests.unit.analysis import packets
from tests.unit.analysis.stories import MS, NAK, timed, told

if TYPE_CHECKING:
    from lab.analysis.results.analysis_facts import AnalysisFacts, CaptureFinding


def by_size(facts: AnalysisFacts) -> list[CaptureFinding]:
    return [found for found in facts.findings if "all of frames of" in found.what]


def by_read_size(facts: AnalysisFacts) -> list[CaptureFinding]:
    return [found for found in facts.findings if "all of responses to READs of" in found.what]


def small(count: int, size: int = 512) -> list[bytes]:
    """SENDs that arrive, each acknowledged."""
    return [frame for psn in range(count) for frame in (packets.send(psn, size), packets.ack(psn))]


def hole(psn: int, times: int, size: int = 2048) -> list[bytes]:
    """A packet of ``size`` that is lost each time, with a small one behind it that gets through and shows the gap."""
    first = packets.rocev2(packets.THERE, Opcode.RC_SEND_FIRST, packets.QP2, psn, size=size)
    last = packets.rocev2(packets.THERE, Opcode.RC_SEND_LAST, packets.QP2, psn + 1, ackreq=True, size=64)
    return [frame for _ in range(times) for frame in (first, last, packets.ack(psn, NAK))]


@pytest.mark.parametrize("size", [1024, 2048, 4096])
def test_only_large_packets_are_lost(size: int) -> None:
    facts = told([*small(5), *hole(5, 5, size)])
    (finding,) = by_size(facts)
    assert (
        f"4 losses, all of frames of {size + 58} bytes or more, while those of up to 570 bytes arrive" in finding.what
    )
    assert "MTU" in finding.meaning


def test_large_packets_that_only_a_timer_repeats_while_another_qp_is_answered() -> None:
    """Nothing small comes behind them, so no NAK either."""
    large = [(time * 100 * MS, 0, packets.send(9, 4096)) for time in range(1, 6)]
    others = [(time * 50 * MS + n * MS, 0, octets) for time in range(11)
              for n, octets in enumerate((packets.send(time, 256, qp=3), packets.ack(time, qp=2)))]  # fmt: skip
    assert by_size(timed(*sorted([*large, *others])))


def test_losses_of_all_sizes_are_no_matter_of_size() -> None:
    """The control: the same losses, but a large packet has arrived before."""
    large = [packets.send(5, 2048), packets.ack(5)]
    assert not by_size(told([*small(5), *large, *hole(6, 5, 2048)]))


def test_a_large_packet_that_arrives_in_the_end_was_not_too_large() -> None:
    assert not by_size(told([*small(5), *hole(5, 4)[:-1], packets.ack(6)]))


def test_small_packets_that_are_lost_are_no_matter_of_size() -> None:
    assert not by_size(told([*small(5, 2048), *hole(5, 5, 256)]))


def test_a_host_that_dies_when_large_packets_begin_is_not_called_an_mtu() -> None:
    dying = [(2 * MS * n, 0, frame) for n, frame in enumerate(small(5))]
    dying += [(time * 100 * MS, 0, packets.send(5, 4096)) for time in range(1, 6)]
    assert not by_size(timed(*dying))


def small_reads(count: int, size: int = 512) -> list[tuple[int, int, bytes]]:
    """READs of one packet each, all answered."""
    pairs = [(packets.read(psn, size), packets.response(psn, size)) for psn in range(count)]
    return [(psn * 1000 + n * 400, 0, frame) for psn, pair in enumerate(pairs) for n, frame in enumerate(pair)]


def again(*frames: bytes, times: int = 5) -> list[tuple[int, int, bytes]]:
    """The frames each time that a timer of 100 ms expires."""
    return [(time * 100 * MS + n * 1000, 0, frame) for time in range(1, times + 1) for n, frame in enumerate(frames)]


OTHER_QP = [(time * 50 * MS + n * 1000 + 500, 0, frame) for time in range(1, 11)
            for n, frame in enumerate((packets.send(time, 256, qp=3), packets.ack(time, qp=2)))]  # fmt: skip
LAST = packets.rocev2(
    packets.BACK, Opcode.RC_RDMA_READ_RESPONSE_LAST, packets.QP1, 9, packets.ack(9)[54:58], size=100
)


@pytest.mark.parametrize(
    ("frames", "beside"),
    [
        ([packets.read(5, 65536)], OTHER_QP),  # at the requester: no response arrives
        ([packets.read(5, 4 * 4096 + 100), LAST], []),  # there, too: the last one, which is small, shows the gap
        ([packets.read(5, 8 * 4096), *packets.responses(5, 8, 4096)], []),  # at the responder: all of them leave
        ([packets.read(5, 3000), packets.response(5, 3000)], []),
    ],
)
def test_only_large_responses_to_reads_are_lost(frames: list[bytes], beside: list[tuple[int, int, bytes]]) -> None:
    facts = timed(*sorted([*small_reads(5), *again(*frames), *beside]))
    (finding,) = by_read_size(facts)
    assert "while those of up to 512 bytes arrive" in finding.what
    assert "back to the requester" in finding.meaning
    assert not by_size(facts)


def test_reads_without_any_response_where_acks_arrive() -> None:
    sends = [(time * 1000 + n * 400, 0, frame) for time in range(5)
             for n, frame in enumerate((packets.send(time, 256), packets.ack(time)))]  # fmt: skip
    (finding,) = by_read_size(timed(*sorted([*sends, *again(packets.read(5, 65536)), *OTHER_QP])))
    assert "while ACKs arrive" in finding.what


def test_lost_reads_hide_no_large_writes_that_are_lost() -> None:
    """A READ request of 78 bytes that comes again says nothing about small frames."""
    reads = again(packets.read(3, 2048), *packets.responses(3, 2), times=1)
    events = [*((2 * n, 0, frame) for n, frame in enumerate(small(3))), *reads,
              *((200 * MS + time, 0, frame) for time, _, frame in reads),
              *((500 * MS + n * 1000, 0, frame) for n, frame in enumerate(hole(5, 5, 4096)))]  # fmt: skip
    assert by_size(timed(*events))


def test_reads_of_all_sizes_that_are_lost_are_no_matter_of_size() -> None:
    """The controls: as large a READ has been delivered; small ones are lost as well; all is lost as the host dies."""
    large = [
        (MS, 0, packets.read(5, 65536)),
        *((MS + 1000 * n, 0, f) for n, f in enumerate(packets.responses(5, 64), 1)),
    ]
    assert not by_read_size(timed(*sorted([*small_reads(5), *large, *again(packets.read(69, 65536)), *OTHER_QP])))
    assert not by_read_size(timed(*sorted([*small_reads(5), *again(packets.read(5, 512)), *OTHER_QP])))
    assert not by_read_size(timed(*sorted([*small_reads(5), *again(packets.read(5, 65536))])))


def test_reads_that_fill_the_path_mtu_are_all_the_same() -> None:
    """Those of 8 KB arrive, in packets of 1024 bytes like those of 64 KB that do not."""
    eight = [
        (MS, 0, packets.read(5, 8192)),
        *((MS + 1000 * n, 0, f) for n, f in enumerate(packets.responses(5, 8), 1)),
    ]
    assert not by_read_size(timed(*sorted([*small_reads(5), *eight, *again(packets.read(13, 65536)), *OTHER_QP])))


def icmp(kind: int, code: int, about: bytes, *, sender: str = "10.0.9.1", rest: int = 0) -> bytes:
    """An ICMP error of a router (RFC 792): the packet's IP header and what fits."""
    body = struct.pack("!BBHI", kind, code, 0, rest) + about[14:][:128]
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, 1, 0)
    addresses = ip_address(sender).packed + ip_address("10.0.0.1").packed
    return bytes(12) + b"\x08\x00" + head + addresses + body


def icmp6(kind: int, code: int, about: bytes, *, rest: int = 0) -> bytes:
    """The same of IPv6 (RFC 4443)."""
    body = struct.pack("!BBHI", kind, code, 0, rest) + about[14:][:128]
    head = struct.pack("!IHBB", 6 << 28, len(body), 58, 64)
    addresses = ip_address("2001:db8::9").packed + ip_address("2001:db8::1").packed
    return bytes(12) + b"\x86\xdd" + head + addresses + body


THERE6 = packets.send(1, path=packets.THERE6)


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (icmp(3, 3, packets.send(1), sender="10.0.0.2"), "from 10.0.0.1 to 10.0.0.2, by 10.0.0.2"),
        (icmp(3, 1, packets.send(1)), "host unreachable, about RoCEv2"),
        (icmp(3, 0, packets.send(1)), "network unreachable"),
        (icmp(3, 13, packets.send(1)), "prohibited"),
        (icmp(3, 4, packets.send(1, 4096), rest=1500), "fragmentation needed, MTU 1500, about RoCEv2"),
        (icmp(11, 0, packets.send(1)), "time exceeded"),
        (icmp(11, 0, packets.vxlan(packets.send(1))), "time exceeded, about VXLAN from 10.1.0.1 to 10.1.0.2"),
        (icmp6(1, 4, THERE6), "port unreachable, about RoCEv2 from 2001:db8::1 to 2001:db8::2, by 2001:db8::9"),
        (icmp6(2, 0, THERE6, rest=1400), "fragmentation needed, MTU 1400"),
        (icmp6(3, 0, THERE6), "time exceeded"),
        (icmp6(1, 1, THERE6), "prohibited"),
    ],
)  # fmt: skip
def test_reports_about_roce_are_findings(frame: bytes, said: str) -> None:
    facts = told([packets.send(1), frame, frame, packets.ack(1)])
    (finding,) = facts.findings
    assert finding.what.startswith("2 ICMP reports of ")
    assert said in finding.what
    assert verdict(facts) is ExitCode.FAIL


def other_udp() -> bytes:
    frame = bytearray(packets.send(1))
    frame[36:38] = (5353).to_bytes(2)
    return bytes(frame)


@pytest.mark.parametrize(
    "frame",
    [
        icmp(3, 3, other_udp()),  # about another port
        icmp(8, 0, packets.send(1)),  # an echo that happens to carry such a packet
        icmp(3, 3, packets.send(1))[:50],  # cut before the ports
        icmp(11, 1, packets.send(1)),  # reassembly
        icmp6(128, 0, THERE6),
        icmp(3, 3, bytes(14) + b"\x40" + bytes(9)),  # headers of no length, and of no version
        icmp(3, 3, bytes(14) + bytes(40)),
    ],
)
def test_other_icmp_is_none_of_ours(frame: bytes) -> None:
    facts = told([packets.send(1), frame, packets.ack(1)])
    assert not facts.icmp_errors
    assert verdict(facts) is ExitCode.PASS
