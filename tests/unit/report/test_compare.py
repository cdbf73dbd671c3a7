"""Two recordings, compared: what counts as a change, how things are matched, and what is not hidden."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pytest

from lab.cli.answers.comparisons import ComparedSectionAnswer
from lab.cli.kit.scenario_verdict import told_of
from lab.dataplane.port_layout import Drop
from lab.errors import InvalidInput, UsageError
from lab.model.load import load_topology
from lab.report.compare.changes import (
    ComparedValue,
    difference_text,
    figure_text,
    percent_text,
    ranked,
)
from lab.report.compare.compared_measures import COMPLETION, GOODPUT, PORT_COMPARED
from lab.report.compare.comparison import RunComparison, compare_runs
from lab.report.compare.comparison_markdown import write_comparison
from lab.report.compare.comparison_page import write_comparison_page
from lab.report.compare.figures_in_window import WindowCounters, WindowFigure
from lab.report.compare.run_window import WindowChoice, read_run
from lab.scenario import library
from lab.telemetry.read.recording import Recording
from lab.telemetry.sample.queue_pairs import SCHEMA
from lab.telemetry.store import recording_folder as files
from lab.telemetry.store.recording_folder import Folder
from tests.unit.diagnose.recorded import one_sided
from tests.unit.model.qos.fabrics import fabric
from tests.unit.scenario.test_judge import incast, lost_at, storm
from tests.unit.telemetry.made import RDMA, START, STEP, Made, plain_run
from tests.unit.telemetry.played import queue_pair

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECOND = 1_000_000_000 // STEP
"""Samples of a second."""
RATE = next(each for each in PORT_COMPARED if each.name == "tx_bps")
XOFF = next(each for each in PORT_COMPARED if each.name == "xoff_tx")


def made(
    folder: Path,
    name: str,
    move: Callable[[Made, int], Any] = lambda _making, _number: None,
    *,
    seconds: int = 2,
    hz: float = 20.0,
) -> Path:
    """A free recording in which ``move`` counts before each sample but the first."""
    making = Made(folder / name, fabric("pfc-ecn"), hz=hz, hosts=("h1",))
    making.sample()
    for number in range(seconds * SECOND):
        move(making, number)
        making.sample()
    return making.finished()


def compared(a: Path, b: Path, threshold: float = 0.05, **window: Any) -> RunComparison:
    choice = WindowChoice(**window)
    one, other = (read_run(Recording.open(path), path.name, told_of(path, library.OWN), choice) for path in (a, b))
    return compare_runs(one, other, threshold, phases=choice.whole)


def changes(comparison: RunComparison, section: str = "ports") -> list[Any]:
    """The values of a section that changed: of what, priority, title, A and B."""
    (found,) = [each for each in comparison.sections if each.name == section]
    return [(each.of, each.priority, each.measure.title, each.a.value, each.b.value) for each in found.changes]


def traffic(*sizes: tuple[str, int]) -> Callable[[Made, int], None]:
    """Ports that send so many bytes of priority 3 before each sample."""

    def move(making: Made, _number: int) -> None:
        for port, size in sizes:
            making.counters(port)["priority"]["tx_bytes"][3] += size

    return move


def test_a_run_is_the_same_as_itself(tmp_path: Path) -> None:
    for name in ("incast", "storm"):
        (tmp_path / name).mkdir()
        path = (incast(tmp_path / name) if name == "incast" else storm(tmp_path / name)).finished()
        same = compared(path, path)
        assert not same.changed
        assert all(not each.changed for section in same.sections for each in section.values)
        assert same.notes == ("A and B are the same recording",)
        assert [each.unchanged for each in same.sections] == [len(each.names.both) for each in same.sections]


def test_what_changed_is_named_by_port_and_priority_the_largest_first(tmp_path: Path) -> None:
    def congested(making: Made, number: int) -> None:
        port = making.counters("leaf1:swp3")
        port["priority"]["tx_bytes"][3] += 300_000
        port["priority"]["tx_pause"][3] += 2
        port["priority"]["paused_ns"][4] += STEP // 4
        port["queue"]["ecn_marked"][3] += 5
        port["queue"]["depth_bytes"][3] = 80_000 if number == 7 else 0
        making.counters("h1:eth1")["priority"]["rx_pause"][3] += 2

    a = made(tmp_path, "a", traffic(("leaf1:swp3", 600_000)))
    found = compared(a, made(tmp_path, "b", congested))
    assert changes(found)[-1] == ("leaf1:swp3", 3, "tx rate", pytest.approx(96e6), pytest.approx(48e6))
    assert sorted((*each[:3], each[3], round(each[4], 3)) for each in changes(found)[:-1]) == [
        ("h1:eth1", 3, "XOFF rx", 0, 40),
        ("leaf1:swp3", 3, "ECN marks", 0, 100),
        ("leaf1:swp3", 3, "XOFF tx", 0, 40),
        ("leaf1:swp3", 3, "peak queue", 0, 80_000),
        ("leaf1:swp3", 4, "paused", 0, 0.25),
    ]
    (ports,) = [each for each in found.sections if each.name == "ports"]
    assert ports.unchanged == len(Recording.open(a).ports) - 2


@pytest.mark.parametrize("reason", list(Drop))
def test_one_drop_is_never_hidden(tmp_path: Path, reason: Drop) -> None:
    def lose(making: Made, number: int) -> None:
        for port, lost in (("leaf1:swp3", 1000), ("leaf2:swp3", number == 3)):
            making.counters(port)["queue"]["drop_packets"][3][reason] += lost

    def lose_less(making: Made, _number: int) -> None:
        making.counters("leaf1:swp3")["queue"]["drop_packets"][3][reason] += 1000

    found = compared(made(tmp_path, "a", lose_less), made(tmp_path, "b", lose), threshold=1.0)
    title = f"drops: {reason.name.lower()}"
    assert changes(found) == [("leaf2:swp3", 3, title, 0, pytest.approx(0.5))]
    assert changes(compared(tmp_path / "b", tmp_path / "a", threshold=1.0)) == [
        ("leaf2:swp3", 3, title, pytest.approx(0.5), 0)
    ]


def test_counters_are_compared_per_second(tmp_path: Path) -> None:
    move = traffic(("leaf1:swp3", 100_000))
    found = compared(made(tmp_path, "a", move), made(tmp_path, "b", move, seconds=5))
    assert not found.changed
    assert "A lasts 2.0 s and B 5.0 s: counters are compared per second" in found.notes


def test_another_sampling_rate_is_said(tmp_path: Path) -> None:
    found = compared(made(tmp_path, "a"), made(tmp_path, "b", hz=5))
    assert found.notes == (
        "A was sampled 20 times a second and B 5 times: B may miss a short peak of a queue or buffer",
    )


def test_ports_of_one_fabric_only_are_named(tmp_path: Path) -> None:
    shape = "generate: {shape: leaf-spine, spines: 2, leaves: 2, hosts_per_leaf: 3}"
    wider = load_topology(f"name: t\ndefaults: {{rate: 100Mbit}}\n{shape}\nqos: pfc-ecn\n")
    for path, topology in ((tmp_path / "a", fabric("pfc-ecn")), (tmp_path / "b", wider)):
        making = Made(path, topology)
        for _ in range(3):
            making.sample()
        making.finished()
    found = compared(tmp_path / "a", tmp_path / "b")
    (ports,) = [each for each in found.sections if each.name == "ports"]
    assert ports.names.only_a == ()
    assert {"leaf1:swp5", "leaf2:swp5"} <= set(ports.names.only_b)
    assert f"the topologies differ: {len(ports.names.only_b)} ports only in B" in found.notes
    assert found.changed


def test_a_lossless_port_and_a_plain_one_share_their_traffic(tmp_path: Path) -> None:
    def move(making: Made, _number: int) -> None:
        port = making.counters("leaf1:swp3")
        port["priority"]["tx_bytes"][3] += 200_000
        port["priority"]["tx_bytes"][0] += 100_000
        port["priority"]["tx_pause"][3] += 1

    lossless = made(tmp_path, "a", move)
    found = compared(lossless, plain_run(tmp_path / "b", 300_000))
    assert changes(found) == []
    assert "1 port without QoS in one of the runs: only traffic and drops are compared" in found.notes
    assert any(note.startswith("B is not finished") for note in found.notes)
    assert changes(compared(lossless, plain_run(tmp_path / "c", 30_000))) == [
        ("leaf1:swp3", None, "tx rate", pytest.approx(48e6), pytest.approx(4.8e6))
    ]
    again = compared(tmp_path / "b", tmp_path / "c")
    assert changes(again) == [("leaf1:swp3", None, "tx rate", pytest.approx(48e6), pytest.approx(4.8e6))]


def test_transfers_are_matched_by_pair_and_phase(tmp_path: Path) -> None:
    for name, ends in (("a", (1.58, 1.6, 1.61)), ("b", (1.58, 2.4, 1.61))):
        (tmp_path / name).mkdir()
        incast(tmp_path / name, ends=ends).finished()
    found = compared(tmp_path / "a" / "run", tmp_path / "b" / "run")
    took, goodput = sorted(changes(found, "transfers"), key=lambda each: each[2])
    assert took == ("h2:h4 write in job-incast", None, COMPLETION.title, 1.6, 2.4)
    assert goodput[:3] == ("h2:h4 write in job-incast", None, GOODPUT.title)
    assert goodput[3] / goodput[4] == pytest.approx(1.5)


def test_times_of_transfers_of_another_size_are_not_compared(tmp_path: Path) -> None:
    for name, messages in (("a", 100), ("b", 50)):
        path = made(tmp_path, name)
        files.append_line(Folder(path).transfers, {
            "ns": START + STEP, "src": "h1", "dst": "h4", "verb": "write", "size": 65536, "qps": 1, "seconds": 2.0,
            "messages": messages, "times": [],
        })  # fmt: skip
    titles = {each[2] for each in changes(compared(tmp_path / "a", tmp_path / "b"), "transfers")}
    assert titles == {"payload", "goodput"}


def with_queue_pairs(folder: Path, name: str, *rows: tuple[float, int, str, str]) -> Path:
    """A free recording of ten seconds; a row is a second, QPN, state and program."""
    making = Made(folder / name, fabric("pfc-ecn"), hosts=("h1",))
    for _ in range(10 * SECOND):
        making.sample()
    for second, qpn, state, program in rows:
        making.log.rows(SCHEMA, START + int(second * 10**9), [queue_pair(qpn, state) | {"program": program}])
    return making.finished()


def test_queue_pairs_are_matched_in_their_order(tmp_path: Path) -> None:
    """Their numbers differ. In B one enters ERR, another ends early, and there is one more."""
    bw, none = "ib_write_bw", ""
    a = [(0, 17, "RTS", bw), (0, 18, "RTS", bw), (0, 19, "RTS", "nccl"), (8, 17, "gone", none), (8, 18, "gone", none)]
    b = [(0, 40, "RTS", bw), (0, 41, "RTS", bw), (0, 42, "RTS", "nccl"), (1, 43, "RTS", "nccl"),
         (3, 42, "gone", none), (5, 41, "ERR", bw), (8, 40, "gone", none), (8, 41, "gone", none)]  # fmt: skip
    found = compared(with_queue_pairs(tmp_path, "a", *a), with_queue_pairs(tmp_path, "b", *b))
    assert sorted(each[:3] + each[4:] for each in changes(found, "queue_pairs")) == [
        ("h1:eth1 ib_write_bw #2", None, "entered ERR", 1),
        ("h1:eth1 nccl #1", None, "lifetime", 3),
    ]
    (section,) = [each for each in found.sections if each.name == "queue_pairs"]
    assert (section.names.only_a, section.names.only_b) == ((), ("h1:eth1 nccl #2",))
    assert section.name in get_args(ComparedSectionAnswer.model_fields["name"].annotation)
    text = write_comparison(found, 0.05, every=True)
    assert "entered ERR" in text
    assert "\n## Queue pairs\n" in text
    assert "differs by more than 5% of" in text


def test_when_polls_saw_queue_pairs_is_no_change(tmp_path: Path) -> None:
    """Both polls may be a second late, and one that soon ends may be seen by none."""
    a = [(0, 17, "RTS", "x"), (7, 17, "gone", ""), (2, 18, "RTS", "x"), (3, 18, "gone", "")]
    b = [(1, 17, "RTS", "x"), (8.5, 17, "gone", "")]
    found = compared(with_queue_pairs(tmp_path, "a", *a), with_queue_pairs(tmp_path, "b", *b))
    assert not any(section.changed for section in found.sections)


def test_devices_show_what_was_sent_again(tmp_path: Path) -> None:
    def again(making: Made, number: int) -> None:
        making.devices[0][RDMA.index("rcvd_seq_err")] += np.uint64(number == 9)

    found = compared(made(tmp_path, "a"), made(tmp_path, "b", again))
    assert changes(found, "devices") == [("h1:eth1", None, "NAK rx", 0, pytest.approx(0.5))]


def test_a_check_and_a_phase_that_changed_are_named(tmp_path: Path) -> None:
    for name, spoil in (("a", lambda _: None), ("b", lost_at("leaf1:swp6"))):
        (tmp_path / name).mkdir()
        incast(tmp_path / name, spoil=spoil).finished()
    found = compared(tmp_path / "a" / "run", tmp_path / "b" / "run")
    assert found.outcomes == ("pass", "fail")
    assert [(each.name, each.a, each.b) for each in found.checks if each.changed] == [("lossless", "pass", "fail")]
    assert [each[:3] for each in changes(found, "phases")] == [("incast", None, "drops: headroom")]


def test_a_cause_that_is_gone_is_named(tmp_path: Path) -> None:
    broken = one_sided(tmp_path / "one-sided").finished()
    found = compared(broken, made(tmp_path, "healthy"))
    assert found.diagnoses == ("fault", "unchecked")
    gone = [(each.cause, each.b) for each in found.causes if each.changed]
    assert gone == [("pfc-one-sided", None), ("incast", None)]
    assert "| pfc-one-sided | h1:eth1, h2:eth1, h3:eth1" in write_comparison(found, 0.05, every=False)


def test_runs_of_two_scenarios_share_no_checks(tmp_path: Path) -> None:
    (tmp_path / "storm").mkdir()
    found = compared(storm(tmp_path / "storm").finished(), incast(tmp_path).finished())
    assert "A was made by scenario pfc-storm and B by scenario incast: their checks differ" in found.notes
    assert ("fair", None, "pass") in [(each.name, each.a, each.b) for each in found.checks]


def test_a_scenario_and_a_free_recording(tmp_path: Path) -> None:
    free = made(tmp_path, "free")
    found = compared(incast(tmp_path).finished(), free)
    assert "A was made by scenario incast and B by no scenario: their checks differ" in found.notes
    assert "B has no phases: only whole runs and times are compared" in found.notes
    assert "phases" not in [each.name for each in found.sections]


def test_a_phase_of_both(tmp_path: Path) -> None:
    for name, port in (("a", "leaf1:swp6"), ("b", "leaf1:swp6")):
        (tmp_path / name).mkdir()
        incast(tmp_path / name, spoil=lost_at(port) if name == "b" else lambda _: None).finished()
    a, b = tmp_path / "a" / "run", tmp_path / "b" / "run"
    assert not compared(a, b, phase="alone").sections[1].changed
    assert [each[:3] for each in changes(compared(a, b, phase="incast"))] == [("leaf1:swp6", 3, "drops: headroom")]
    with pytest.raises(UsageError, match="run has no phase other: its phases: job-alone, "):
        compared(a, b, phase="other")


def test_seconds_of_both(tmp_path: Path) -> None:
    def late(making: Made, number: int) -> None:
        making.counters("leaf1:swp3")["priority"]["tx_pause"][3] += number >= SECOND

    a, b = made(tmp_path, "a"), made(tmp_path, "b", late)
    assert not compared(a, b, until=1.0).changed
    assert changes(compared(a, b, begin=1.0)) == [("leaf1:swp3", 3, "XOFF tx", 0, pytest.approx(20))]
    with pytest.raises(UsageError, match=r"a has nothing from 7 to 2 s: it is 2.0 s long"):
        compared(a, b, begin=7.0)


@pytest.mark.parametrize("samples", [0, 1])
def test_a_recording_in_which_nothing_can_grow_is_refused(tmp_path: Path, samples: int) -> None:
    making = Made(tmp_path / "b", fabric("pfc-ecn"))
    for _ in range(samples):
        making.sample()
    with pytest.raises(InvalidInput, match="has fewer than two samples"):
        compared(made(tmp_path, "a"), making.finished())


def test_a_killed_recording_is_compared_and_said_to_be(tmp_path: Path) -> None:
    making = Made(tmp_path / "b", fabric("pfc-ecn"), hosts=("h1",))
    for _ in range(2 * SECOND + 1):
        making.sample()
    found = compared(made(tmp_path, "a"), making.killed())
    assert found.notes == (
        "B is not finished: its recorder still runs, or was killed. Only its first 2.0 s are compared",
    )
    assert not found.changed


@pytest.mark.parametrize(
    ("a", "b", "changed"),
    [
        (0, 0, False), (0, 1, True), (1, 0, True), (100, 104, False), (100, 106, True), (106, 100, True),
        (100, 105, False),
    ],
)  # fmt: skip
def test_what_counts_as_a_change(a: float, b: float, changed: bool) -> None:
    (found,) = ranked([ComparedValue("x", None, XOFF, WindowFigure(a, a), WindowFigure(b, b))], 0.05)
    assert found.changed == changed


def test_background_traffic_is_no_change_and_a_large_change_comes_first() -> None:
    def value(of: str, a: float, b: float) -> ComparedValue:
        return ComparedValue(of, 3, RATE, WindowFigure(a), WindowFigure(b))

    found = ranked([value("bgp", 800, 1600), value("small", 50e6, 47e6), value("large", 90e6, 20e6)], 0.05)
    assert [(each.of, each.changed) for each in found] == [("large", True), ("small", True), ("bgp", False)]


def test_a_packet_that_a_sample_caught_is_no_change() -> None:
    peak = next(each for each in PORT_COMPARED if each.name == "queue_peak_bytes")
    pairs = (("one packet", 0, 82), ("congested", 0, 80_000), ("full", 200_000, 200_000))
    found = ranked([ComparedValue(of, 3, peak, WindowFigure(a), WindowFigure(b)) for of, a, b in pairs], 0.05)
    assert [each.of for each in found if each.changed] == ["congested"]


def test_figures_have_units_and_signs() -> None:
    count = ComparedValue("x", None, XOFF, WindowFigure(2, 4), WindowFigure(0, 0))
    assert (figure_text(XOFF, count.a), figure_text(XOFF, count.b)) == ("4 (2/s)", "0")
    assert (difference_text(count), percent_text(count)) == ("-2/s", "-100 %")
    new = ComparedValue("x", None, RATE, WindowFigure(0), WindowFigure(2e6))
    assert (difference_text(new), percent_text(new), new.percent) == ("+2 Mb/s", "new", None)


def test_a_peak_is_the_highest_sample_of_the_window(tmp_path: Path) -> None:
    def wave(making: Made, number: int) -> None:
        making.counters("leaf1:swp3")["queue"]["depth_bytes"][3] = 1000 + number

    recording = Recording.open(made(tmp_path, "a", wave))
    peak = next(each for each in PORT_COMPARED if each.name == "queue_peak_bytes")
    counters = WindowCounters(recording, recording.window(until=1.0))
    assert counters.figures(peak)["leaf1:swp3", 3].value == 1000 + SECOND - 1


def test_text_of_recordings_is_no_markup(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>\x1b[31m|x"

    def renamed(path: Path, scenario: str) -> Path:
        files.append_line(Folder(path).notes, {"ns": START, "kind": "phase", "name": scenario})
        return path

    found = compared(renamed(made(tmp_path, "a"), evil), renamed(made(tmp_path, "b", seconds=4), evil))
    text = write_comparison(found, 0.05, every=True)
    page = write_comparison_page(found, 0.05, every=True)
    assert "\x1b" not in text + page
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "default-src 'none'" in page
