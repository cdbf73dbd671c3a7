"""Impairments on links that carry traffic: real RDMA notices, and no counter of a device does.

The judges are ping(8), rxe's own counters, ip(8), tc(8), bpftool(8) and tshark.
"""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from lab.dataplane import impair
from lab.dataplane.impair import LAST_PLACE, ImpairmentHook
from lab.errors import LabError, OperationFailed, UsageError
from lab.kernel.netlink.tc_hooks import Hook
from lab.kernel.packets.live_capture import LiveCapture, Point
from lab.kernel.process import netns
from lab.kernel.process.netns import Namespace
from lab.model.impairment import Impairment, Traffic
from lab.rdma import device_counters
from lab.rdma.measure import BandwidthTest
from lab.rdma.perftest import measure_bandwidth
from lab.wire.opcodes import Opcode
from lab.wire.pcapng import Writer
from tests import splitmix
from tests.pings import Echoes, ping
from tests.unit.wire.opinions import ask_tshark
from tests.vm.one_switch import SWITCH, Star, balanced, build, pfc, ports, settle, star, waited

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path as File

    from tests.vm.conftest import Path

pytestmark = [pytest.mark.vm, pytest.mark.timeout(300)]

SEED = 20161
WRITES = frozenset({Opcode.RC_RDMA_WRITE_FIRST, Opcode.RC_RDMA_WRITE_MIDDLE, Opcode.RC_RDMA_WRITE_LAST})
PINGS = 200
QUIET = 5.0
"""Seconds in which the kernel frees what nobody uses any more."""
ROCE = frozenset({Traffic.ROCE})
BUSY = BandwidthTest(duration=None, iterations=60)
"""Of 64 KiB: 960 packets, and what is sent again."""


@contextmanager
def impaired(place: ImpairmentHook, impairment: Impairment) -> Iterator[ImpairmentHook]:
    impair.apply(place, impairment)
    try:
        yield place
    finally:
        impair.remove(place)


def index_of(space: Namespace, interface: str) -> int:
    return int(json.loads(space.run(["ip", "-json", "link", "show", interface]).stdout)[0]["ifindex"])


def at(space: Namespace, interface: str, hook: Hook = Hook.INGRESS, order: int = 1) -> ImpairmentHook:
    return ImpairmentHook(space, index_of(space, interface), hook, order)


def shown(space: Namespace, interface: str) -> dict[str, Any]:
    """What tc and ip show of an interface: its qdiscs and filters, and every counter of errors or drops."""
    (link,) = json.loads(space.run(["ip", "-json", "-s", "-s", "link", "show", interface]).stdout)
    stats = {
        f"{way} {name}": value
        for way, values in link["stats64"].items()
        for name, value in values.items()
        if name not in {"bytes", "packets"}
    }
    qdiscs = json.loads(space.run(["tc", "-json", "-s", "qdisc", "show", "dev", interface]).stdout)
    filters = space.run(["tc", "filter", "show", "dev", interface, "ingress"]).stdout
    filters += space.run(["tc", "filter", "show", "dev", interface, "egress"]).stdout
    return {
        "errors": stats,
        "qdiscs": [(qdisc["kind"], qdisc["handle"], qdisc.get("options")) for qdisc in qdiscs],
        "drops": {qdisc["kind"]: qdisc["drops"] for qdisc in qdiscs},
        "filters": filters,
    }


def loaded() -> set[tuple[str, int]]:
    """All programs and maps in the kernel, by bpftool."""
    found = set()
    for kind in ("prog", "map"):
        said = subprocess.run(["bpftool", "-j", kind], capture_output=True, text=True, timeout=60, check=True).stdout
        found |= {(kind, int(each["id"])) for each in json.loads(said)}
    return found


def moved(before: dict[str, int], device: str, *names: str) -> list[int]:
    after = device_counters.read(device)
    return [after[name] - before[name] for name in names]


class TestRdma:
    """h1 -- router -- h2, on plain links: queue pairs miss packets, and nothing but their counters says so."""

    def test_one_packet_in_a_hundred_is_lost_and_no_device_says_so(self, path: Path) -> None:
        h2, before = device_counters.read(path.device("h2")), shown(path.b, "eth1")
        with impaired(at(path.b, "eth1"), Impairment(lose_every=100, traffic=ROCE)) as place:
            measure_bandwidth([path.pair], BUSY)
            done, during = impair.read(place), shown(path.b, "eth1")
        assert done.lost == done.matched // 100 >= 9
        assert sum(done.opcode_struck.values()) == done.lost
        passed_on = done.matched - done.lost
        waited(lambda: moved(h2, path.device("h2"), "rcvd_pkts") == [passed_on], "rxe to have received the others")
        assert moved(h2, path.device("h2"), "out_of_seq_request") >= [1]
        assert during["errors"] == before["errors"]
        assert during["drops"] == {**before["drops"], "clsact": 0}
        assert shown(path.b, "eth1") == before

    @pytest.mark.long
    def test_a_corrupted_payload_arrives_and_the_nic_drops_it(self, path: Path) -> None:
        """Corrupted on the router's way in: IP and UDP at h2 find nothing wrong, and rxe takes what is left."""
        h2, before = device_counters.read(path.device("h2")), udp_errors(path.b)
        asked = Impairment(corrupt_payload=0.02, seed=SEED, opcodes=WRITES)
        watching = Impairment(traffic=ROCE)
        with (
            impaired(at(path.router, "swp1"), asked) as place,
            impaired(at(path.b, "eth1"), watching) as nic,
        ):
            measure_bandwidth([path.pair], BUSY)
            done, arrived = impair.read(place), impair.read(nic)
        numbers = splitmix.chosen(SEED, splitmix.PAYLOAD, done.matched, 0.02)
        assert done.corrupted_payloads == len(numbers) > 5
        left = arrived.matched - done.corrupted_payloads
        waited(lambda: moved(h2, path.device("h2"), "rcvd_pkts") == [left], "rxe to have received the others")
        assert moved(h2, path.device("h2"), "out_of_seq_request") >= [1]
        assert udp_errors(path.b) == before

    @pytest.mark.long
    def test_every_duplicate_is_one_to_the_receiver(self, path: Path) -> None:
        h2 = device_counters.read(path.device("h2"))
        with impaired(at(path.b, "eth1"), Impairment(duplicate=0.05, seed=SEED, opcodes=WRITES)) as place:
            measure_bandwidth([path.pair], BUSY)
            done = impair.read(place)
        assert done.duplicated == len(splitmix.chosen(SEED, splitmix.DUPLICATE, done.matched, 0.05)) > 10
        waited(
            lambda: moved(h2, path.device("h2"), "duplicate_request") == [done.duplicated],
            "rxe to have seen every duplicate",
        )

    def test_a_nic_that_sets_no_ect_sends_what_tshark_reads(self, path: Path, tmp_path: File) -> None:
        """Rewritten before the queue of h1's own link: what the router captures has neither DSCP 26 nor ECT."""
        assert codepoints(path, tmp_path) == {("26", "2")}
        with impaired(at(path.a, "eth1", Hook.EGRESS), Impairment(dscp=8, clear_ecn=True, traffic=ROCE)):
            assert codepoints(path, tmp_path) == {("8", "0")}
        assert codepoints(path, tmp_path) == {("26", "2")}


def udp_errors(space: Namespace) -> str:
    """What IP and UDP have discarded for any reason, by nstat(8)."""
    names = ("IpInHdrErrors", "IpInDiscards", "UdpInErrors", "UdpInCsumErrors")
    return space.run(["nstat", "-asz", "--json", *names]).stdout


def codepoints(path: Path, folder: File) -> set[tuple[str, str]]:
    """DSCP and ECN of all RoCEv2 packets that h1 sends in a short run, by tshark at the other end of its link."""
    file = folder / "sent.pcapng"
    with file.open("wb") as output, LiveCapture([Point(path.router, "swp1", "swp1")], Writer(output)) as capture:
        capture.start()
        measure_bandwidth([path.pair], BandwidthTest(duration=None, iterations=10))
        capture.stop()
    rows = ask_tshark(file, "infiniband.bth.opcode", "ip.src", "ip.dsfield.dscp", "ip.dsfield.ecn")
    return {(dscp, ecn) for opcode, source, dscp, ecn in rows if opcode and source == "10.9.0.1"}


@pytest.fixture(scope="module")
def fabric() -> Iterator[Star]:
    with build(star(2, "100Mbit", 1500)) as made:
        yield made


def port(fabric: Star, node: str, interface: str, hook: Hook = Hook.INGRESS, order: int = 1) -> ImpairmentHook:
    return ImpairmentHook(fabric.namespaces[node], fabric.numbering.index(node, interface), hook, order)


def rounds(fabric: Star, count: int = PINGS) -> Echoes:
    """Pings from h1 to h2, by the switch."""
    return ping(fabric.namespaces["h1"], fabric.address("h2"), count)


class TestPorts:
    """h1 -- s1 -- h2 with emulated ports: what befalls a packet does so before the port sees it."""

    @pytest.mark.parametrize(("node", "interface"), [(SWITCH, "swp1"), ("h2", "eth1")])
    @pytest.mark.parametrize("hook", list(Hook))
    def test_what_is_lost_is_what_the_seed_says(self, fabric: Star, node: str, interface: str, hook: Hook) -> None:
        with impaired(port(fabric, node, interface, hook), Impairment(loss=0.1, seed=SEED)) as place:
            echoes = rounds(fabric)
            done = impair.read(place)
        expected = splitmix.chosen(SEED, splitmix.LOSS, done.matched, 0.1)
        assert (done.matched, done.lost) == (PINGS, len(expected))
        assert echoes.lost == expected

    def test_no_counter_of_the_port_shows_it(self, fabric: Star) -> None:
        """s1 has received less than h1 has sent, and every packet that it knows of has been sent on."""
        before, sent = shown(fabric.namespaces[SWITCH], "swp1"), fabric.counters("h1")
        came = fabric.counters(SWITCH, "swp1")
        with impaired(port(fabric, SWITCH, "swp1"), Impairment(lose_every=4)) as place:
            echoes = rounds(fabric)
            during, done = shown(fabric.namespaces[SWITCH], "swp1"), impair.read(place)
        assert (done.matched, done.lost, len(echoes.lost)) == (PINGS, PINGS // 4, PINGS // 4)
        settle(fabric)
        received = fabric.counters(SWITCH, "swp1")["priority"]["rx_packets"] - came["priority"]["rx_packets"]
        left = fabric.counters("h1")["priority"]["tx_packets"] - sent["priority"]["tx_packets"]
        assert int(left.sum()) - int(received.sum()) == done.lost
        assert all(balanced(counted) for counted in ports(fabric).values())
        assert not any(counted["queue"]["drop_packets"].any() for counted in ports(fabric).values())
        assert (during["errors"], during["drops"]) == (before["errors"], before["drops"])

    def test_one_direction_may_be_dead(self, fabric: Star) -> None:
        """Nothing reaches h1, of whatever kind, and all that it sends is received."""
        received = fabric.live("h2")["priority"]["rx_packets"]
        before = int(received.sum())
        with impaired(port(fabric, "h1", "eth1"), Impairment(loss=1.0, traffic=frozenset(Traffic))):
            assert rounds(fabric, 20).lost == list(range(20))
        assert int(received.sum()) - before == 20

    def test_pauses_are_lost_only_where_that_is_asked_for(self, fabric: Star) -> None:
        taken = fabric.live(SWITCH, "swp1")
        before = int(taken["rx_pfc"])
        with fabric.wire("h1") as wire, impaired(port(fabric, SWITCH, "swp1"), Impairment(loss=1.0)):
            wire.send(pfc({3: 1}))
            waited(lambda: taken["rx_pfc"] == before + 1, "the frame to be taken")
        asked = Impairment(loss=1.0, traffic=frozenset({Traffic.PAUSES}))
        with fabric.wire("h1") as wire, impaired(port(fabric, SWITCH, "swp1"), asked) as place:
            wire.send(pfc({3: 1}))
            waited(lambda: impair.read(place).lost == 1, "the frame to be lost")
            assert rounds(fabric, 10).lost == []
        assert taken["rx_pfc"] == before + 1

    def test_several_take_turns_in_the_order_of_their_places(self, fabric: Star) -> None:
        """The second numbers what the first has left."""
        first, second = (port(fabric, SWITCH, "swp1", order=order) for order in (20, 30))
        with impaired(second, Impairment(lose_every=5)), impaired(first, Impairment(lose_every=4)):
            assert impair.applied(first.namespace, first.index) == [first, second]
            lost = rounds(fabric, 40).lost
            assert impair.read(second).matched == 30
        left = [number for number in range(40) if number % 4 != 3]
        assert lost == sorted({*range(3, 40, 4), *left[4::5]})

    def test_copies_meet_what_is_behind_their_place_and_not_what_is_before(self, fabric: Star) -> None:
        """Each place duplicates once what has not been there: 4 of a packet, and h2 answers them all."""
        first, second = (port(fabric, SWITCH, "swp1", order=order) for order in (1, LAST_PLACE))
        twice = Impairment(duplicate=1.0)
        with impaired(first, twice), impaired(second, twice):
            echoes = rounds(fabric, 10)
            counts = impair.read(first), impair.read(second)
        assert [(each.matched, each.duplicated) for each in counts] == [(10, 10), (20, 20)]
        answered = [number for number, _ in echoes.answers if number < 9]  # ping ends with the first of the last
        assert sorted(answered) == sorted([*range(9)] * 4)


class TestInverse:
    """As it was before: interfaces by tc, the kernel's programs and maps by bpftool."""

    @pytest.mark.parametrize("lossless", [True, False], ids=["port", "plain"])
    def test_nothing_is_left(self, fabric: Star, path: Path, lossless: bool) -> None:
        space, interface = (fabric.namespaces[SWITCH], "swp1") if lossless else (path.router, "swp1")
        before, kernel = shown(space, interface), loaded()
        places = [at(space, interface, hook, order) for hook in Hook for order in (1, 2)]
        for place in places:
            impair.apply(place, Impairment(loss=0.5))
        assert impair.applied(space, places[0].index) == places
        assert len(loaded() - kernel) == 3 * len(places)  # a program, its constants and its truth
        for place in (places[2], places[0], places[3], places[1]):
            assert shown(space, interface) != before
            impair.remove(place)
            impair.remove(place)
        assert shown(space, interface) == before
        waited(lambda: loaded() == kernel, "the kernel to free them", QUIET)

    def test_somebody_s_hooks_and_filters_stay(self, path: Path) -> None:
        tc = ["tc", "qdisc", "add", "dev", "swp1", "clsact"]
        path.router.run(tc)
        try:
            before = shown(path.router, "swp1")
            with impaired(at(path.router, "swp1"), Impairment(loss=0.5)):
                pass
            assert shown(path.router, "swp1") == before
        finally:
            path.router.run([*tc[:2], "del", *tc[3:]])
        anything = ["prio", "7", "u32", "match", "u32", "0", "0"]
        with impaired(at(path.router, "swp1"), Impairment(loss=0.5)):
            path.router.run(["tc", "filter", "add", "dev", "swp1", "egress", "protocol", "all", *anything])
        try:
            assert "u32" in shown(path.router, "swp1")["filters"]
        finally:
            path.router.run([*tc[:2], "del", *tc[3:]])

    def test_all_goes_with_the_interface(self) -> None:
        kernel = loaded()
        space = Namespace(f"rv-{os.getpid()}-doomed")
        netns.create([space.name])
        try:
            impair.apply(at(space, "lo"), Impairment(loss=0.5))
            assert len(loaded() - kernel) == 3
        finally:
            netns.delete([space.name])
        waited(lambda: loaded() <= kernel, "the kernel to free them", QUIET)


class TestRefused:
    def test_a_place_that_is_taken_or_is_none(self, path: Path) -> None:
        before = shown(path.router, "swp1")
        with impaired(at(path.router, "swp1", order=9), Impairment(loss=0.5)) as place:
            with pytest.raises(UsageError, match=r"^place 9 on ingress of .* has an impairment: take"):
                impair.apply(place, Impairment(loss=1.0))
            assert impair.applied(place.namespace, place.index) == [place]
        for order in (0, LAST_PLACE + 1):
            with pytest.raises(UsageError, match=rf"^there is no place {order} on .*: places go from 1 to 99"):
                impair.apply(at(path.router, "swp1", order=order), Impairment(loss=1.0))
        with pytest.raises(UsageError, match="cannot duplicate: duplicate received packets"):
            impair.apply(at(path.router, "swp1", Hook.EGRESS), Impairment(duplicate=0.1))
        assert shown(path.router, "swp1") == before

    def test_what_is_not_there(self, path: Path) -> None:
        with pytest.raises(OperationFailed, match=r"^no impairment has place 1 on ingress of interface"):
            impair.read(at(path.router, "swp1"))
        with pytest.raises(LabError, match=r"[Nn]o such device|Cannot find device|lacks it"):
            impair.apply(ImpairmentHook(path.router, 4711, Hook.INGRESS), Impairment(loss=0.1))
