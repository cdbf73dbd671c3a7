"""The registry of measures: consistent with the counters that it names, and its reductions with values by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from lab.dataplane import counter_sums, reductions
from lab.dataplane.counter_names import COUNTERS
from lab.dataplane.port_layout import Drop
from lab.errors import UsageError
from lab.kernel.netlink.link_stats import FIELDS
from lab.rdma.device_counters import MEANINGS
from lab.telemetry.read import measures
from lab.telemetry.read.measure_unit import MeasureUnit
from lab.telemetry.read.measures import MEASURES, RAW
from lab.telemetry.read.recording import Recording
from lab.telemetry.read.window_measure import Measure, MeasureScope, Reduction
from lab.telemetry.sample.port_source import _POOL, _TABLES
from tests.unit.telemetry.played import PORT, played

if TYPE_CHECKING:
    from pathlib import Path

OF_PORTS = {counter.name: counter for counter in COUNTERS}
PORT_SCOPES = (MeasureScope.PORT, MeasureScope.PRIORITY, MeasureScope.QUEUE, MeasureScope.GROUP)
SECOND = 10**9


def test_every_counter_that_a_measure_names_exists_in_its_scope() -> None:
    for measure in MEASURES:
        for name in measure.counters:
            if measure.scope in PORT_SCOPES:
                assert OF_PORTS[name].scope.value == measure.scope.value, (measure.name, name)
            else:
                assert name in (MEANINGS if measure.scope is MeasureScope.DEVICE else _POOL), (measure.name, name)
        assert set(measure.links) <= set(FIELDS), measure.name


def test_every_counter_of_a_port_is_in_a_measure_or_is_listed_as_raw() -> None:
    measured = {name for measure in MEASURES if measure.scope in PORT_SCOPES for name in measure.counters}
    assert measured | RAW == set(OF_PORTS)
    assert not measured & RAW


def test_a_measure_is_a_gauge_where_its_counters_are() -> None:
    for measure in MEASURES:
        for name in measure.counters if measure.scope in PORT_SCOPES else ():
            assert OF_PORTS[name].gauge == measure.gauge, (measure.name, name)


def test_a_scope_has_the_table_that_the_sampler_writes() -> None:
    assert {scope.value: table for scope, table in _TABLES.items()} == {
        scope.value: scope.table for scope in PORT_SCOPES
    }


def test_drops_are_for_every_reason_that_the_port_has() -> None:
    assert set(measures.DROP_REASONS) == {reason.name.lower() for reason in Drop}


def test_names_are_unique_and_for_programs_and_titles_for_people() -> None:
    names = [(measure.scope.owner, measure.name) for measure in MEASURES]
    titles = [(measure.scope.owner, measure.title) for measure in MEASURES]
    assert len(set(names)) == len(names)
    assert len(set(titles)) == len(titles)
    for measure in MEASURES:
        assert measure.name == measure.name.lower()
        assert measure.name.isidentifier()
        assert measure.title
        assert measure.meaning


def test_every_module_constant_is_registered() -> None:
    assert {id(each) for each in vars(measures).values() if isinstance(each, Measure)} == {
        id(each) for each in MEASURES
    }


def test_reduction_and_unit_agree() -> None:
    for measure in MEASURES:
        is_rate = measure.unit.per_second or measure.unit is MeasureUnit.BITS_PER_SECOND
        assert is_rate == (measure.reduction is Reduction.RATE), measure.name
        assert (measure.unit is MeasureUnit.SHARE) == (measure.reduction is Reduction.SHARE), measure.name


def of(measure: Measure, values: list[int], *seconds: float) -> float:
    ns = np.array([round(second * SECOND) for second in seconds], np.int64)
    return float(measure.reduce(np.array(values, np.uint64), ns))


@pytest.mark.parametrize(
    ("measure", "values", "seconds", "expected"),
    [
        (measures.TX_BYTES, [100, 350, 600], (0, 1, 4), 500),
        (measures.TX_RATE, [100, 350, 600], (0, 1, 4), 500 * 8 / 4),
        (measures.DROP_RATE, [7, 7, 17], (0, 1, 4), 2.5),
        (measures.PAUSED, [0, 500_000, 1_000_000], (0, 1, 4), 0.25),
        (measures.PAUSED_SECONDS, [0, 500_000, 1_000_000], (0, 1, 4), 1.0),
        (measures.QUEUE_BYTES, [5, 900, 40], (0, 1, 4), 40),
        (measures.QUEUE_PEAK, [5, 900, 40], (0, 1, 4), 900),
        # A device that was made anew begins at 0: what it counted before and after both count, the fall does not.
        (measures.TX_BYTES, [100, 150, 3, 10], (0, 1, 2, 4), 57),
        (measures.TX_RATE, [100, 150, 3, 10], (0, 1, 2, 4), 57 * 8 / 4),
        # Values above 2^63, and a fall from there.
        (measures.TX_BYTES, [2**63 - 1, 2**63 + 1], (0, 1), 2),
        (measures.TX_BYTES, [2**64 - 1, 4, 9], (0, 1, 2), 5),
        # More time counted than passed, as where a pause is renewed while it is read.
        (measures.PAUSED, [0, 1_000_400], (0, 1), 1.0004),
        # One sample, and two at one time.
        (measures.TX_BYTES, [70], (1,), 0),
        (measures.TX_RATE, [70], (1,), 0),
        (measures.PAUSED, [70], (1,), 0),
        (measures.QUEUE_BYTES, [70], (1,), 70),
        (measures.QUEUE_PEAK, [70], (1,), 70),
        (measures.TX_RATE, [70, 90], (1, 1), 0),
        # No sample.
        (measures.TX_BYTES, [], (), 0),
        (measures.TX_RATE, [], (), 0),
        (measures.PAUSED, [], (), 0),
        (measures.QUEUE_BYTES, [], (), 0),
        (measures.QUEUE_PEAK, [], (), 0),
    ],
)  # fmt: skip
def test_a_window_becomes_a_value(
    measure: Measure, values: list[int], seconds: tuple[float, ...], expected: float
) -> None:
    assert of(measure, values, *seconds) == pytest.approx(expected)


def test_many_ports_are_reduced_at_once() -> None:
    values = np.array([[0, 10, 50], [4, 10, 20], [8, 30, 21]], np.uint64)
    ns = np.array([0, SECOND, 2 * SECOND])
    assert measures.ECN_MARKED.reduce(values, ns).tolist() == [8, 20, 1]
    assert measures.MARK_RATE.reduce(values, ns).tolist() == [4, 10, 0.5]
    assert measures.QUEUE_PEAK.reduce(values, ns).tolist() == [8, 30, 50]
    assert measures.QUEUE_BYTES.reduce(values[:0], ns[:0]).tolist() == [0, 0, 0]
    assert measures.ECN_MARKED.combine(np.array([8.0, 20.0, 1.0])) == 29
    assert measures.PAUSED.combine(np.array([0.1, 0.4, 0.2])) == 0.4
    assert measures.QUEUE_PEAK.combine(np.array([8.0, 30.0])) == 30
    assert measures.PAUSED.combine(np.zeros(0)) == 0


def test_rates_from_sample_to_sample() -> None:
    values, ns = np.array([5, 8, 2, 6, 6], np.uint64), np.array([0, SECOND // 2, SECOND, 3 * SECOND, 3 * SECOND])
    assert reductions.step_rates(values, ns).tolist() == [6, 0, 2, 0]
    assert reductions.step_rates(values[:1], ns[:1]).tolist() == []
    # Since the last sample a second or more before: 8 to 2 is a reset, and the first has none before it.
    assert reductions.lagged_rates(values, ns, SECOND).tolist() == [0, 6, 0, 2, 2]
    assert reductions.lagged_rates(values[:0], ns[:0], SECOND).tolist() == []


@pytest.mark.parametrize(
    ("measure", "value", "text"),
    [
        (measures.TX_RATE, 97_300_000.4, "97.3 Mb/s"),
        (measures.QUEUE_PEAK, 361_500.0, "361.5 KB"),
        (measures.PAUSED, 0.1234, "12.3%"),
        (measures.PAUSED_SECONDS, 2.969, "2.969 s"),
        (measures.DROP_RATE, 2.25, "2.2"),
        (measures.DROP_RATE, 1234.4, "1234"),
        (measures.DROPPED, 7.0, "7"),
    ],
)
def test_a_value_is_written_with_its_unit(measure: Measure, value: float, text: str) -> None:
    assert measure.format(value) == text


def test_a_measure_names_the_series_that_it_comes_from() -> None:
    assert measures.PAUSED.series(3) == "rx_prio3_pause_duration"
    assert measures.DROPPED.series(3) == "queue3_drop_*_packets"
    assert measures.TX_RATE.series() == "tx_bytes"
    assert measures.NAK_RX.series() == "rcvd_seq_err"
    assert measures.TX_RATE.columns == (("priorities", "tx_prio_bytes"), ("interfaces", "tx_bytes"))


def test_a_recording_gives_the_value_of_a_measure(tmp_path: Path) -> None:
    """Of ``played``: 40 samples, 50 ms apart, in the phase ``inject``, each with a little more than the last."""
    recording = Recording.open(played(tmp_path / "run").finished())
    port, phase = recording.port(PORT), recording.phase("inject")
    assert port.value(measures.TX_BYTES, phase, 3) == sum(1000 * number for number in range(1, 41))
    assert port.value(measures.TX_BYTES, phase) == sum(1000 * number for number in range(1, 41)) + 40 * 77
    assert port.value(measures.TX_RATE, phase, 3) == pytest.approx(820_000 * 8 / phase.seconds)
    assert port.value(measures.DROPPED, phase) == 40 + 3 * 40
    assert port.value(measures.DROPPED, phase, 2) == 3 * 40
    assert port.value(measures.PAUSED, phase, 3) == pytest.approx(0.4 / phase.seconds)
    assert port.value(measures.PAUSED, phase) == port.value(measures.PAUSED, phase, 3)
    assert port.value(measures.QUEUE_PEAK, phase) == 300 * 40
    assert port.value(measures.QUEUE_BYTES) == 0
    assert port.value(measures.PFC_RX) == 0
    device = recording.rdma("h1")
    assert device.value(measures.OUT_OF_SEQUENCE, phase) == 40
    assert device.counts(measures.NAK_RX)
    assert not device.counts(measures.RNR_NAK_RX)
    with pytest.raises(UsageError, match="has no counter rcvd_rnr_err"):
        device.value(measures.RNR_NAK_RX)
    with pytest.raises(UsageError, match="needs a priority"):
        port.series(measures.PAUSED)


@pytest.mark.parametrize(
    ("figure", "measure"),
    [
        ("drops", measures.DROPPED),
        ("pauses", measures.XOFF_TX),
        ("marks", measures.ECN_MARKED),
        ("ignored", measures.XOFF_IGNORED),
        ("storms", measures.STORMS),
    ],
)
def test_what_an_expectation_adds_up_is_the_measure(figure: str, measure: Measure) -> None:
    wanted = {name.replace("{n}", str(number)) for name in measure.counters for number in range(8)}
    assert counter_sums.counters_of(figure) == wanted


def test_a_share_shows_by_how_much_it_is_too_high() -> None:
    """Counters that are read 5 ms behind their sample grow by up to 5 ms more than the window is long."""
    share = measures.PAUSED.of_growth(105_000, 0.1)
    assert share == pytest.approx(1.05)
    assert measures.PAUSED.format(float(share)).startswith("105")
