"""A NIC as a reaction point: what CNPs do to a QP's rate, by an independent model, and packets that keep to it."""

from __future__ import annotations

import subprocess
import time
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from lab.dataplane import configure, limited_qps
from lab.dataplane.port_layout import LIMITERS, Drop
from lab.model.qos.congestion.cc_presets import CC_PRESETS
from lab.model.qos.port import StormAction, WatchdogQos
from lab.wire.craft import build
from tests.inside import entered
from tests.models.dcqcn.nvidia import NvidiaReactionPoint
from tests.models.dcqcn.trace import run
from tests.vm.limited_qp import BACK, FREE, LOSSLESS, OURS, PATH, THEIRS, registers, send, start, write
from tests.vm.one_switch import OVERHEAD, pfc, waited
from tests.vm.port_programs import MAC, PORT, PORTS, RATE, STOLEN, SWP1, SWP2, Switch, switch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.model.qos.congestion.cc_registers import CcQos

GAPS = (0.02, 0.005, 0.001, 0.3, 0.06, 0.1, 0.001, 1.7, 0.03, 0.03)
"""Seconds between CNPs: within a period of the timers, several, and long enough for additive increase."""


@pytest.fixture(scope="module")
def built() -> Iterator[Switch]:
    with switch() as made:
        yield made


def limiting(rate: int, recovery: float = 10.0) -> CcQos:
    """Registers by which the first CNP sets the rate, which recovers in steps of so many seconds."""
    published = replace(
        CC_PRESETS["connectx"].registers, rpg_time_reset=recovery, rate_to_set_on_first_cnp=rate, rpg_min_rate=1
    )
    return replace(CC_PRESETS["connectx"], real_rate=RATE, registers=published).qos(RATE, 1146)


class TestRate:
    @pytest.mark.parametrize("wrong", [{}, {"dce_tcp_g": 1010}, {"time_reset": 21_000_000}, {"ai_rate": 200_000}])
    def test_after_each_cnp_it_is_the_models(self, built: Switch, wrong: dict[str, Any]) -> None:
        """The paper's registers restart the alpha timer at each CNP, which therefore tells when the CNP came."""
        cc = CC_PRESETS["paper"].qos(RATE, 1146)
        model = registers(cc.registers)
        start(built, cc)
        limiters = built.maps.limiters
        times, rates = [], []
        for gap in GAPS:
            assert built.rx(build.cnp(PATH, OURS)).verdict == STOLEN
            times.append(int(limiters[0]["alpha_at"]) - model.dce_tcp_rtt)
            rates.append(int(limiters[0]["rate"]))
            time.sleep(gap)
        states = run(NvidiaReactionPoint(replace(model, **wrong)), times, times[-1])
        expected = [state.rate for state in states if state.event == "cnp"]
        assert (rates == pytest.approx(expected, rel=1e-4)) is not bool(wrong)
        assert built.maps.counters[SWP1]["rp_cnp_handled"] == len(GAPS)

    def test_of_a_qp_that_is_not_there_is_none(self, built: Switch) -> None:
        start(built, CC_PRESETS["paper"].qos(RATE, 1146))
        for path, qpn in ((PATH, OURS + 1), (replace(PATH, src="10.9.0.9"), OURS)):
            assert built.rx(build.cnp(path, qpn)).verdict == STOLEN
        assert built.maps.counters[SWP1]["rp_cnp_ignored"] == 2
        assert built.maps.ports["state"]["limited"][SWP1] == 0


class TestPacing:
    def test_packets_of_the_qp_keep_to_its_rate_and_others_pass_it(self, built: Switch) -> None:
        limit = RATE // 10
        start(built, limiting(limit))
        built.rx(build.cnp(PATH, OURS))
        size, count = 1000, 12
        frames = {qpn: write(qpn, size) for qpn in (THEIRS, FREE)}
        with built.stamped_wire() as wire:
            send(built, *[frames[THEIRS]] * count, *[frames[FREE]] * count)
            came = [wire.next_stamped() for _ in range(2 * count)]
        paced = [at for at, frame in came if frame == frames[THEIRS]]
        gap = (size + OVERHEAD) * 8 / limit
        assert len(paced) == count
        assert all(later - earlier == pytest.approx(gap, rel=0.02) for earlier, later in pairwise(paced[2:]))
        assert came[-1][1] == frames[THEIRS], "the other QP waited for this one"

    def test_the_next_packet_does_not_wait_until_the_one_before_it_has_left_the_cable(self, built: Switch) -> None:
        """It becomes due when that one enters the cable, after the qdisc has looked at what else is due."""
        limit, size = RATE // 10, 1000
        start(built, limiting(limit))
        built.maps.config["delay_ns"][SWP1], built.maps.config["rate"][SWP1] = 100_000_000, 0
        built.rx(build.cnp(PATH, OURS))
        with built.stamped_wire() as wire:
            send(built, *[write(THEIRS, size)] * 6)
            times = [wire.next_stamped()[0] for _ in range(6)]
        gap = (size + OVERHEAD) * 8 / limit
        assert all(gap / 2 < later - earlier < 2 * gap for earlier, later in pairwise(times))


class TestRelease:
    @pytest.mark.parametrize("rule", ["connectx", "paper"])
    def test_a_qp_that_is_back_at_the_line_rate_is_limited_no_longer(self, built: Switch, rule: str) -> None:
        """With packets of another QP: what is idle is looked at as well. The paper cuts the rate without a timer."""
        paper = CC_PRESETS["paper"].qos(RATE, 1146)
        start(built, paper if rule == "paper" else limiting(RATE // 2, recovery=0.001))
        built.rx(build.cnp(PATH, OURS))
        assert limited(built) == [1, 1]
        assert [qp.qpn for qp in limited_qps.limited_qps(built.maps, PORTS)] == [OURS, OURS]

        def released() -> bool:
            send(built, write(FREE, 100))
            return limited(built)[0] == 0

        waited(released, "the QP to recover")
        assert [qp.interface for qp in limited_qps.limited_qps(built.maps, PORTS)] == ["swp2"]

    def test_a_slow_qp_stays_limited(self, built: Switch) -> None:
        start(built, limiting(RATE // 2, recovery=1000.0))
        built.rx(build.cnp(PATH, OURS))
        send(built, *[write(FREE, 100)] * 20)
        waited(lambda: not built.maps.counters["queue"]["depth_packets"].any(), "the queues to empty")
        assert limited(built) == [1, 1]

    @pytest.mark.parametrize("end", ["its NIC ceases to react", "it is destroyed"])
    def test_a_qp_is_limited_no_longer_when(self, built: Switch, end: str) -> None:
        start(built, limiting(RATE // 2, recovery=1000.0))
        built.rx(build.cnp(PATH, OURS))
        if end == "it is destroyed":
            built.maps.limiters["closed"][0] = built.maps.limiters["generation"][0]
        else:
            built.maps.config["cc"]["react"] = 0

        def released() -> bool:
            send(built, write(FREE, 100))
            return limited(built)[0] == 0

        waited(released, "the QP to be released")

    @pytest.mark.parametrize("end", ["its NIC ceases to react", "it recovers"])
    def test_a_qp_with_packets_is_limited_no_longer_when(self, built: Switch, end: str) -> None:
        """All its packets follow those that are in the queue, and precede what comes later. A packet takes 82 ms."""
        recovers, period = end == "it recovers", 0.001
        start(built, limiting(RATE // 2000, recovery=period if recovers else 1000.0))
        built.maps.config["rate"][SWP1] = RATE // 1000
        built.rx(build.cnp(PATH, OURS))
        path = replace(BACK, dscp=LOSSLESS)
        mine, others = [write(THEIRS, 1000 + number, path) for number in range(5)], [write(FREE, 1000, path)] * 10
        queue = built.maps.counters[SWP1]["queue"]
        with built.wire() as wire:
            pause(built, 0xFFFF)
            send(built, *mine)
            waited(lambda: built.maps.limiters[0]["in_queue"] == 1, "the first to be due")
            send(built, *others)
            if recovers:
                time.sleep(100 * period)  # nothing shows it before a packet leaves
            else:
                built.maps.config["cc"]["react"] = 0
            assert limited(built)[0] == 1
            pause(built, 0)
            waited(lambda: limited(built)[0] == 0, "the QP to be released")
            assert queue["depth_packets"].sum() > len(others), "it was released by the last of its packets"
            send(built, *others[:2])
            left = [wire.next() for _ in range(len(mine) + len(others) + 2)]
        assert left == [mine[0], *others, *mine[1:], *others[:2]]
        assert built.maps.limiters[0]["waiting"] == built.maps.limiters[0]["in_queue"] == 0

    def test_more_qps_than_limiters_are_counted_and_not_limited(self, built: Switch) -> None:
        start(built, limiting(RATE // 2, recovery=1000.0))
        built.maps.limiters["started"] = built.maps.limiters["generation"] = 1
        built.rx(build.cnp(PATH, OURS))
        assert built.maps.counters[SWP1]["rp_cnp_ignored"] == 1
        built.maps.limiters["started"][100::LIMITERS] = 0
        built.rx(build.cnp(PATH, OURS))
        assert built.maps.counters[SWP1]["rp_cnp_handled"] == 1, "a limiter that is free is found"


class TestTwoNics:
    """Ports of one host: a QP may send by either of them, whichever its CNPs come by."""

    def test_a_qp_is_limited_at_both(self, built: Switch) -> None:
        limit = RATE // 10
        start(built, limiting(limit))
        built.rx(build.cnp(PATH, OURS), port=SWP1)
        size, count = 1000, 6
        with built.stamped_wire(SWP2) as wire:
            send(built, *[write(THEIRS, size)] * count, interface="swp2")
            times = [wire.next_stamped()[0] for _ in range(count)]
        gap = (size + OVERHEAD) * 8 / limit
        assert all(later - earlier == pytest.approx(gap, rel=0.02) for earlier, later in pairwise(times[2:]))

    def test_packets_of_each_leave_by_that_one(self, built: Switch) -> None:
        """Each has a heap and FIFOs of its own."""
        start(built, limiting(RATE // 10))
        built.rx(build.cnp(PATH, OURS), port=SWP1)
        first, second = write(THEIRS, 500), write(THEIRS, 900)
        with built.wire(SWP1) as one, built.wire(SWP2) as other:
            for _ in range(4):
                send(built, first, interface="swp1")
                send(built, second, interface="swp2")
            assert [one.next() for _ in range(4)] == [first] * 4
            assert [other.next() for _ in range(4)] == [second] * 4
            assert one.is_silent()
            assert other.is_silent()

    def test_one_that_sends_nothing_releases_its_limiters(self, built: Switch) -> None:
        """Otherwise they would never be another QP's: a limiter is free when it is at no NIC of the host."""
        start(built, limiting(RATE // 2, recovery=0.001))
        built.rx(build.cnp(PATH, OURS))
        built.connect(PATH.dst, FREE, PATH.src, THEIRS + 1, fresh=False)

        def released() -> bool:
            built.rx(build.cnp(PATH, FREE))
            return bool(built.maps.limiters["started"][LIMITERS] == 0)

        waited(released, "the QP to recover")

    @pytest.mark.parametrize(("before_first", "outcome"), [(PORTS.clock, [1, 0]), (SWP1, [0, 1])])
    def test_a_cnp_has_failed_that_reaches_none(self, built: Switch, before_first: int, outcome: list[int]) -> None:
        """One whose link is down cannot be reached, and sends nothing; here that is swp2."""
        start(built, limiting(RATE // 10))
        built.maps.nodes["first_port"] = before_first
        built.maps.config["index"][SWP2] = 4711
        built.rx(build.cnp(PATH, OURS), port=SWP1)
        assert [built.maps.counters[SWP1][f"rp_cnp_{name}"] for name in ("handled", "failed")] == outcome


class TestFifo:
    """What waits for its time is reached by all that befalls queues."""

    def test_a_link_that_goes_down_drops_what_waits(self, built: Switch) -> None:
        start(built, limiting(RATE // 1000))
        built.rx(build.cnp(PATH, OURS))
        send(built, *[write(THEIRS, 1000)] * 10)
        assert built.maps.limiters[0]["waiting"] > 5
        set_link(built, up=False)
        queues = built.maps.counters[SWP1]["queue"]
        dropped = int(queues["drop_packets"][:, Drop.FLUSH].sum())
        assert dropped > 5
        assert dropped + int(queues["sent_packets"].sum()) == 10
        assert not built.maps.counters[SWP1]["queue"]["depth_packets"].any()
        assert built.maps.limiters[0]["waiting"] == 0
        set_link(built, up=True)
        with built.wire() as wire:
            send(built, write(THEIRS, 1000))
            assert wire.next() == write(THEIRS, 1000), "the QP sends again"

    def test_a_pause_holds_a_limited_qp(self, built: Switch) -> None:
        start(built, limiting(RATE // 10))
        built.rx(build.cnp(PATH, OURS))
        frame = write(THEIRS, 1000, replace(BACK, dscp=LOSSLESS))
        with built.wire() as wire:
            pause(built, 0xFFFF)
            send(built, *[frame] * 5)
            waited(lambda: built.maps.limiters[0]["in_queue"] == 1, "the first to be due")
            assert wire.is_silent()
            assert built.maps.limiters[0]["waiting"] == 4
            pause(built, 0)
            assert [wire.next() for _ in range(5)] == [frame] * 5

    def test_packets_that_passed_before_the_first_cnp_release_no_other(self, built: Switch) -> None:
        """Another QP is limited, so that packets are looked up, and a pause holds those that passed."""
        start(built, limiting(RATE // 10))
        built.connect(PATH.dst, FREE, PATH.src, THEIRS + 1, fresh=False)
        for qpn in (OURS, FREE):
            built.rx(build.cnp(PATH, qpn))
        built.maps.limiters["started"][1] = 0
        built.maps.ports["state"]["limited"][SWP1] = 1
        frame = write(THEIRS + 1, 1000, replace(BACK, dscp=LOSSLESS))
        with built.wire() as wire:
            pause(built, 0xFFFF)
            send(built, *[frame] * 3)
            built.rx(build.cnp(PATH, FREE))
            send(built, *[frame] * 2)
            pause(built, 0)
            assert [wire.next() for _ in range(5)] == [frame] * 5
        waited(lambda: built.maps.limiters[1]["in_queue"] == 0, "the last to be counted")
        assert built.maps.limiters[1]["packets"] == 2

    def test_in_a_storm_what_reaches_the_queue_is_dropped_and_the_qp_goes_on(self, built: Switch) -> None:
        watchdog = WatchdogQos(enabled=True, detection=0.02, restoration=0.02, action=StormAction.DROP)
        nic = replace(PORT, cc=limiting(RATE // 10), pfc=replace(PORT.pfc, watchdog=watchdog))
        start(built, limiting(RATE // 10))
        built.maps.config[SWP1] = configure.port_record(nic, PORTS, "swp1", MAC)
        built.rx(build.cnp(PATH, OURS))
        frame, count = write(THEIRS, 1000, replace(BACK, dscp=LOSSLESS)), 5
        queues = built.maps.counters[SWP1]["queue"]
        with built.wire() as wire:
            pause(built, 0xFFFF)
            send(built, *[frame] * count)
            waited(queues["drop_packets"][:, Drop.WATCHDOG].any, "the watchdog")
            pause(built, 0)
            waited(lambda: queues["restored"].any() and not queues["depth_packets"].any(), "all to leave")
            sent = int(queues["sent_packets"].sum())
            assert [wire.next() for _ in range(sent)] == [frame] * sent
            assert wire.is_silent()
            assert sent + int(queues["drop_packets"][:, Drop.WATCHDOG].sum()) == count
            send(built, frame)
            assert wire.next() == frame

    def test_in_a_storm_its_packets_are_dropped_at_its_rate(self, built: Switch) -> None:
        """Those that wait for their time go on waiting for it: not until the storm ends, and not all at once."""
        watchdog = WatchdogQos(enabled=True, detection=0.02, restoration=2.0, action=StormAction.DROP)
        limit, size, count = RATE // 1000, 1000, 5
        nic = replace(PORT, cc=limiting(limit), pfc=replace(PORT.pfc, watchdog=watchdog))
        start(built, limiting(limit))
        built.maps.config[SWP1] = configure.port_record(nic, PORTS, "swp1", MAC)
        built.rx(build.cnp(PATH, OURS))
        queues = built.maps.counters[SWP1]["queue"]
        frame = write(THEIRS, size, replace(BACK, dscp=LOSSLESS))
        pause(built, 0xFFFF)
        send(built, *[frame] * count)
        times: list[float] = []
        while len(times) < count:
            waited(lambda: dropped(built, Drop.WATCHDOG) > len(times), "the next to be dropped")
            times.append(time.monotonic())
        assert not queues["restored"].any(), "the storm is over"
        gap = (size + OVERHEAD) * 8 / limit
        assert all(gap / 2 < later - earlier < 2 * gap for earlier, later in pairwise(times))
        built.flush()


def dropped(nic: Switch, reason: Drop) -> int:
    """How many packets swp1 has dropped for a reason."""
    return int(nic.maps.counters[SWP1]["queue"]["drop_packets"][:, reason].sum())


def limited(nic: Switch) -> list[int]:
    """How many QPs are limited at each port."""
    return [int(nic.maps.ports["state"]["limited"][port]) for port in (SWP1, SWP2)]


def pause(nic: Switch, quanta: int) -> None:
    """A PFC frame for all priorities that comes in by swp1."""
    nic.rx(pfc(dict.fromkeys(range(8), quanta)))


def set_link(nic: Switch, *, up: bool) -> None:
    """Set swp1 up or down."""
    with entered(nic.inside):
        subprocess.run(["ip", "link", "set", "swp1", "up" if up else "down"], check=True, timeout=10)
