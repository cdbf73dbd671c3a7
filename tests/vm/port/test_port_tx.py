"""What ``port_tx`` makes of what leaves: CE by the curve and nothing else changed, and PFC frames octet for octet."""

from __future__ import annotations

import socket
import subprocess
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.utils import wrpcap

from lab.kernel.packets.inject import Injector
from lab.model.qos.port import EcnQos
from lab.wire.craft import build
from lab.wire.frame import Icrc, decode
from lab.wire.headers import PfcFrame, Reth, Tag
from lab.wire.opcodes import Opcode
from tests.vm.one_switch import bounds
from tests.vm.port_programs import (
    DATA,
    KICK,
    MAC,
    NO_PORT,
    PFC,
    PORT,
    SHOT,
    STOLEN,
    SWP1,
    SWP2,
    TOKEN,
    UNSPEC,
    WRITTEN,
    XOFF,
    Switch,
    mark,
    switch,
)
from tests.vm.run_program import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PEER = "02:00:00:00:00:22"
NEXT_HOP = "02:00:00:00:00:33"
PATHS = (
    build.Path(MAC, NEXT_HOP, "10.9.0.1", "10.9.0.2"),
    build.Path(MAC, NEXT_HOP, "fdc9::1", "fdc9::2"),
)
BOTH = pytest.mark.parametrize("path", PATHS, ids=["IPv4", "IPv6"])
NOT_ECT, ECT1, ECT0, CE = range(4)
PRIORITY = 0
QUEUE = PORT.priority_to_queue[PRIORITY]
CURVE = EcnQos(enabled=True, kmin=10_000, kmax=90_000, pmax=0.1)
RUNS = 10_000
FROM_SWP1 = mark(DATA, PRIORITY, SWP1)


@pytest.fixture(scope="module")
def built() -> Iterator[Switch]:
    with switch() as made:
        yield made


@pytest.fixture
def ports(built: Switch) -> Switch:
    configure(built, CURVE)
    return built


def configure(ports: Switch, curve: EcnQos) -> None:
    """One queue marks."""
    queues = list(PORT.queues)
    queues[QUEUE] = replace(queues[QUEUE], ecn=curve)
    ports.reset(replace(PORT, queues=tuple(queues)))


def queue(ports: Switch) -> Any:
    """The counters of the queue that marks."""
    return ports.maps.counters[SWP2]["queue"][QUEUE]


def write(path: build.Path, ecn: int, **fields: Any) -> bytes:
    """An RDMA WRITE, complete with its ICRC."""
    message = build.RoceMessage(Opcode.RC_RDMA_WRITE_ONLY, 17, 5, reth=Reth(0x1000, 0x22, 64), payload=bytes(64))
    return build.rocev2(replace(path, ecn=ecn, **fields), message)


class TestMarker:
    @BOTH
    @pytest.mark.parametrize("ecn", [NOT_ECT, ECT1, ECT0, CE])
    @pytest.mark.parametrize("deep", [False, True])
    def test_a_deep_queue_turns_ect_into_ce_and_nothing_else(
        self, ports: Switch, path: build.Path, ecn: int, *, deep: bool
    ) -> None:
        queue(ports)["depth_bytes"] = CURVE.kmax + 1 if deep else CURVE.kmin
        marks = deep and ecn in {ECT0, ECT1}
        outcome = ports.tx(write(path, ecn), FROM_SWP1)
        assert outcome == Outcome(UNSPEC, write(path, CE if marks else ecn), FROM_SWP1)
        assert decode(outcome.packet).icrc == Icrc.OK
        counted = queue(ports)
        assert [int(counted[name]) for name in ("ecn_marked", "not_ect")] == [marks, deep and ecn == NOT_ECT]

    def test_the_ipv4_checksum_is_right_whatever_the_header(self, ports: Switch) -> None:
        queue(ports)["depth_bytes"] = CURVE.kmax + 1
        for dscp in range(0, 64, 7):
            for ecn in (ECT0, ECT1):
                before, after = (write(PATHS[0], each, dscp=dscp, hops=dscp + 1) for each in (ecn, CE))
                assert ports.tx(before, FROM_SWP1).packet == after

    @pytest.mark.parametrize(
        ("curve", "depth", "probability"),
        [
            (CURVE, CURVE.kmin, 0),
            (replace(CURVE, kmax=CURVE.kmin + 1, pmax=1), CURVE.kmin, 0),
            (replace(CURVE, kmax=CURVE.kmin + 1, pmax=0), CURVE.kmin + 1, 0),
            (replace(CURVE, kmax=CURVE.kmin + 1, pmax=1), CURVE.kmin + 1, 1),
            (replace(CURVE, kmax=CURVE.kmin + 1, pmax=0), CURVE.kmin + 2, 1),
            (replace(CURVE, kmax=CURVE.kmin, pmax=0.5), CURVE.kmin, 0),
            (replace(CURVE, kmax=CURVE.kmin, pmax=0.5), CURVE.kmin + 1, 1),
            (replace(CURVE, enabled=False), 2**31, 0),
        ],
    )
    def test_a_step_is_at_its_byte(self, ports: Switch, curve: EcnQos, depth: int, probability: int) -> None:
        assert curve.probability(depth) == probability
        configure(ports, curve)
        queue(ports)["depth_bytes"] = depth
        ports.tx(write(PATHS[0], NOT_ECT), FROM_SWP1, repeat=100)
        assert queue(ports)["not_ect"] == 100 * probability

    def test_frequencies_are_those_of_the_curve(self, ports: Switch) -> None:
        """Counted on a packet that cannot be marked, so that one and the same can be chosen any number of times."""
        depths = (CURVE.kmin + 800, 30_000, 50_000, 70_000, CURVE.kmax - 1, CURVE.kmax)
        packet = write(PATHS[0], NOT_ECT)
        for depth in depths:
            queue(ports)["depth_bytes"], queue(ports)["not_ect"] = depth, 0
            ports.tx(packet, FROM_SWP1, repeat=RUNS)
            low, high = bounds(RUNS, CURVE.probability(depth), tests=len(depths))
            assert low <= queue(ports)["not_ect"] <= high, depth

    def test_another_queue_s_depth_does_not_mark(self, ports: Switch) -> None:
        ports.maps.counters[SWP2]["queue"]["depth_bytes"] = 10**9
        queue(ports)["depth_bytes"] = 0
        packet = write(PATHS[0], ECT0)
        for priority in range(8):
            marked = mark(DATA, priority, SWP1)
            assert ports.tx(packet, marked) == Outcome(UNSPEC, packet, marked)

    def test_what_is_not_ip_is_counted_as_not_ect(self, ports: Switch) -> None:
        queue(ports)["depth_bytes"] = CURVE.kmax + 1
        packet = bytes.fromhex("02000000003302000000001188b5") + bytes(46)
        assert ports.tx(packet, FROM_SWP1) == Outcome(UNSPEC, packet, FROM_SWP1)
        assert queue(ports)["not_ect"] == 1

    @BOTH
    @pytest.mark.parametrize("ecn", [NOT_ECT, ECT0])
    def test_behind_a_tag_it_marks_as_well(self, ports: Switch, path: build.Path, ecn: int) -> None:
        """Sent by a socket, because BPF_PROG_TEST_RUN does not tell where the IP header is when a tag comes first.

        The far end's kernel takes the tag off before anybody sees it.
        """
        queue(ports)["depth_bytes"] = CURVE.kmax + 1
        dscp = PORT.dscp_to_priority.index(PRIORITY)
        with ports.wire(SWP2) as wire, Injector(ports.inside, "swp2") as injector:
            injector.send([write(path, ecn, dscp=dscp, tag=Tag(vlan=0xFFE, pcp=5))])
            assert wire.next() == write(path, CE if ecn else NOT_ECT, dscp=dscp)

    @BOTH
    def test_a_packet_of_the_switch_s_own_is_classified_here(self, ports: Switch, path: build.Path) -> None:
        for dscp in range(64):
            packet = write(path, ECT0, dscp=dscp)
            outcome = ports.tx(packet, 0x1234)
            assert outcome == Outcome(UNSPEC, packet, mark(DATA, PORT.dscp_to_priority[dscp], NO_PORT))


@contextmanager
def bridged(ports: Switch, how: str) -> Iterator[None]:
    """A bridge between the two ports, which hands on packets that share their octets with a copy.

    That is one to a third port, which goes out last, or one that a socket on the first has not been asked for yet.
    """
    commands = ["link add br0 type bridge mcast_snooping 0", "link set swp1 master br0"]
    if how == "flooded":
        commands += ["link add other type dummy", "link set other up master br0"]
    with ExitStack() as stack:
        for command in [*commands, "link set swp2 master br0", "link set br0 up"]:
            ports.inside.run(["ip", *command.split()])
        stack.callback(ports.inside.run, ["ip", "link", "del", "br0"])
        if how == "flooded":
            stack.callback(ports.inside.run, ["ip", "link", "del", "other"])
        else:
            stack.enter_context(ports.inside.inside(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300)))
        yield


class TestCopies:
    """Where a packet shares its octets, a switch marks it all the same."""

    @BOTH
    @pytest.mark.parametrize("how", ["flooded", "tapped"])
    @pytest.mark.parametrize("ecn", [NOT_ECT, ECT0])
    def test_a_packet_that_shares_its_octets_is_marked(
        self, ports: Switch, path: build.Path, how: str, ecn: int
    ) -> None:
        queue(ports)["depth_bytes"] = CURVE.kmax + 1
        dscp = PORT.dscp_to_priority.index(PRIORITY)
        with bridged(ports, how), ports.wire() as source, ports.wire(SWP2) as wire:
            source.send(write(path, ecn, dscp=dscp))
            assert wire.next() == write(path, CE if ecn else NOT_ECT, dscp=dscp)
        counted = queue(ports)
        assert [int(counted[name]) for name in ("ecn_marked", "not_ect", "ecn_failed")] == [bool(ecn), not ecn, 0]

    @pytest.mark.parametrize(("path", "size"), [(PATHS[0], 18), (PATHS[1], 30)], ids=["IPv4", "IPv6"])
    def test_ect_in_less_than_a_header_is_counted_where_it_cannot_be_marked(
        self, ports: Switch, path: build.Path, size: int
    ) -> None:
        """Whoever adds up what the curve chose finds every packet."""
        queue(ports)["depth_bytes"] = CURVE.kmax + 1
        with Injector(ports.inside, "swp2") as injector:
            injector.send([write(path, ECT0, dscp=PORT.dscp_to_priority.index(PRIORITY))[:size]])
        counted = queue(ports)
        assert [int(counted[name]) for name in ("ecn_marked", "not_ect", "ecn_failed")] == [0, 0, 1]


class TestPfc:
    def test_every_vector_is_the_frame_of_the_standard(self, ports: Switch, tmp_path: Path) -> None:
        """Octet for octet behind the opcode, and by tshark."""
        frames, packet, begin = [], write(PATHS[0], ECT0), build.pfc(MAC, PfcFrame.of({}))[:16]
        for vector in range(256):
            for asked, quanta in ((XOFF, 0xFFFF), (0, 0)):
                marked = mark(PFC, 0, vector | asked)
                timers = b"".join((quanta if vector >> n & 1 else 0).to_bytes(2) for n in range(8))
                expected = (begin + vector.to_bytes(2) + timers).ljust(60, b"\0")
                ports.set_group(SWP2, 0, paused=int(asked == XOFF))
                outcome = ports.tx(packet, marked)
                assert outcome == Outcome(STOLEN, expected, marked), "it was sent"
                frames.append((outcome.packet, vector, [quanta if vector >> n & 1 else 0 for n in range(8)]))
        assert tshark([packet for packet, *_ in frames], tmp_path) == [told for _, *told in frames]

    @pytest.mark.parametrize("size", [15, 59, 60, 61, 1500, 4214])
    def test_nothing_is_left_of_the_packet_it_is_written_over(self, ports: Switch, size: int) -> None:
        packet = bytes.fromhex("ffffffffffffffffffffffff88b5").ljust(size, b"\xff")
        assert ports.tx(packet, mark(PFC, 0, XOFF | 0x18)).packet == build.pfc(
            MAC, PfcFrame.of({3: 0xFFFF, 4: 0xFFFF})
        )

    def test_quanta_are_those_of_the_port(self, ports: Switch) -> None:
        ports.reset(replace(PORT, pfc=replace(PORT.pfc, quanta=0x1234)))
        assert ports.tx(bytes(60), mark(PFC, 0, XOFF | 1)).packet == build.pfc(MAC, PfcFrame.of({0: 0x1234}))

    def test_a_frame_that_is_written_goes_on_as_it_is(self, ports: Switch) -> None:
        written, marked = build.pfc(MAC, PfcFrame.of({3: 0xFFFF})), mark(PFC, 0, WRITTEN | XOFF | 8)
        assert ports.tx(written, marked) == Outcome(UNSPEC, written, marked)

    def test_a_frame_that_its_queue_refuses_is_dropped(self, ports: Switch) -> None:
        """Its sender hears of it, and sends it again."""
        assert ports.tx(bytes(60), mark(PFC, 0, XOFF | 8)).verdict == SHOT

    @pytest.mark.parametrize("kind", [TOKEN, KICK])
    def test_tokens_and_kicks_pass(self, ports: Switch, kind: int) -> None:
        queue(ports)["depth_bytes"] = CURVE.kmax + 1
        packet, marked = write(PATHS[0], ECT0), mark(kind, 0, 1)
        assert ports.tx(packet, marked) == Outcome(UNSPEC, packet, marked)
        assert not queue(ports)["ecn_marked"]


def tshark(frames: list[bytes], folder: Path) -> list[list[Any]]:
    """Vector and timers of each frame, decoded by tshark."""
    path = folder / "pfc.pcap"
    wrpcap(str(path), frames, linktype=1)
    fields = ["macc.cbfc.enbv", *(f"macc.cbfc.pause_time.c{priority}" for priority in range(8))]
    argv = ["tshark", "-r", str(path), "-T", "fields", *(word for field in fields for word in ("-e", field))]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=100, check=True).stdout
    rows = [[int(cell, 0) for cell in line.split("\t")] for line in said.splitlines()]
    return [[vector, timers] for vector, *timers in rows]


@pytest.fixture(scope="module")
def marking(built: Switch) -> Switch:
    """For all examples of a property, which is the last test."""
    configure(built, CURVE)
    queue(built)["depth_bytes"] = CURVE.kmax + 1
    return built


@settings(max_examples=150, deadline=None)
@given(
    st.binary(min_size=12, max_size=12),
    st.sampled_from([0x0800, 0x86DD, 0x88B5]),
    st.binary(min_size=40, max_size=200),
)
def test_any_octets_keep_all_but_ecn_and_checksum(marking: Switch, macs: bytes, kind: int, rest: bytes) -> None:
    packet = macs + kind.to_bytes(2) + rest
    before = [int(queue(marking)[name]) for name in ("ecn_marked", "not_ect")]
    outcome = marking.tx(packet, FROM_SWP1)
    assert (outcome.verdict, outcome.mark) == (UNSPEC, FROM_SWP1)
    marked, not_ect = (int(queue(marking)[name]) for name in ("ecn_marked", "not_ect"))
    marked, not_ect = marked - before[0], not_ect - before[1]
    ecn = {0x0800: packet[15] & 3, 0x86DD: packet[15] >> 4 & 3}.get(kind, NOT_ECT)
    assert (marked, not_ect) == (ecn in {ECT0, ECT1}, ecn == NOT_ECT)
    after = bytearray(packet)
    if marked:
        after[15] |= CE if kind == 0x0800 else CE << 4
    if marked and kind == 0x0800:
        after[24:26] = outcome.packet[24:26]
    assert outcome.packet == after
