"""A NIC as a notification point: which packets it answers with a CNP, what is in it, and how often."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapWriter

from lab.model.qos.congestion.cc_presets import CC_PRESETS
from lab.model.qos.congestion.cc_registers import CcQos, CnpModeration
from lab.wire import opcodes
from lab.wire.craft import build
from lab.wire.headers import Aeth, Reth, Tag
from lab.wire.rocev2 import BTH, CNP
from lab.wire.syndrome import AckKind, Syndrome
from tests.fabric.command import rocelab
from tests.vm.one_switch import waited
from tests.vm.port_programs import MAC, PORT, RATE, STOLEN, SWP1, UNSPEC, Switch, switch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PEER = "02:00:00:00:00:22"
CE = 3
OURS, THEIRS = 0x12, 0xABCDEF
"""QPNs, which are in no two octets the same."""
PATHS = (
    build.Path(PEER, MAC, "10.9.0.1", "10.9.0.2", entropy=0xC123, ecn=CE),
    build.Path(PEER, MAC, "fdc9::1", "fdc9::2", entropy=0xC123, ecn=CE),
)
OTHER = replace(PATHS[0], src="10.9.0.7")
BOTH = pytest.mark.parametrize("path", PATHS, ids=["IPv4", "IPv6"])
APART = 0.005
"""Seconds between two CNPs: more than a test takes for some packets, in virtual time."""
WRITE = opcodes.Opcode.RC_RDMA_WRITE_ONLY
ACK = Aeth(Syndrome(AckKind.ACK, 0), 1)


def notifying(scope: CnpModeration = CnpModeration.QP, apart: float = APART, dscp: int = 48) -> CcQos:
    """A NIC that answers marks, with registers that are not scaled."""
    published = CC_PRESETS["connectx"].registers
    registers = replace(published, min_time_between_cnps=apart, cnp_dscp=dscp, cnp_802p_prio=5)
    preset = replace(CC_PRESETS["connectx"], real_rate=RATE, registers=registers, moderation=scope)
    return replace(preset.qos(RATE, 1500), rp=False)


@pytest.fixture(scope="module")
def built() -> Iterator[Switch]:
    with switch() as made:
        yield made


@pytest.fixture
def nic(built: Switch) -> Switch:
    built.reset(replace(PORT, cc=notifying()))
    for path in PATHS:
        built.connect(path.dst, OURS, path.src, THEIRS)
    return built


def write(path: build.Path, qpn: int = OURS, opcode: opcodes.Opcode = WRITE, size: int = 1024) -> bytes:
    """An RDMA write."""
    return build.rocev2(path, build.RoceMessage(opcode, qpn, reth=Reth(0, 1, size), payload=bytes(size)))


def answer(path: build.Path, qpn: int = THEIRS, dscp: int = 48, tag: Tag | None = None) -> bytes:
    """The CNP that answers a packet, built by scapy with zlib's CRC; IPv4 identification and UDP checksum are 0."""
    back = replace(
        path, src_mac=path.dst_mac, dst_mac=path.src_mac, src=path.dst, dst=path.src, dscp=dscp, ecn=0, tag=tag
    )
    layers = back.layers()
    if IP in layers:
        layers[IP].id = 0
    layers[UDP].chksum = 0
    return bytes(layers / BTH(DestQP=qpn, M=0) / CNP())


def counted(nic: Switch) -> dict[str, int]:
    """The counters of the notification point that are not 0."""
    names = (name for name in nic.maps.counters.dtype.names or () if name.startswith(("np_", "rp_")))
    return {
        name.removeprefix("np_"): int(nic.maps.counters[SWP1][name])
        for name in names
        if nic.maps.counters[SWP1][name]
    }


class TestAnswer:
    @BOTH
    @pytest.mark.parametrize("size", [0, 16, 1024, 4096])
    def test_a_marked_packet_is_answered_with_a_cnp_exact_in_every_octet(
        self, nic: Switch, path: build.Path, size: int
    ) -> None:
        with nic.wire() as wire:
            wire.send(write(path, size=size))
            assert wire.next() == answer(path)
            assert wire.is_silent()
        assert counted(nic) == {"ecn_marked_roce_packets": 1, "cnp_sent": 1}

    @BOTH
    def test_tshark_and_dissect_read_what_was_meant(self, nic: Switch, path: build.Path, tmp_path: Path) -> None:
        """Scapy's opinion is the test above."""
        with nic.wire() as wire:
            wire.send(write(path))
            frame = wire.next()
        file = tmp_path / "cnp.pcap"
        with RawPcapWriter(str(file), linktype=1) as writer:
            writer.write(frame)
        fields = ("opcode", "destqp", "p_key", "psn", "se", "a")
        argv = ["tshark", "-r", str(file), "-Tfields", *(f"-einfiniband.bth.{name}" for name in fields)]
        said = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout.split()
        truth = {"False": 0, "True": 1}
        read = [truth[word] if word in truth else int(word, 0) for word in said]
        assert read == [0x81, THEIRS, 0xFFFF, 0, 0, 0]
        for words, lines in (("cnp and qpn==0xabcdef and dscp==48", 1), ("icrc==bad", 0)):
            said = rocelab("dissect", file, "--summary", "--filter", words).stdout.splitlines()
            assert len(said) == lines, said

    def test_its_dscp_and_its_priority_are_those_of_the_register(self, nic: Switch) -> None:
        nic.reset(replace(PORT, cc=notifying(dscp=26)))
        nic.connect(PATHS[0].dst, OURS, PATHS[0].src, THEIRS)
        with nic.wire() as wire:
            wire.send(write(PATHS[0]))
            assert wire.next() == answer(PATHS[0], dscp=26)
        sent = nic.maps.counters[SWP1]["priority"]["tx_bytes"]
        assert sent.tolist() == [74 * (number == PORT.dscp_to_priority[26]) for number in range(8)]

    def test_a_tag_goes_back_with_the_priority_of_the_register(self, nic: Switch) -> None:
        with nic.wire() as wire:
            wire.send(write(replace(PATHS[0], tag=Tag(vlan=100, pcp=3))))
            assert wire.next_tagged() == (100 | 5 << 13, answer(PATHS[0]))

    def test_a_read_response_is_data_as_well(self, nic: Switch) -> None:
        response = build.RoceMessage(opcodes.Opcode.RC_RDMA_READ_RESPONSE_ONLY, OURS, aeth=ACK, payload=bytes(64))
        with nic.wire() as wire:
            wire.send(build.rocev2(PATHS[0], response))
            assert wire.next() == answer(PATHS[0])


class TestNoAnswer:
    @pytest.mark.parametrize(
        ("packet", "expected"),
        [
            (write(replace(PATHS[0], ecn=2)), {}),
            (bytes(Ether(src=PEER, dst=MAC) / IP(src="10.9.0.1", dst="10.9.0.2", tos=3) / bytes(40)), {}),
            (write(PATHS[0], qpn=OURS + 1), {"ecn_marked_roce_packets": 1, "cnp_no_qp": 1}),
            (write(OTHER), {"ecn_marked_roce_packets": 1, "cnp_no_qp": 1}),
            (write(PATHS[0])[:50], {}),
            (
                build.rocev2(
                    PATHS[0],
                    build.RoceMessage(opcodes.Opcode.RC_ACKNOWLEDGE, OURS, aeth=ACK),
                ),
                {"ecn_marked_roce_packets": 1},
            ),
        ],
        ids=["not marked", "no RoCE", "unknown QP", "another peer", "cut off", "an acknowledgement"],
    )
    def test_of_what_calls_for_none(self, nic: Switch, packet: bytes, expected: dict[str, int]) -> None:
        with nic.wire() as wire:
            assert nic.rx(packet).verdict == UNSPEC
            assert wire.is_silent()
        assert counted(nic) == expected

    def test_where_the_nic_is_no_notification_point(self, nic: Switch) -> None:
        nic.reset(PORT)
        with nic.wire() as wire:
            assert nic.rx(write(PATHS[0])).verdict == UNSPEC
            assert nic.rx(build.cnp(PATHS[0], OURS)).verdict == UNSPEC
            assert wire.is_silent()
        assert counted(nic) == {}


class TestModeration:
    @pytest.mark.parametrize(
        ("scope", "answers"), [(CnpModeration.QP, 4), (CnpModeration.DESTINATION, 2), (CnpModeration.PORT, 1)]
    )
    def test_its_scope_is_a_qp_a_destination_or_the_port(
        self, nic: Switch, scope: CnpModeration, answers: int
    ) -> None:
        nic.reset(replace(PORT, cc=notifying(scope, apart=10.0)))
        for path in (PATHS[0], OTHER):
            for qpn in (OURS, OURS + 1):
                nic.connect(path.dst, qpn + (path is OTHER) * 8, path.src, THEIRS)
        for _ in range(2):
            for path in (PATHS[0], OTHER):
                for qpn in (OURS, OURS + 1):
                    nic.rx(write(path, qpn + (path is OTHER) * 8))
        expected = {"ecn_marked_roce_packets": 8, "cnp_sent": answers, "cnp_suppressed": 8 - answers}
        assert counted(nic) == expected

    def test_two_cnps_are_never_closer_than_the_minimum(self, nic: Switch) -> None:
        """The reverse direction is otherwise silent, so nothing holds one CNP up and not the next."""
        nic.reset(replace(PORT, cc=notifying(apart=4 * APART)))
        nic.connect(PATHS[0].dst, OURS, PATHS[0].src, THEIRS)
        with nic.stamped_wire() as wire:
            for _ in range(40):
                wire.send(write(PATHS[0], size=16))
            waited(lambda: counted(nic).get("ecn_marked_roce_packets", 0) == 40, "all to come")
            times = [wire.next_stamped()[0] for _ in range(counted(nic)["cnp_sent"])]
            assert wire.is_silent()
        assert all(later - earlier >= 4 * APART for earlier, later in pairwise(times))
        assert counted(nic)["cnp_suppressed"] == 40 - len(times) > 0


class TestArrival:
    @BOTH
    def test_a_cnp_ends_in_the_nic(self, nic: Switch, path: build.Path) -> None:
        for qpn in (OURS, 0x777):
            assert nic.rx(build.cnp(replace(path, ecn=0), qpn)).verdict == STOLEN
        assert counted(nic) == {"rp_cnp_ignored": 2}
        assert nic.maps.counters[SWP1]["rx_cnp"] == 2


def test_ipv6_is_in_the_frames() -> None:
    """The IPv6 cases would otherwise be the IPv4 ones twice."""
    assert IPv6 in Ether(answer(PATHS[1]))
