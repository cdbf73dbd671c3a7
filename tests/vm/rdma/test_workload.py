"""Work that scenarios have beside plain transfers: TCP and pings in the background, RDMA at a given pace.

The judges are arithmetic and what the ports count, in virtual time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from lab.errors import OperationFailed
from lab.scenario.stage import Stage
from lab.scenario.traffic.background_traffic import pinging, streaming
from lab.telemetry.read.program_series import echoes, received
from lab.telemetry.read.recording import Recording
from lab.telemetry.record.recorder import Recorder
from tests.vm.one_switch import OVERHEAD

if TYPE_CHECKING:
    from pathlib import Path

    from lab.backends.backend import Fabric

pytestmark = [pytest.mark.vm, pytest.mark.backends, pytest.mark.timeout(600)]
LINK = 100e6
SEGMENT = 9000 - 20 - 20 - 12
"""Octets of payload in a TCP segment: without IPv4, TCP, and its timestamps."""
FRAME = 9000 + 14
ROUNDED = 5e-3
"""Seconds that iperf3's times may be wrong by: it tells hundredths. The last interval ends at any time."""
PACE = 500
DELAY = 5e-3


@pytest.fixture(scope="module")
def recorded(incast: Fabric, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """TCP alone and at a tenth of the link, pings with and without delay and loss, messages at a pace."""
    folder = tmp_path_factory.mktemp("worked") / "run"
    with Recorder.begin(folder, incast, state=False) as recorder:
        stage = Stage(incast, recorder, 1, lambda _: None)
        with streaming(stage, "h1:h4"), stage.phase("tcp"):
            stage.hold(2)
        with streaming(stage, "h2:h5", "h3:h6", rate=10_000_000, dscp=26), stage.phase("slow-tcp"):
            stage.hold(2)
        with pinging(stage, "h1:h2", "h3:h4"):
            with stage.phase("pings"):
                stage.hold(1)
            delay = stage.inject("link-delay", "h1:eth1", delay="5ms")
            loss = stage.inject("link-loss", "h3:eth1", one_in=4)
            with stage.phase("worse"):
                stage.hold(2)
            stage.heal(loss)
            stage.heal(delay)
        with stage.writing("h1:h4", size=4096, pace=PACE), stage.phase("paced"):
            stage.hold(2)
    return Recording.open(folder)


def test_tcp_alone_gets_what_its_headers_leave_of_the_link(recorded: Recording) -> None:
    rate = received(recorded, "h1:h4").during("tcp").rate() * 8
    assert rate == pytest.approx(LINK * SEGMENT / (FRAME + OVERHEAD), rel=0.01)


def test_the_series_of_a_stream_is_that_of_its_port(recorded: Recording) -> None:
    stream = received(recorded, "h1:h4").during("tcp")
    sent = recorded.port("leaf1:swp6").tx_bytes()
    at_its_times = np.interp(stream.ns.astype(float), sent.ns.astype(float), sent.values.astype(float))
    payload = np.diff(at_its_times) * SEGMENT / FRAME
    assert len(stream) > 18
    assert np.diff(stream.values.astype(float)) == pytest.approx(payload, abs=ROUNDED * LINK / 8)
    assert np.diff(stream.values.astype(float)).sum() == pytest.approx(payload.sum(), rel=0.005)


def test_a_stream_keeps_to_the_rate_and_class_that_were_asked_for(recorded: Recording) -> None:
    for pair, port in (("h2:h5", "leaf2:swp3"), ("h3:h6", "leaf2:swp4")):
        assert received(recorded, pair).during("slow-tcp").rate() * 8 == pytest.approx(10e6, rel=0.02)
        assert recorded.port(port).tx_packets(3).during("slow-tcp").delta() > 250


def test_pings_tell_delay_and_loss(recorded: Recording) -> None:
    delayed, lossy = echoes(recorded, "h1:h2"), echoes(recorded, "h3:h4")
    before, after = delayed.times.during("pings").values, delayed.times.during("worse").values[1:]
    assert np.median(after) - np.median(before) == pytest.approx(DELAY * 1e9, abs=0.5e6)
    quiet, worse = recorded.phase("pings"), recorded.phase("worse")
    assert lossy.lost(quiet.start, quiet.end) == delayed.lost(quiet.start, worse.end) == 0
    lost, answered = lossy.lost(worse.start, worse.end), len(lossy.times.between(worse.start, worse.end)) - 1
    assert answered > 80
    assert lost == pytest.approx((lost + answered) / 4, abs=2)


def test_messages_are_begun_at_the_pace_that_was_asked_for(recorded: Recording) -> None:
    packets = recorded.port("h1:eth1").tx_packets(3).during("paced").rate()
    assert packets == pytest.approx(PACE, rel=0.01)


def test_a_stream_to_nobody_says_so(incast: Fabric, tmp_path: Path) -> None:
    with Recorder.begin(tmp_path / "run", incast, state=False) as recorder:
        stage = Stage(incast, recorder, 1, lambda _: None)
        cut = stage.inject("link-down", "leaf1:swp6")
        with pytest.raises(OperationFailed, match="h1:h4"), streaming(stage, "h1:h4"):
            pass
        stage.heal(cut)
