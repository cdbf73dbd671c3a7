"""Whose clock is believed, and how cycles become seconds."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.errors import OperationFailed
from lab.kernel.process import time_source
from lab.kernel.process.tsc import TscReading
from lab.rdma import perftest, perftest_failure, perftest_session, sysfs
from lab.rdma.measure import (
    BandwidthTest,
    ClockUnsteady,
    LatencyResult,
    LatencyTest,
    Verb,
    total,
)
from lab.rdma.perftest_report import parse_cycles
from lab.rdma.perftest_session import Exchange, PerftestSide
from tests.unit.rdma.test_measure import PAIR


def seen(seconds: float) -> Exchange:
    nothing: Any = SimpleNamespace()
    return Exchange(PAIR, 1, nothing, nothing, Path("none"), 0, 100.0, 100.0 + seconds)


@pytest.mark.parametrize(
    ("said", "observed", "believed"),
    [(2.00, 2.02, 2.00), (0.050, 0.10, 0.050), (2.8, 2.0, 2.0), (math.inf, 2.0, 2.0), (1.0, 2.0, 2.0)],
)
def test_the_finer_clock_is_believed_until_it_is_contradicted(said: float, observed: float, believed: float) -> None:
    assert perftest._elapsed(seen(observed), said) == pytest.approx(believed)


def test_what_was_seen_contradicts_only_as_exactly_as_it_was_seen() -> None:
    """On a busy machine the observer may come late: here 0.3 s after the beginning of 4 s, or before its end."""
    for exchange in (replace(seen(3.7), first_gap=0.31), replace(seen(3.7), last_gap=0.31)):
        assert perftest._elapsed(exchange, 4.0) == 4.0
        assert perftest._elapsed(exchange, 4.1) == pytest.approx(3.7)


def begun(at: float, gap: float = 0.02) -> Exchange:
    return replace(seen(5.0), began_at=at, first_gap=gap)


def test_windows_of_unequal_length_begin_where_they_began_at_the_latest() -> None:
    pairs = [begun(100.0), begun(100.5), begun(0.0)]  # of the last no packet was seen: it was over too soon
    of_messages = BandwidthTest(duration=None, iterations=60)
    assert [began for _, began in perftest._beginnings(pairs, of_messages)] == [0.0, pytest.approx(0.52), 0.0]
    assert [began for _, began in perftest._beginnings(pairs[2:], of_messages)] == [0.0]


def test_the_first_pair_begins_to_measure_after_the_margin() -> None:
    pairs = [begun(100.5), begun(100.0), begun(0.0)]
    assert perftest._first(pairs, BandwidthTest(duration=5)) == 101.0
    assert perftest._first(pairs, BandwidthTest(duration=None, iterations=60)) == 100.0
    assert perftest._first(pairs[2:], BandwidthTest()) is None


def test_windows_of_one_length_are_one_while_every_pair_transfers_in_all_of_them() -> None:
    for late, began in ((0.9, 0.0), (1.1, 1.12)):
        found = [began for _, began in perftest._beginnings([begun(100.0), begun(100.0 + late)], BandwidthTest())]
        assert found == [0.0, pytest.approx(began)]


def test_what_was_too_short_to_be_seen_cannot_correct_a_broken_clock() -> None:
    with pytest.raises(OperationFailed, match="h1 -> h2: it was over too soon to be timed: use more iterations"):
        perftest._elapsed(seen(0.1), math.inf)


RECORDED = (Path(__file__).parent / "data/write-lat-25.01.txt").read_text(encoding="utf-8")


def latency(tmp_path: Path, printed: str, cycles: int, verb: Verb = Verb.WRITE) -> LatencyResult:
    """What becomes of ``printed`` when the counter went on by ``cycles`` in 10 s."""
    out = tmp_path / "out"
    out.write_text(printed, encoding="utf-8")
    nothing: Any = SimpleNamespace()
    exchange = Exchange(PAIR, 1, nothing, PerftestSide("client", PAIR.src.namespace, [], out, out), Path("none"))
    before, after = TscReading(1_000, 50.0), TscReading(1_000 + cycles, 60.0)
    return perftest._latency(exchange, LatencyTest(verb=verb, iterations=50), before, after)


def test_cycles_become_seconds_by_the_frequency_over_the_whole_run(tmp_path: Path) -> None:
    result = latency(tmp_path, RECORDED, 26_000_000_000)
    assert result.samples == 49
    assert result.min_s == pytest.approx(138905 / 2.6e9)
    assert latency(tmp_path, RECORDED, 13_000_000_000).min_s == pytest.approx(138905 / 1.3e9)


def test_a_run_cannot_last_longer_than_the_time_in_which_it_ran(tmp_path: Path) -> None:
    lasted = round(sum(parse_cycles(RECORDED, 50)))
    assert latency(tmp_path, RECORDED, lasted + 1, Verb.READ).samples == 49
    assert latency(tmp_path, RECORDED, 2 * lasted + 2).samples == 49  # each is half of what a ping-pong lasted
    for verb, cycles in ((Verb.READ, lasted - 2), (Verb.WRITE, 2 * lasted - 2)):
        with pytest.raises(ClockUnsteady, match="h1 -> h2: the CPU's clock is too unsteady"):
            latency(tmp_path, RECORDED, cycles, verb)


@pytest.mark.parametrize("cycles", [0, -26_000_000_000])
def test_a_counter_that_stood_or_ran_backwards_measures_nothing(tmp_path: Path, cycles: int) -> None:
    with pytest.raises(ClockUnsteady):
        latency(tmp_path, RECORDED, cycles)


def test_a_sample_that_ran_backwards_is_no_sample(tmp_path: Path) -> None:
    wrapped = RECORDED.replace("\n1, ", "\n1, 1.84467e+19\n#", 1)
    with pytest.raises(ClockUnsteady):
        latency(tmp_path, wrapped, 26_000_000_000)


def counting(
    monkeypatch: pytest.MonkeyPatch, counted: dict[tuple[str, str], list[int]], seconds: list[float]
) -> Exchange:
    """A transfer whose devices count, at each look, the next of ``counted`` at the next of ``seconds``."""
    clock, packets = iter(seconds), {what: iter(counts) for what, counts in counted.items()}
    monkeypatch.setattr(sysfs, "packets", lambda *what: next(packets[what]) if what in packets else 0)
    monkeypatch.setattr("lab.rdma.perftest_session.time.monotonic", lambda: next(clock))
    nothing: Any = SimpleNamespace()
    return Exchange(PAIR, 1, nothing, nothing, Path("none"))


def test_a_transfer_lasts_as_long_as_packets_and_is_silent_without_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted = {("t.h1.eth1", "sent"): [0, 0, 5, 9, 12], ("t.h1.eth1", "rcvd"): [0, 0, 2, 3, 3]}
    exchange = counting(monkeypatch, counted, [1.0, 2.0, 3.0, 4.0, 7.0])
    assert [exchange.observe() for _ in range(5)] == [0.0, 1.0, 0.0, 0.0, 3.0]
    assert (exchange.seconds, exchange.blur) == (4.0, 3.0)


def test_a_pair_has_not_begun_while_its_destination_answers_others(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = {("t.h1.eth1", "sent"): [0, 0, 0, 5], ("t.h2.eth1", "sent"): [7, 8, 9, 10]}
    exchange = counting(monkeypatch, counted, [1.0, 2.0, 3.0, 4.0])
    for _ in range(4):
        exchange.observe()
    assert (exchange.began_at, exchange.first_gap) == (4.0, 1.0)


def test_a_read_lasts_until_its_last_packet_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """The responder has sent when its port has queued: the last of what is read come, and none is sent."""
    counted = {("t.h2.eth1", "sent"): [0, 0, 9, 9], ("t.h1.eth1", "rcvd"): [0, 0, 2, 9]}
    exchange = counting(monkeypatch, counted, [1.0, 2.0, 3.0, 4.0])
    for _ in range(4):
        exchange.observe()
    assert exchange.seconds == 1.0


def test_a_run_that_the_clock_spoilt_is_tried_again_and_given_up_at_last() -> None:
    folders: list[Path] = []

    def attempt(folder: Path) -> str:
        folders.append(folder)
        if len(folders) < 3:
            raise perftest_failure.unsteady(PAIR)
        return "measured"

    assert perftest.steadily(attempt) == "measured"
    assert len(set(folders)) == 3
    assert not any(folder.exists() for folder in folders)

    def never(folder: Path) -> str:
        folders.append(folder)
        raise perftest_failure.unsteady(PAIR)

    with pytest.raises(ClockUnsteady, match="h1 -> h2: the CPU's clock is too unsteady"):
        perftest.steadily(never)
    assert len(folders) == 6


def test_other_failures_are_not_tried_again() -> None:
    calls: list[Path] = []

    def attempt(folder: Path) -> str:
        calls.append(folder)
        raise OperationFailed("no")

    with pytest.raises(OperationFailed, match="no"):
        perftest.steadily(attempt)
    assert len(calls) == 1


DATA = Path(__file__).parent / "data"


def nothing_completed(tmp_path: Path, name: str = "0") -> Exchange:
    """A run whose report says so; perftest connected its QPs and ended well."""
    out, json = tmp_path / f"{name}.out", tmp_path / f"{name}.json"
    out.write_text((DATA / "killed-server-25.01.txt").read_text(encoding="utf-8"), encoding="utf-8")
    json.write_text((DATA / "killed-server-25.01.json").read_text(encoding="utf-8"), encoding="utf-8")
    nothing: Any = SimpleNamespace()
    return Exchange(PAIR, 1, nothing, PerftestSide("client", PAIR.src.namespace, [], out, out), json)


def test_no_message_in_a_whole_duration_is_a_goodput_of_0(tmp_path: Path) -> None:
    result = perftest.bandwidth_of(nothing_completed(tmp_path), BandwidthTest(duration=2), 0.0)
    assert (result.goodput_bps, result.messages, result.packets, result.duration_s) == (0, 0, 0, 2.0)
    assert total([result]).goodput_bps == 0


def test_no_message_where_a_number_was_asked_for_is_no_measurement(tmp_path: Path) -> None:
    with pytest.raises(OperationFailed, match="perftest's report has no message in its JSON"):
        perftest.bandwidth_of(nothing_completed(tmp_path), BandwidthTest(duration=None, iterations=9), 0.0)


@pytest.mark.parametrize("verb", [Verb.WRITE, Verb.READ, Verb.SEND])
@pytest.mark.parametrize(
    ("seen", "why"),
    [
        ((0, 0), r"h1 -> h2: QP 0x\w+ of h1 was never answered: no RDMA packet came back from QP 0x\w+ of h2 at 10"),
        ((9, 0), r"h1 -> h2: no message was completed in 4 s: QP 0x\w+ of h1 was not acknowledged by QP 0x\w+ of h2"),
        ((0, 1), r"h1 -> h2: no message was completed in 4 s: QP 0x\w+ of h1 was not acknowledged by QP 0x\w+ of h2"),
    ],
    ids=["silence", "answers", "a device that two pairs share"],
)
def test_a_qp_that_is_not_answered_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: Verb, seen: tuple[int, int], why: str
) -> None:
    """By the packets that came back, and how many other pairs use the device."""
    answers, others = seen
    counted = iter([100, 100 + answers])
    monkeypatch.setattr(sysfs, "packets", lambda _, way: next(counted) if way == "rcvd" else 7)
    exchange = nothing_completed(tmp_path)
    exchange.observe()
    exchanges = [exchange, *(nothing_completed(tmp_path, str(number + 1)) for number in range(others))]
    test = BandwidthTest(duration=2, verb=verb)
    results = [perftest.bandwidth_of(each, test, 0.0) for each in exchanges]
    with pytest.raises(OperationFailed, match=why) as refused:
        perftest._refuse_silence(exchanges, results, 4)
    assert "4791" in str(refused.value)


def test_a_pair_that_completes_messages_is_not_refused(tmp_path: Path) -> None:
    exchange = nothing_completed(tmp_path)
    result = perftest.bandwidth_of(exchange, BandwidthTest(duration=2), 0.0)
    perftest._refuse_silence([exchange], [replace(result, messages=1)], 4)


@pytest.mark.parametrize(
    ("verb", "pairs", "cpus", "sleeps", "turns"),
    [
        (Verb.SEND, 1, 1, True, False),
        (Verb.SEND, 1, 2, True, False),  # the kernel's own work would have none
        (Verb.SEND, 1, 3, False, False),
        (Verb.READ, 1, 1, True, False),
        (Verb.READ, 1, 2, False, False),
        (Verb.READ, 4, 4, True, False),
        (Verb.WRITE, 1, 1, False, True),
        (Verb.WRITE, 1, 2, False, False),
        (Verb.WRITE, 2, 3, False, True),
    ],
)
def test_programs_sleep_where_they_would_take_each_other_s_cpu(
    monkeypatch: pytest.MonkeyPatch, verb: Verb, pairs: int, cpus: int, *, sleeps: bool, turns: bool
) -> None:
    """Two that poll on one CPU see each message a time slice late, 0.7 ms and more; a write cannot sleep."""
    asked: list[str] = []

    def prepare(_pairs: Any, _test: Any, _kind: str, options: list[str], _folder: Path) -> list[Exchange]:
        asked.extend(options)
        return []

    monkeypatch.setattr("lab.rdma.perftest.os.sched_getaffinity", lambda _: set(range(cpus)))
    monkeypatch.setattr(perftest, "prepare", prepare)
    monkeypatch.setattr(perftest_session, "run", lambda *_: None)
    assert perftest.measure_latency([PAIR] * pairs, LatencyTest(verb=verb)) == ()
    assert ("--events" in asked) is sleeps
    assert perftest.takes_turns([PAIR] * pairs, verb) is turns


def test_only_bandwidth_tests_without_a_pace_poll_gently_in_virtual_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty poll takes 10 us longer then, which a latency or a pace would include. An old image has no library."""
    library = tmp_path / "library"
    monkeypatch.setattr(perftest, "_POLL_GENTLY", library)
    write = Verb.WRITE
    asked: tuple[BandwidthTest | LatencyTest, ...] = (
        LatencyTest(verb=write), BandwidthTest(verb=write, pace=500), BandwidthTest(verb=write),
    )  # fmt: skip
    words: list[list[str]] = []
    for exists in (False, True):
        if exists:
            library.touch()
        for time in (time_source.HOST, time_source.VIRTUAL):
            monkeypatch.setattr(time_source, "lives_in", lambda time=time: time)
            words += map(perftest._waiting, asked)
    assert words == [*[[]] * 11, ["env", f"LD_PRELOAD={library}"]]
