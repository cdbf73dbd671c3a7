"""What ``port_rx`` makes of what comes in: data gets a priority, a PFC frame sets timers, nothing else changes."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scapy.layers.inet6 import ICMPv6Unknown, IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether

from lab.dataplane.events import expired
from lab.dataplane.port_layout import EventKind
from lab.model.qos.port import PortQos, Trust
from lab.units import quanta_to_seconds
from lab.wire.craft import build
from lab.wire.headers import Aeth, PauseFrame, PfcFrame, Tag
from lab.wire.opcodes import Opcode
from lab.wire.syndrome import Syndrome
from tests.vm.one_switch import waited
from tests.vm.port_programs import DATA, MAC, PORT, RATE, SHOT, SWP1, SWP2, UNSPEC, Switch, mark, switch
from tests.vm.run_program import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

PEER = "02:00:00:00:00:22"
PATHS = (
    build.Path(PEER, MAC, "10.9.0.1", "10.9.0.2"),
    build.Path(PEER, MAC, "fdc9::1", "fdc9::2"),
)
XOFF_AT = 20_000
NS = 10**9
BY_PCP = replace(PORT, trust=Trust.PCP)


@pytest.fixture(scope="module")
def built() -> Iterator[Switch]:
    with switch() as made:
        yield made


@pytest.fixture
def ports(built: Switch) -> Switch:
    built.reset()
    return built


def udp(path: build.Path, size: int = 100, **fields: object) -> bytes:
    """A UDP packet of ``size`` bytes."""
    packet = bytes(replace(path, **fields).layers())  # type: ignore[arg-type]
    return packet.ljust(size, b"\0")


def passed(packet: bytes, priority: int, port: int = SWP1) -> Outcome:
    """What becomes of data: nothing but its mark."""
    return Outcome(UNSPEC, packet, mark(DATA, priority, port))


def counts(live: Any, name: str, value: int) -> None:
    """Wait for a counter to have a value."""
    waited(lambda: live[name] == value, f"{name} to be {value}")


class TestClassifier:
    @pytest.mark.parametrize("path", PATHS, ids=["IPv4", "IPv6"])
    def test_every_dscp_has_its_priority_whatever_its_ecn(self, ports: Switch, path: build.Path) -> None:
        for dscp in range(64):
            packet = udp(path, dscp=dscp, ecn=dscp % 4)
            assert ports.rx(packet) == passed(packet, PORT.dscp_to_priority[dscp])
        counted = ports.maps.counters[SWP1]["priority"]
        share = [PORT.dscp_to_priority.count(priority) for priority in range(8)]
        assert counted["rx_packets"].tolist() == share
        assert counted["rx_bytes"].tolist() == [100 * packets for packets in share]

    @pytest.mark.parametrize("pcp", range(8))
    @pytest.mark.parametrize("path", PATHS, ids=["IPv4", "IPv6"])
    def test_a_tag_in_the_packet_counts_where_pcp_is_trusted(self, ports: Switch, path: build.Path, pcp: int) -> None:
        packet = udp(path, dscp=26, tag=Tag(vlan=100, pcp=pcp))
        assert ports.rx(packet) == passed(packet, PORT.dscp_to_priority[26])
        ports.reset(BY_PCP)
        assert ports.rx(packet) == passed(packet, PORT.pcp_to_priority[pcp])

    @pytest.mark.parametrize("port", [PORT, BY_PCP], ids=["DSCP", "PCP"])
    def test_a_tag_that_the_kernel_took_off_counts_as_well(self, ports: Switch, port: object) -> None:
        ports.reset(port)  # type: ignore[arg-type]
        by_pcp = port is BY_PCP
        with ports.wire() as wire:
            for pcp in range(8):
                priority = PORT.pcp_to_priority[pcp] if by_pcp else PORT.dscp_to_priority[8 * pcp + 1]
                live = ports.maps.counters[SWP1]["priority"][priority]
                before = int(live["rx_packets"])
                wire.send(udp(PATHS[pcp % 2], dscp=8 * pcp + 1, tag=Tag(vlan=100, pcp=pcp)))
                counts(live, "rx_packets", before + 1)

    def test_what_has_neither_is_as_dscp_0_or_pcp_0(self, ports: Switch) -> None:
        untagged = udp(PATHS[0], dscp=26)
        lldp = bytes(Ether(src=PEER, dst=MAC, type=0x88CC)).ljust(60, b"\0")
        assert ports.rx(lldp) == passed(lldp, PORT.dscp_to_priority[0])
        ports.reset(BY_PCP)
        assert ports.rx(untagged) == passed(untagged, PORT.pcp_to_priority[0])

    @pytest.mark.parametrize("port", [PORT, BY_PCP], ids=["DSCP", "PCP"])
    def test_what_finds_neighbours_is_network_control(self, ports: Switch, port: PortQos) -> None:
        ports.reset(port)
        ethernet, tag, ip = Ether(src=PEER, dst=MAC), Dot1Q(vlan=1, prio=3), IPv6(src="fdc9::1", dst="fdc9::2", tc=4)
        for layers in (ARP(), *(ip / ICMPv6Unknown(type=type_) for type_ in range(133, 138))):
            for packet in (bytes(ethernet / layers), bytes(ethernet / tag / layers)):
                assert ports.rx(packet) == passed(packet, PORT.dscp_to_priority[48])
        for type_ in (128, 132, 138):
            packet = bytes(ethernet / ip / ICMPv6Unknown(type=type_))
            plain = PORT.pcp_to_priority[0] if port is BY_PCP else PORT.dscp_to_priority[1]
            assert ports.rx(packet) == passed(packet, plain)

    @pytest.mark.parametrize("path", PATHS, ids=["IPv4", "IPv6"])
    def test_a_tagged_packet_cut_off_before_its_dscp_has_none(self, ports: Switch, path: build.Path) -> None:
        packet = udp(path, dscp=26, tag=Tag(vlan=1, pcp=5))
        for size in range(15, 40):
            dscp = 26 if size >= 20 else 0
            assert ports.rx(packet[:size]) == passed(packet[:size], PORT.dscp_to_priority[dscp])
        ports.reset(BY_PCP)
        for size in range(15, 40):
            pcp = 5 if size >= 18 else 0
            assert ports.rx(packet[:size]) == passed(packet[:size], PORT.pcp_to_priority[pcp])

    @pytest.mark.parametrize("path", PATHS, ids=["IPv4", "IPv6"])
    def test_an_untagged_packet_cut_off_before_its_dscp_has_none(self, ports: Switch, path: build.Path) -> None:
        """From the wire, because BPF_PROG_TEST_RUN refuses an IP packet without its whole header."""
        packet = udp(path, dscp=26)
        with ports.wire() as wire:
            for size in range(15, 40):
                live = ports.maps.counters[SWP1]["priority"][PORT.dscp_to_priority[26 if size >= 16 else 0]]
                before = int(live["rx_bytes"])
                wire.send(packet[:size])
                counts(live, "rx_bytes", before + size)


def pfc(**classes: int) -> bytes:
    """A PFC frame of ``p3=quanta``."""
    return build.pfc(PEER, PfcFrame.of({int(name[1:]): quanta for name, quanta in classes.items()}))


def took(ports: Switch) -> dict[str, list[int]]:
    """What a PFC frame did to each priority."""
    counted = ports.maps.counters[SWP1]["priority"]
    return {name: counted[name].tolist() for name in ("rx_pause", "rx_resume", "rx_pause_ignored")}


def only(*priorities: int) -> list[int]:
    return [int(priority in priorities) for priority in range(8)]


NOTHING = {"rx_pause": only(), "rx_resume": only(), "rx_pause_ignored": only()}


class TestPfc:
    @pytest.mark.parametrize("rate", [20_000_000, RATE, 25_000_000_000, 400_000_000_000])
    def test_a_timer_is_512_bit_times_of_the_link_for_each_quantum(self, ports: Switch, rate: int) -> None:
        ports.reset(replace(PORT, rate=rate))
        quanta = {3: 1, 4: 0x8000, 6: 7, 7: 0xFFFF}
        assert ports.rx(build.pfc(PEER, PfcFrame.of(quanta))).verdict == SHOT
        counted = ports.maps.counters[SWP1]["priority"]
        for priority, number in quanta.items():
            length = int(counted[priority]["paused_until"] - counted[priority]["paused_from"])
            assert length == number * 512 * NS // rate
            assert length == pytest.approx(quanta_to_seconds(number, rate) * NS, abs=1)

    @pytest.mark.parametrize("priority", range(8))
    def test_each_class_has_its_own_timer_where_pauses_are_honoured(self, ports: Switch, priority: int) -> None:
        honoured = PORT.pfc.priorities >> priority & 1
        assert ports.rx(pfc(**{f"p{priority}": 100})).verdict == SHOT
        name = "rx_pause" if honoured else "rx_pause_ignored"
        assert took(ports) == NOTHING | {name: only(priority)}
        assert ports.maps.counters[SWP1]["rx_pfc"] == 1
        counted = ports.maps.counters[SWP1]["priority"]["paused_until"]
        assert (counted > 0).tolist() == [bool(flag and honoured) for flag in only(priority)]

    def test_xon_ends_the_pause_of_its_class_alone(self, ports: Switch) -> None:
        ports.rx(pfc(p3=0xFFFF, p4=0xFFFF))
        counted = ports.maps.counters[SWP1]["priority"]
        before = counted.copy()
        ports.rx(pfc(p3=0))
        assert took(ports) == {"rx_pause": only(3, 4), "rx_resume": only(3), "rx_pause_ignored": only()}
        assert counted[4].tolist() == before[4].tolist()
        assert counted[3]["paused_until"] == counted[3]["paused_from"] < before[3]["paused_until"]
        assert counted[3]["paused_ns"] == counted[3]["paused_from"] - before[3]["paused_from"] > 0
        kinds = ports.maps.events["kind"][:3].tolist()
        assert kinds == [EventKind.PAUSED, EventKind.PAUSED, EventKind.RESUMED]

    def test_a_refreshed_pause_counts_time_once(self, ports: Switch) -> None:
        began = time.monotonic_ns()
        for _ in range(20):
            ports.rx(pfc(p3=0xFFFF))
        counted = ports.maps.counters[SWP1]["priority"][3]
        assert counted["rx_pause"] == 20
        assert counted["paused_ns"] <= counted["paused_from"] - began
        assert ports.maps.event_count[0] == 1  # it was one pause

    def test_a_pause_that_runs_out_has_an_end(self, ports: Switch) -> None:
        """One of 1 quantum, 5.12 us, over long before the next frame: that tells when it was."""
        ports.rx(pfc(p3=1))
        ran_out = int(ports.maps.counters[SWP1]["priority"]["paused_until"][3])
        waited(lambda: time.monotonic_ns() > ran_out, "the pause to run out")
        (unsaid,) = expired(ports.maps.counters["priority"], time.monotonic_ns())
        ports.rx(pfc(p3=0))
        assert [int(kind) for kind in ports.maps.events["kind"][:2]] == [EventKind.PAUSED, EventKind.EXPIRED]
        told = ports.maps.events[1]
        assert int(told["ns"]) == ran_out
        assert told.tolist()[:-1] == unsaid.tolist()[:-1], "as user space had said, but for the number"
        assert int(ports.maps.event_count[0]) == 2
        assert not len(expired(ports.maps.counters["priority"], time.monotonic_ns()))

    def test_a_pause_that_is_ended_has_not_run_out(self, ports: Switch) -> None:
        ports.rx(pfc(p3=0xFFFF))
        ports.rx(pfc(p3=0))
        ports.rx(pfc(p3=0))
        assert [int(kind) for kind in ports.maps.events["kind"][:2]] == [EventKind.PAUSED, EventKind.RESUMED]
        assert int(ports.maps.event_count[0]) == 2

    @pytest.mark.parametrize("ended", ["by an XON", "by its time"])
    def test_an_xon_for_what_is_not_paused_changes_nothing_but_its_count(self, ports: Switch, ended: str) -> None:
        """The pause ended when it ended: whoever counts from there, as the watchdog does, counts on."""
        live = ports.maps.counters[SWP1]["priority"][3]
        ports.rx(pfc(p3=0xFFFF if ended == "by an XON" else 1))
        if ended == "by an XON":
            ports.rx(pfc(p3=0))
        over, paused = int(live["paused_until"]), int(live["paused_ns"])
        waited(lambda: time.monotonic_ns() > over, "the pause to run out")
        for _ in range(5):
            ports.rx(pfc(p3=0))
        assert live["paused_until"] == over
        assert live["paused_ns"] == (paused if ended == "by an XON" else 5120), "512 bits at 100 Mb/s"
        assert live["rx_resume"] == 5 + (ended == "by an XON")
        state = ports.maps.ports["state"][SWP1]
        assert state["pause_until"][PORT.priority_to_queue[3]] == over
        ports.rx(pfc(p3=0xFFFF))
        assert live["paused_until"] > over, "the next XOFF pauses again"

    def test_xons_of_one_priority_do_not_move_the_end_of_another_s_pause(self, ports: Switch) -> None:
        """Both wait in one queue, whose pause is the longer of the two."""
        ports.reset(replace(PORT, priority_to_queue=(1, 0, 2, 3, 3, 5, 6, 7)))
        ports.rx(pfc(p3=0xFFFF, p4=0xFFFF))
        ports.rx(pfc(p3=0, p4=0))
        over = int(ports.maps.ports["state"][SWP1]["pause_until"][3])
        for _ in range(5):
            ports.rx(pfc(p4=0))
        assert ports.maps.ports["state"][SWP1]["pause_until"][3] == over

    def test_the_reserved_octet_of_the_vector_is_ignored(self, ports: Switch) -> None:
        frame = build.pfc(PEER, PfcFrame(0xFF08, (9,) * 8))
        assert ports.rx(frame) == Outcome(SHOT, frame, 0)
        assert took(ports) == NOTHING | {"rx_pause": only(3)}

    def test_nothing_is_honoured_where_reception_is_off(self, ports: Switch) -> None:
        ports.reset(replace(PORT, pfc=replace(PORT.pfc, rx=False)))
        ports.rx(build.pfc(PEER, PfcFrame(0xFF, (0xFFFF,) * 8)))
        assert took(ports) == NOTHING | {"rx_pause_ignored": only(*range(8))}
        assert not ports.maps.counters[SWP1]["priority"]["paused_until"].any()

    @pytest.mark.parametrize(
        ("at", "octets", "counter"),
        [
            (0, "0180c2000002", "rx_pfc_invalid"),
            (0, MAC.replace(":", ""), "rx_pfc_invalid"),
            (0, "ffffffffffff", "rx_pfc_invalid"),
            (14, "0102", "rx_pfc_invalid"),
            (14, "0001", "rx_global_pause"),
        ],
    )
    def test_other_mac_control_frames_are_counted_and_taken(
        self, ports: Switch, at: int, octets: str, counter: str
    ) -> None:
        frame = bytearray(pfc(p3=100))
        frame[at : at + len(octets) // 2] = bytes.fromhex(octets)
        assert ports.rx(bytes(frame)) == Outcome(SHOT, bytes(frame), 0)
        assert took(ports) == NOTHING
        counted = ports.maps.counters[SWP1]
        assert [int(counted[name]) for name in ("rx_pfc", counter)] == [0, 1]

    def test_a_pause_of_the_whole_link_is_not_ours(self, ports: Switch) -> None:
        assert ports.rx(build.pause(PEER, PauseFrame(100))).verdict == SHOT
        assert ports.maps.counters[SWP1]["rx_global_pause"] == 1
        assert took(ports) == NOTHING

    def test_a_frame_cut_off_at_any_octet_sets_nothing(self, ports: Switch) -> None:
        """Its last timer ends at octet 34; what follows fills the frame up."""
        frame = build.pfc(PEER, PfcFrame(0xFF, (1,) * 8))
        for size in range(15, len(frame)):
            ports.reset()
            assert ports.rx(frame[:size]) == Outcome(SHOT, frame[:size], 0)
            counted = ports.maps.counters[SWP1]
            assert [int(counted[name]) for name in ("rx_pfc", "rx_pfc_invalid")] == [size >= 34, size < 34]
            assert any(took(ports)["rx_pause"]) == (size >= 34)


QPNS = itertools.count(17)
"""One for each test: ports remember the newest PSN of each."""
BOTH = pytest.mark.parametrize("path", PATHS, ids=["IPv4", "IPv6"])


class TestNotifications:
    """CNPs are counted, and go on as data does."""

    @pytest.mark.parametrize("tag", [None, Tag(7, 6)])
    @BOTH
    def test_a_cnp_is_counted(self, ports: Switch, path: build.Path, tag: Tag | None) -> None:
        assert ports.rx(build.cnp(replace(path, tag=tag), 0x12)).verdict == UNSPEC
        assert ports.maps.counters[SWP1]["rx_cnp"] == 1

    @pytest.mark.parametrize("at", [9, 22, 28], ids=["no UDP", "another port", "another opcode"])
    def test_what_only_looks_like_one_is_not(self, ports: Switch, at: int) -> None:
        """Octets of the IP packet: the protocol, the destination port, the opcode; and the length."""
        frame = build.cnp(PATHS[0], 0x12)
        for other in (frame[: 14 + at] + b"\x0e" + frame[15 + at :], frame + b"\0", frame[:-1]):
            ports.rx(other)
        assert ports.maps.counters[SWP1]["rx_cnp"] == 0


class TestAcknowledgements:
    """Of the kernel's own packets, with their tags: which packets count is in tests/unit/dataplane."""

    @pytest.mark.parametrize("vni", [None, 100], ids=["plain", "tunnel"])
    @pytest.mark.parametrize("tag", [None, Tag(7, 6)])
    @BOTH
    def test_one_behind_a_newer_one_is_counted(
        self, ports: Switch, path: build.Path, tag: Tag | None, vni: int | None
    ) -> None:
        qpn = next(QPNS)
        for psn in (8, 7, 8, 9):
            message = build.RoceMessage(Opcode.RC_ACKNOWLEDGE, qpn, psn=psn, aeth=Aeth(Syndrome.decode(0x1F), 0))
            frame = build.rocev2(path if vni else replace(path, tag=tag), message)
            frame = build.vxlan(replace(PATHS[0], tag=tag), vni, frame) if vni else frame
            assert ports.rx(frame).verdict == UNSPEC
            assert ports.tx(frame, port=SWP1).verdict == UNSPEC
            assert ports.tx(frame, port=SWP2).verdict == UNSPEC
        counted = ports.maps.counters[[SWP1, SWP2]]
        assert counted["rx_ack_out_of_order"].tolist() == [1, 0]
        assert counted["tx_ack_out_of_order"].tolist() == [1, 1]


TYPES = st.sampled_from([b"\x08\x00", b"\x08\x06", b"\x86\xdd", b"\x88\x08", b"\x81\x00"]) | st.binary(
    min_size=2, max_size=2
)
TAGS = st.just(b"") | st.binary(min_size=2, max_size=2).map(b"\x81\x00".__add__)
MACS = st.binary(min_size=12, max_size=12) | st.just(bytes.fromhex("0180c2000001 020000000022"))
PACKETS = st.tuples(MACS, TAGS, TYPES, st.binary(min_size=1, max_size=80)).map(b"".join)
ND = {bytes([type_]) for type_ in range(133, 138)}
SHORTEST = {0x0800: 34, 0x86DD: 54}
"""BPF_PROG_TEST_RUN refuses an IP packet without its whole header."""


def priority_of(packet: bytes) -> int:
    """The priority of a packet where DSCP is trusted, read independently of the program."""
    kind, at = word(packet, 12), 14
    if kind == 0x8100 and len(packet) >= 18:
        kind, at = word(packet, 16), 18
    if kind == 0x0806 or (kind == 0x86DD and packet[at + 6 : at + 7] == b"\x3a" and packet[at + 40 : at + 41] in ND):
        return PORT.dscp_to_priority[48]
    if kind not in SHORTEST or len(packet) < at + 2:
        return PORT.dscp_to_priority[0]
    return PORT.dscp_to_priority[word(packet, at) >> (2 if kind == 0x0800 else 6) & 0x3F]


def word(packet: bytes, at: int) -> int:
    return int.from_bytes(packet[at : at + 2])


@settings(max_examples=150, deadline=None)
@given(PACKETS)
def test_any_octets_are_only_counted_and_marked(built: Switch, packet: bytes) -> None:
    assume(len(packet) >= SHORTEST.get(word(packet, 12), 15))
    before = built.maps.counters[SWP2].copy()
    outcome = built.rx(packet)
    if packet[12:14] == b"\x88\x08":
        assert (outcome.verdict, outcome.packet) == (SHOT, packet)
    else:
        assert outcome == passed(packet, priority_of(packet))
    assert built.maps.counters[SWP2] == before
