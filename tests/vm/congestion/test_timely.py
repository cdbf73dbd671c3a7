"""TIMELY in a NIC: RTTs as captures have them, and the rate that they make, against the model of the paper."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from lab.dataplane import configure
from lab.dataplane.port_layout import RateAlgorithm
from lab.model.qos.congestion.cc_presets import CC_PRESETS
from lab.wire import opcodes
from lab.wire.craft import build
from lab.wire.headers import Aeth, Reth
from lab.wire.syndrome import Syndrome
from tests.models.timely import TimelyParameters, timely_rates
from tests.vm.limited_qp import BACK, FREE, NS, OURS, PATH, THEIRS, send, start, write
from tests.vm.measured_rate import BOUND, UNCERTAIN, deviation, make_room, saturated
from tests.vm.one_switch import waited
from tests.vm.port_programs import MAC, PORT, PORTS, RATE, STOLEN, SWP1, Switch, switch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.model.qos.congestion.cc_registers import CcQos
    from tests.vm.port_programs import Wire

SIZE = 4000
INITIAL = RATE // 2
MS = 1e-3
T_LOW, T_HIGH, MIN_RTT = 20 * MS, 60 * MS, 6 * MS
RTTS = (
    *(5, 6, 8, 12, 15.5, 16.5, 17, 16.8, 16.6, 16.4, 16.2, 16, 15.8, 15.6, 15.4, 15.3, 16, 17, 17.5),
    *(60, 66, 40, 30, 25, 22, 20, 19, 18, 17, 16, 15.5, 8, 6, 9, 12, 14.5, 15.5, 15.4, 15.3, 15.2),
)
"""Milliseconds until the test answers, which takes 7 more: below T_low, above T_high, rising, falling, long calm."""
WRONG: tuple[dict[str, Any], ...] = (
    *({"beta": 0.7}, {"weight": 0.7}, {"step": RATE / 80}, {"hyper_after": 8}, {"hyper_factor": 4}),
    *({"low": 26 * MS}, {"high": 80 * MS}, {"minimum_rtt": 7 * MS}),
)
REQUEST, PSN = 50, slice(51, 54)
"""Octets of the BTH, in a frame over IPv4, with the request of an acknowledgement and with the PSN."""
OPCODE = 42


@pytest.fixture(scope="module")
def built() -> Iterator[Switch]:
    with switch() as made:
        yield made


def timely(initial: int = INITIAL) -> CcQos:
    """TIMELY with steps and times that a test can see and keep, from a rate of ``initial`` bit/s in the lab."""
    preset = CC_PRESETS["timely"]
    scale = preset.real_rate // RATE
    published = replace(
        preset.registers,
        timely_t_low=T_LOW / scale,
        timely_t_high=T_HIGH / scale,
        timely_min_rtt=MIN_RTT / scale,
        timely_add_step=RATE // 100 * scale,
        timely_initial_rate=initial * scale,
    )
    return replace(preset, registers=published).qos(RATE, SIZE)


def ack(psn: int, *, nak: bool = False) -> bytes:
    """What the peer answers to a packet."""
    syndrome = Syndrome.decode(0x60 if nak else 0x1F)
    return build.rocev2(PATH, build.RoceMessage(opcodes.Opcode.RC_ACKNOWLEDGE, OURS, psn=psn, aeth=Aeth(syndrome, 0)))


def numbered(frame: bytes, psn: int, *, request: bool = True) -> bytes:
    """The frame with another PSN: nothing here looks at its ICRC."""
    return frame[:REQUEST] + bytes([0x80 * request]) + psn.to_bytes(3, "big") + frame[PSN.stop :]


def configured(nic: Switch, cc: CcQos) -> None:
    """Change the congestion control of a NIC that runs."""
    nic.maps.config[SWP1] = configure.port_record(replace(PORT, cc=cc), PORTS, "swp1", MAC)


class TestRtt:
    """Which packets are timed, and which acknowledgements end an RTT."""

    @pytest.fixture
    def nic(self, built: Switch) -> Switch:
        """A NIC whose QP has had its first acknowledgement."""
        start(built, timely())
        built.rx(ack(0))
        return built

    @pytest.fixture
    def frame(self) -> bytes:
        return write(THEIRS, 200)

    def test_the_first_acknowledgement_starts_a_limiter(self, built: Switch) -> None:
        start(built, timely())
        assert not built.maps.limiters[0]["started"]
        built.rx(ack(0))
        limiter = built.maps.limiters[0]
        assert (limiter["started"], limiter["rate"], limiter["rtts"]) == (1, INITIAL, 0)
        assert limiter["algorithm"] == RateAlgorithm.TIMELY
        assert built.maps.ports["state"]["limited"][SWP1] == 1

    def test_an_acknowledgement_passes_on_to_the_host(self, nic: Switch) -> None:
        assert nic.rx(ack(0)).verdict != STOLEN

    def test_of_a_qp_that_is_not_there_none_is_measured(self, nic: Switch) -> None:
        message = build.RoceMessage(opcodes.Opcode.RC_ACKNOWLEDGE, OURS + 1, aeth=Aeth(Syndrome.decode(0x1F), 0))
        nic.rx(build.rocev2(PATH, message))
        assert nic.maps.counters[SWP1]["rp_rtt_ignored"] == 1

    def test_the_acknowledgement_of_the_timed_packet_ends_it(self, nic: Switch, frame: bytes) -> None:
        send(nic, numbered(frame, 5))
        self.timed(nic, 5)
        nic.rx(ack(5))
        limiter = nic.maps.limiters[0]
        assert (limiter["rtts"], limiter["timed_at"]) == (1, 0)
        assert nic.maps.counters[SWP1]["rp_rtt_handled"] == 1

    def test_one_of_an_earlier_packet_leaves_it(self, nic: Switch, frame: bytes) -> None:
        send(nic, numbered(frame, 5))
        self.timed(nic, 5)
        nic.rx(ack(4))
        assert nic.maps.limiters[0]["timed_at"]
        nic.rx(ack(5))
        assert nic.maps.limiters[0]["rtts"] == 1

    @pytest.mark.parametrize("answer", [ack(6), ack(5, nak=True)], ids=["later", "NAK"])
    def test_another_answer_ends_it_without_an_rtt(self, nic: Switch, frame: bytes, answer: bytes) -> None:
        send(nic, numbered(frame, 5))
        self.timed(nic, 5)
        nic.rx(answer)
        assert (nic.maps.limiters[0]["rtts"], nic.maps.limiters[0]["timed_at"]) == (0, 0)
        send(nic, numbered(frame, 7))
        self.timed(nic, 7)

    def test_a_packet_that_is_sent_again_has_no_rtt(self, nic: Switch, frame: bytes) -> None:
        """Karn's rule; PSNs have 24 bits, so 1 follows 0xffffff."""
        for psn in (0xFFFFFF, 1):
            send(nic, numbered(frame, psn))
            self.timed(nic, psn)
            send(nic, numbered(frame, psn))
            waited(lambda: not nic.maps.limiters[0]["timed_at"], "the timing to be given up")
            send(nic, numbered(frame, psn))
            nic.rx(ack(psn))
        assert nic.maps.limiters[0]["rtts"] == 0
        send(nic, numbered(frame, 2))
        self.timed(nic, 2)

    def test_only_a_packet_that_an_acknowledgement_answers_is_timed(self, nic: Switch, frame: bytes) -> None:
        request = build.RoceMessage(
            opcodes.Opcode.RC_RDMA_READ_REQUEST, THEIRS, psn=5, ackreq=True, reth=Reth(0, 1, 9)
        )
        send(nic, numbered(frame, 4, request=False), build.rocev2(BACK, request), numbered(frame, 6))
        self.timed(nic, 6)

    def test_cnps_slow_nothing_down(self, nic: Switch) -> None:
        assert nic.rx(build.cnp(PATH, OURS)).verdict == STOLEN
        assert nic.maps.counters[SWP1]["rp_cnp_ignored"] == 1
        assert nic.maps.limiters[0]["rate"] == INITIAL

    def test_a_nic_that_changes_to_another_algorithm_gives_the_limiter_back(self, nic: Switch) -> None:
        """Packets of other QPs make it look at one limiter each."""
        configured(nic, CC_PRESETS["paper"].qos(RATE, SIZE))
        other = write(FREE, 200)

        def given_back() -> bool:
            send(nic, other)
            return not nic.maps.limiters[0]["started"]

        waited(given_back, "the limiter to be given back")
        assert nic.maps.ports["state"]["limited"][SWP1] == 0

    def test_an_event_of_another_algorithm_starts_the_limiter_anew(self, nic: Switch) -> None:
        configured(nic, CC_PRESETS["paper"].qos(RATE, SIZE))
        nic.rx(build.cnp(PATH, OURS))
        limiter = nic.maps.limiters[0]
        assert (limiter["started"], limiter["algorithm"]) == (1, RateAlgorithm.DCQCN)
        assert limiter["rate"] == pytest.approx(RATE / 2, rel=0.01), "half the line rate, not half of TIMELY's"

    def timed(self, nic: Switch, psn: int) -> None:
        """A packet has left and is timed."""
        limiter = nic.maps.limiters
        waited(lambda: limiter[0]["timed_at"] and limiter[0]["timed_psn"] == psn, f"packet {psn} to leave")


def test_the_rate_is_within_two_percent_of_the_models(built: Switch) -> None:
    """And more than that from a model with one wrong parameter. The RTTs are the port's, and as in the captures."""
    cc = timely()
    start(built, cc)
    built.rx(ack(0))
    template = write(THEIRS, SIZE)
    frames = (numbered(template, psn) for psn in itertools.count(1))
    with built.stamped_wire() as wire, built.tap() as tap:
        for end in (wire, tap):
            make_room(end)
        with saturated(built, frames):
            answered = [answer(built, wire, rtt * MS) for rtt in RTTS]
        waited(lambda: not built.maps.counters[SWP1]["queue"]["depth_packets"].any(), "the queue to empty")
        ahead = time.time_ns() - time.monotonic_ns()
        count = int(built.maps.counters[SWP1]["queue"]["sent_packets"].sum())
        times = np.array([round(wire.next_stamped()[0] * NS) - ahead for _ in range(count)])
        passed = [tap.next_stamped() for _ in range(count + len(RTTS))]
    left = {frame[PSN]: at for at, frame in passed if frame[OPCODE] != opcodes.Opcode.RC_ACKNOWLEDGE}
    came = {frame[PSN]: at for at, frame in passed if frame[OPCODE] == opcodes.Opcode.RC_ACKNOWLEDGE}
    for psn, _, rtt in answered:
        key = psn.to_bytes(3, "big")
        assert rtt == pytest.approx((came[key] - left[key]) * NS, abs=2 * UNCERTAIN), (
            "the port's RTT is the captures'"
        )
    model = parameters(cc)
    assert deviation(*curve(model, answered), times, SIZE) < BOUND
    for wrong in WRONG:
        assert deviation(*curve(replace(model, **wrong), answered), times, SIZE) > BOUND, wrong


def answer(nic: Switch, wire: Wire, rtt: float) -> tuple[int, int, int]:
    """Acknowledge the timed packet ``rtt`` seconds after it left; its PSN, when the RTT ended, and the RTT, in ns."""
    limiters = nic.maps.limiters
    waited(lambda: limiters[0]["timed_at"], "a packet to be timed")
    psn, at, known = (int(limiters[0][name]) for name in ("timed_psn", "timed_at", "rtts"))
    time.sleep(max(0.0, at / NS + rtt - time.monotonic()))
    wire.send(ack(psn))
    waited(lambda: limiters[0]["rtts"] > known, "the RTT to be measured")
    measured = int(limiters[0]["rtt"])
    return psn, at + measured, measured


def parameters(cc: CcQos) -> TimelyParameters:
    """The model's parameters."""
    here = cc.registers
    return TimelyParameters(
        line_rate=RATE,
        step=here.timely_add_step,
        weight=here.timely_alpha,
        beta=here.timely_beta,
        low=here.timely_t_low,
        high=here.timely_t_high,
        minimum_rtt=here.timely_min_rtt,
        minimum=here.rpg_min_rate,
        hyper_after=here.timely_hai_threshold,
        hyper_factor=here.timely_hai_factor,
    )


def curve(model: TimelyParameters, answered: list[tuple[int, int, int]]) -> tuple[Any, Any]:
    """When the model's rate changes, and the rates in bit/s from then on."""
    rates = timely_rates(model, [rtt / NS for _, _, rtt in answered], INITIAL)
    return np.array([0, *(at for _, at, _ in answered)]), np.array([INITIAL, *rates])
