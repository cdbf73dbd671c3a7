"""What an impairment makes of packets, one by one: which it matches, what it changes, what it lets be."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6ND_NS, IPv6, IPv6ExtHdrHopByHop, RouterAlert
from scapy.layers.l2 import ARP, Ether

from lab.dataplane import impair
from lab.dataplane.impair import ImpairmentHook
from lab.kernel.bpf.libbpf import library
from lab.kernel.netlink import tc_hooks
from lab.kernel.netlink.links import LOOPBACK_INDEX
from lab.kernel.netlink.tc_hooks import Hook
from lab.kernel.process import netns
from lab.kernel.process.netns import Namespace
from lab.model.impairment import Impairment, Traffic
from lab.wire.craft import build
from lab.wire.frame import Icrc, decode
from lab.wire.headers import Aeth, PauseFrame, PfcFrame, Reth, Tag
from lab.wire.opcodes import Opcode
from lab.wire.syndrome import AckKind, Syndrome
from tests import splitmix
from tests.inside import entered
from tests.vm.one_switch import bounds
from tests.vm.port_programs import DATA, KICK, PFC, SPARE, TOKEN, WRITTEN, mark
from tests.vm.run_program import Outcome, PreparedRun, run_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lab.dataplane.impair import ImpairmentCounts

UNSPEC, STOLEN = -1, 4
"""TC_ACT_* of <linux/pkt_cls.h>: on to the next filter, and gone without a trace."""
PEER = "02:00:00:00:00:22"
PATHS = (
    build.Path(PEER, "02:00:00:00:00:11", "10.9.0.1", "10.9.0.2"),
    build.Path(PEER, "02:00:00:00:00:11", "fdc9::1", "fdc9::2"),
)
BOTH = pytest.mark.parametrize("path", PATHS, ids=["IPv4", "IPv6"])
EVERYTHING = frozenset(Traffic)
SEED = 20161
PACKETS = 2000
IDENTIFICATION = 14 + 4
BTH_AT = {4: 14 + 20 + 8, 6: 14 + 40 + 8}


@dataclass(frozen=True, slots=True)
class Loaded:
    """An impairment, put where no packet comes by but ours."""

    place: ImpairmentHook
    program: int

    def run(self, packet: bytes, marked: int = 0, repeat: int = 1) -> Outcome:
        with entered(self.place.namespace):
            return run_program(self.program, packet, self.place.index, marked, repeat)

    def runs(self, packet: bytes, count: int) -> Iterator[Outcome]:
        """What comes of the same packet, time after time; nothing else may run meanwhile."""
        prepared = PreparedRun(self.program, packet, self.place.index)
        with entered(self.place.namespace):
            for _ in range(count):
                yield prepared.run()

    def verdicts(self, packet: bytes, count: int) -> list[int]:
        """The verdicts on the same packet, time after time."""
        prepared = PreparedRun(self.program, packet, self.place.index)
        with entered(self.place.namespace):
            return [prepared.verdict() for _ in range(count)]

    @property
    def counts(self) -> ImpairmentCounts:
        return impair.read(self.place)


@pytest.fixture(scope="module")
def nowhere() -> Iterator[Namespace]:
    """A namespace whose loopback is down."""
    space = Namespace(f"rv-{os.getpid()}-impair")
    netns.create([space.name])
    yield space
    netns.delete([space.name])


@contextmanager
def put_on(space: Namespace, impairment: Impairment, hook: Hook = Hook.INGRESS) -> Iterator[Loaded]:
    place = ImpairmentHook(space, LOOPBACK_INDEX, hook, 7)
    impair.apply(place, impairment)
    program = -1
    try:
        (found,) = space.inside(lambda: tc_hooks.filters(LOOPBACK_INDEX))
        program = library().bpf_prog_get_fd_by_id(found.program)
        yield Loaded(place, program)
    finally:
        os.close(program)
        impair.remove(place)


@pytest.fixture
def loaded(nowhere: Namespace) -> Callable[..., Any]:
    return lambda **asked: put_on(nowhere, Impairment(**asked))


def write(path: build.Path, opcode: Opcode = Opcode.RC_RDMA_WRITE_ONLY, size: int = 64) -> bytes:
    return build.rocev2(path, build.RoceMessage(opcode, 17, 5, reth=Reth(0x1000, 0x22, size), payload=bytes(size)))


def verdicts(impairment: Loaded, packets: int, packet: bytes) -> list[int]:
    """The numbers of those of equal packets that are lost."""
    return [number for number, verdict in enumerate(impairment.verdicts(packet, packets)) if verdict == STOLEN]


def test_the_reference_is_the_published_generator() -> None:
    """The first outputs of seed 1234567, as Rosetta Code has them (Pseudo-random numbers/Splitmix64)."""
    first = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    assert list(islice(splitmix.outputs(1234567), 5)) == first


class TestChance:
    @pytest.mark.parametrize("seed", [SEED, 0, 2**64 - 1])
    def test_what_is_lost_is_what_the_seed_says(self, loaded: Any, seed: int) -> None:
        with loaded(loss=0.05, seed=seed) as impairment:
            lost = verdicts(impairment, PACKETS, write(PATHS[0]))
            assert lost == splitmix.chosen(seed, splitmix.LOSS, PACKETS, 0.05)
            low, high = bounds(PACKETS, 0.05, 3)
            assert low <= len(lost) <= high
            counts = impairment.counts
        assert (counts.seen, counts.matched, counts.lost) == (PACKETS, PACKETS, len(lost))
        assert counts.struck_bytes == len(lost) * len(write(PATHS[0]))
        assert counts.dscp_struck == {26: len(lost)}
        assert counts.opcode_matched == {Opcode.RC_RDMA_WRITE_ONLY: PACKETS}

    def test_frames_are_corrupted_by_numbers_of_their_own(self, loaded: Any) -> None:
        with loaded(corrupt_frame=0.05, loss=0.05, seed=SEED) as impairment:
            lost = verdicts(impairment, PACKETS, write(PATHS[0]))
            counts = impairment.counts
        by_loss, by_frame = (
            set(splitmix.chosen(SEED, which, PACKETS, 0.05)) for which in (splitmix.LOSS, splitmix.FRAME)
        )
        assert lost == sorted(by_loss | by_frame)
        assert (counts.lost, counts.corrupted_frames) == (len(by_loss), len(by_frame - by_loss))

    def test_packets_that_do_not_match_have_no_number(self, loaded: Any) -> None:
        other, writes = build.cnp(PATHS[1], 17), [write(path) for path in PATHS]
        with loaded(loss=0.3, seed=SEED, opcodes=frozenset({Opcode.RC_RDMA_WRITE_ONLY})) as impairment:
            lost = []
            for number in range(200):
                assert impairment.run(other).verdict == UNSPEC
                if impairment.run(writes[number % 2]).verdict == STOLEN:
                    lost.append(number)
            assert (impairment.counts.seen, impairment.counts.matched) == (400, 200)
        assert lost == splitmix.chosen(SEED, splitmix.LOSS, 200, 0.3)

    def test_one_in_so_many_is_the_last_of_them(self, loaded: Any) -> None:
        with loaded(lose_every=100) as impairment:
            assert verdicts(impairment, 350, write(PATHS[0])) == [99, 199, 299]

    def test_everything_is_lost_at_probability_one(self, loaded: Any) -> None:
        with loaded(loss=1.0, traffic=EVERYTHING) as impairment:
            assert verdicts(impairment, 50, write(PATHS[0])) == list(range(50))

    def test_one_identification_in_256(self, loaded: Any) -> None:
        """What Guo et al. have a switch drop: packets whose identification ends in 0xff."""
        with loaded(loss=1.0, ip_id=0xFF) as impairment:
            for number in range(0x3F0, 0x710):
                frame = ROCE[:IDENTIFICATION] + number.to_bytes(2) + ROCE[IDENTIFICATION + 2 :]
                assert (impairment.run(frame).verdict == STOLEN) == (number & 0xFF == 0xFF)
            assert impairment.run(write(PATHS[1])).verdict == UNSPEC, "IPv6 has none"


ROCE, CNP, TAGGED = write(PATHS[0]), build.cnp(PATHS[1], 17), write(replace(PATHS[0], tag=Tag(7, 6)))
PLAIN = bytes(Ether() / IP(dst="10.9.0.2", tos=10 << 2) / UDP(dport=53) / bytes(100))
SYN = bytes(Ether() / IPv6(dst="fdc9::2") / TCP(dport=80))
FRAGMENT = bytes(Ether() / IP(dst="10.9.0.2", frag=10) / ROCE[34:])
BGP = [bytes(Ether() / IP(dst="10.9.0.2") / TCP(**{which: 179})) for which in ("sport", "dport")]
BFD = [bytes(Ether() / IPv6(dst="fdc9::2") / UDP(sport=49152, dport=port) / bytes(24)) for port in (3784, 3785, 4784)]
NEIGHBOURS = [bytes(Ether() / ARP()), bytes(Ether() / IPv6(dst="fdc9::2") / ICMPv6ND_NS(tgt="fdc9::2"))]
LISTENERS = [
    bytes(Ether() / IP(dst="224.0.0.22", proto=2) / bytes(16)),
    bytes(Ether() / IPv6(dst="ff02::16") / IPv6ExtHdrHopByHop(options=[RouterAlert()]) / bytes(28)),
]
FOREIGN = [bytes(Ether(type=0x88CC) / bytes(60))]
CONTROL = [*BGP, *BFD, *NEIGHBOURS, *LISTENERS, *FOREIGN]
PAUSES = [
    build.pfc("02:00:00:00:00:22", PfcFrame(8, (0, 0, 0, 9, 0, 0, 0, 0))),
    build.pause("02:00:00:00:00:22", PauseFrame(9)),
]
KINDS = {
    Traffic.ROCE: [ROCE, CNP, TAGGED],
    Traffic.OTHER: [PLAIN, SYN, FRAGMENT, bytes(Ether() / IP(dst="10.9.0.2") / ICMP())],
    Traffic.CONTROL: CONTROL,
    Traffic.PAUSES: PAUSES,
}


class TestMatch:
    @pytest.mark.parametrize("traffic", list(Traffic))
    def test_each_kind_of_traffic_is_one_kind(self, loaded: Any, traffic: Traffic) -> None:
        with loaded(loss=1.0, traffic=frozenset({traffic})) as impairment:
            for kind, packets in KINDS.items():
                expected = STOLEN if kind is traffic else UNSPEC
                assert [impairment.run(packet) for packet in packets] == [
                    Outcome(expected, packet, 0) for packet in packets
                ], kind

    def test_unless_asked_for_the_network_itself_is_let_be(self, loaded: Any) -> None:
        with loaded(loss=1.0) as impairment:
            assert {impairment.run(packet).verdict for packet in (*CONTROL, *PAUSES)} == {UNSPEC}
            assert {impairment.run(packet).verdict for packet in (ROCE, PLAIN)} == {STOLEN}

    @pytest.mark.parametrize(
        ("asked", "matched", "others"),
        [
            ({"dscps": frozenset({26})}, [ROCE, CNP, TAGGED], [PLAIN, SYN]),
            ({"dscps": frozenset({0, 10, 63})}, [PLAIN, SYN], [ROCE, *FOREIGN]),
            ({"pcps": frozenset({6})}, [TAGGED], [ROCE, PLAIN, *FOREIGN]),
            ({"pcps": frozenset({5, 0})}, [], [TAGGED, ROCE]),
            ({"opcodes": frozenset({0x0A})}, [ROCE, TAGGED], [CNP, PLAIN, *FOREIGN]),
            ({"opcodes": frozenset({0x81, 0x3F})}, [CNP], [ROCE, PLAIN]),
            ({"min_size": len(ROCE) - 14}, [ROCE, TAGGED], [CNP, SYN]),
            ({"min_size": len(ROCE) - 13}, [PLAIN], [ROCE, TAGGED]),
            ({"protocol": 17}, [ROCE, CNP, PLAIN], [SYN, *FOREIGN]),
            ({"protocol": 6, "port": 80}, [SYN], [ROCE, PLAIN]),
            ({"port": 53}, [PLAIN], [ROCE, SYN, FRAGMENT, *FOREIGN]),
            ({"protocol": 0}, [LISTENERS[1]], [ROCE, *FOREIGN]),
        ],
        ids=str,
    )
    def test_all_that_is_asked_for_has_to_fit(
        self, loaded: Any, asked: dict[str, Any], matched: list[bytes], others: list[bytes]
    ) -> None:
        with loaded(loss=1.0, traffic=EVERYTHING, **asked) as impairment:
            assert {impairment.run(packet).verdict for packet in matched} <= {STOLEN}
            assert {impairment.run(packet).verdict for packet in others} == {UNSPEC}
            assert impairment.counts.matched == len(matched)

    def test_the_port_s_own_signals_are_no_packets(self, loaded: Any) -> None:
        """On egress they carry a mark: a PFC frame passes twice, and only what is written by then is a packet."""
        with loaded(loss=1.0, traffic=EVERYTHING - {Traffic.PAUSES}) as impairment:
            for marked in (*(mark(kind, 3, 9) for kind in (PFC, TOKEN, KICK, SPARE)), mark(PFC, 3, WRITTEN | 9)):
                assert impairment.run(ROCE, marked) == Outcome(UNSPEC, ROCE, marked)
            assert impairment.run(ROCE, mark(DATA, 3, 9)).verdict == STOLEN
        with loaded(loss=1.0, traffic=frozenset({Traffic.PAUSES})) as impairment:
            assert impairment.run(ROCE, mark(PFC, 3, WRITTEN | 9)).verdict == STOLEN
            assert impairment.run(ROCE, mark(PFC, 3, 9)).verdict == UNSPEC
            assert impairment.run(ROCE, mark(KICK, 3, 9)).verdict == UNSPEC
            assert impairment.run(ROCE, mark(DATA, 3, 9)).verdict == UNSPEC


class TestChange:
    @BOTH
    @pytest.mark.parametrize("ecn", range(4))
    def test_a_dscp_is_rewritten_and_nothing_else(self, loaded: Any, path: build.Path, ecn: int) -> None:
        """Judged by scapy, which makes the packet anew: but for its checksum, and none of the ICRC."""
        with loaded(dscp=10) as impairment:
            before, after = (write(replace(path, dscp=dscp, ecn=ecn)) for dscp in (26, 10))
            assert impairment.run(before) == Outcome(UNSPEC, after, 0)
            assert impairment.run(after) == Outcome(UNSPEC, after, 0)
            counts = impairment.counts
        assert (counts.matched, counts.dscp_rewritten, counts.ecn_cleared) == (2, 1, 0)
        assert (counts.dscp_matched, counts.dscp_struck) == ({26: 1, 10: 1}, {26: 1})

    @BOTH
    @pytest.mark.parametrize("tag", [None, Tag(7, 6)])
    @pytest.mark.parametrize("ecn", range(4))
    def test_ecn_is_cleared(self, loaded: Any, path: build.Path, tag: Tag | None, ecn: int) -> None:
        with loaded(clear_ecn=True) as impairment:
            before, after = (write(replace(path, ecn=which, tag=tag)) for which in (ecn, 0))
            assert impairment.run(before) == Outcome(UNSPEC, after, 0)
            assert impairment.counts.ecn_cleared == (ecn != 0)

    def test_what_has_neither_stays_as_it_is(self, loaded: Any) -> None:
        with loaded(clear_ecn=True, dscp=63, corrupt_payload=1.0, traffic=EVERYTHING) as impairment:
            for packet in (NEIGHBOURS[0], *FOREIGN, *PAUSES):
                assert impairment.run(packet) == Outcome(UNSPEC, packet, 0)

    @BOTH
    @pytest.mark.parametrize("summed", [True, False], ids=["checksum", "no checksum"])
    def test_a_payload_is_corrupted_so_that_only_the_icrc_tells(
        self, loaded: Any, path: build.Path, summed: bool
    ) -> None:
        """One bit between BTH and ICRC, at another place each time; CRC-32 misses no single bit."""
        packet = Ether(write(path))
        if not summed:
            packet[UDP].chksum = 0
        before, places = bytes(packet), set()
        assert decode(before).icrc is Icrc.OK
        at = BTH_AT[packet.payload.version]
        with loaded(corrupt_payload=1.0, seed=SEED) as impairment:
            for _ in range(60):
                outcome = impairment.run(before)
                assert outcome.verdict == UNSPEC
                changed = int.from_bytes(before[at:]) ^ int.from_bytes(outcome.packet[at:])
                assert changed.bit_count() == 1
                places.add(changed)
                assert 1 << 32 <= changed < 1 << 8 * (len(before) - at - 12)
                assert decode(outcome.packet).icrc is Icrc.BAD
                assert_checksum(outcome.packet, summed)
            assert impairment.counts.corrupted_payloads == 60
        assert len(places) > 50

    def test_what_is_flipped_is_what_the_seed_says(self, loaded: Any) -> None:
        """Of 16 octets of RETH and 64 of payload, the word that the upper half of the number points at."""
        before, at = write(PATHS[0]), BTH_AT[4] + 12
        with loaded(corrupt_payload=0.5, seed=SEED) as impairment:
            outcomes = [outcome.packet for outcome in impairment.runs(before, 100)]
        struck = splitmix.chosen(SEED, splitmix.PAYLOAD, 100, 0.5)
        assert [number for number, packet in enumerate(outcomes) if packet != before] == struck
        draws = splitmix.stream(SEED, splitmix.PLACE, 100)
        for number in struck:
            octet = ((draws[number] >> 32) * 80 >> 32) & ~1
            assert changed_octet(before, outcomes[number]) & ~1 == at + octet

    @pytest.mark.parametrize(
        ("message", "first"),
        [
            (build.RoceMessage(Opcode.RC_SEND_ONLY, 17), "the ICRC"),
            (build.RoceMessage(Opcode.RC_ACKNOWLEDGE, 17, aeth=Aeth(Syndrome(AckKind.ACK, 31), 1)), "the AETH"),
        ],
    )
    def test_of_short_packets_it_is_what_follows_the_bth(
        self, loaded: Any, message: build.RoceMessage, first: str
    ) -> None:
        before, at = build.rocev2(PATHS[0], message), BTH_AT[4] + 12
        assert len(before) == at + (4 if first == "the ICRC" else 8)
        with loaded(corrupt_payload=1.0) as impairment:
            for _ in range(20):
                after = impairment.run(before).packet
                assert at <= changed_octet(before, after) < at + 4
                assert decode(after).icrc is Icrc.BAD
            assert impairment.counts.failed == 0

    def test_one_that_lies_about_its_length_is_counted_as_failed(self, loaded: Any) -> None:
        short = bytes(Ether() / IP(dst="10.9.0.2") / UDP(dport=4791) / bytes(8))
        with loaded(corrupt_payload=1.0) as impairment:
            assert impairment.run(short) == Outcome(UNSPEC, short, 0)
            assert (impairment.counts.failed, impairment.counts.corrupted_payloads) == (1, 0)


def changed_octet(before: bytes, after: bytes) -> int:
    """Where the one octet behind the UDP header is that differs; before it only the checksum does."""
    differing = [at for at, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    assert set(differing[:-1]) <= {BTH_AT[4] - 2, BTH_AT[4] - 1}
    return differing[-1]


def assert_checksum(frame: bytes, summed: bool) -> None:
    """The UDP checksum is the one that scapy computes, or 0 where it was."""
    found = Ether(frame)
    told = found[UDP].chksum
    del found[UDP].chksum
    assert told == (Ether(bytes(found))[UDP].chksum if summed else 0)


TYPES = st.sampled_from([b"\x08\x00", b"\x08\x06", b"\x86\xdd", b"\x88\x08", b"\x81\x00"]) | st.binary(
    min_size=2, max_size=2
)
TAGS = st.just(b"") | st.binary(min_size=2, max_size=2).map(b"\x81\x00".__add__)
BODIES = st.binary(min_size=1, max_size=100) | st.binary(max_size=60).map(ROCE[14:60].__add__)
ANY = st.tuples(st.binary(min_size=12, max_size=12), TAGS, TYPES, BODIES).map(b"".join)
SHORTEST = {0x0800: 34, 0x86DD: 54}
"""BPF_PROG_TEST_RUN refuses an IP packet without its whole header."""


@pytest.fixture(scope="module")
def changing(nowhere: Namespace) -> Iterator[Loaded]:
    """All changes at once."""
    asked = Impairment(traffic=EVERYTHING, corrupt_payload=1.0, dscp=1, clear_ecn=True)
    with put_on(nowhere, asked) as impairment:
        yield impairment


@settings(max_examples=150, deadline=None)
@given(ANY)
def test_any_octets_go_on_and_no_ethernet_header_changes(changing: Loaded, packet: bytes) -> None:
    assume(len(packet) >= SHORTEST.get(int.from_bytes(packet[12:14]), 15))
    outcome = changing.run(packet)
    assert outcome.verdict == UNSPEC
    assert len(outcome.packet) == len(packet)
    assert outcome.packet[:14] == packet[:14]
