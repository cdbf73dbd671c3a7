"""Presets against the sheet they are taken from, and against what must hold on every link."""

from dataclasses import replace

import pytest

from lab.model.qos.advice import advise
from lab.model.qos.check import node_faults, port_faults
from lab.model.qos.port import DSCPS, members
from lab.model.qos.presets import CNP_DSCP, FLOOR_PACKETS, PRESETS, ROCE_DSCP, Preset
from lab.model.qos.resolve import resolve
from tests.unit.model.qos.fabrics import fabric, node, port

RATES = ("20Mbit", "100Mbit", "1Gbit", "10Gbit", "25Gbit")
KB, GBIT = 1000, 10**9
SHEET = {
    "lab": (10**8, 40 * KB, 160 * KB, 0.1),
    "pfc-ecn": (10**8, 40 * KB, 160 * KB, 0.1),
    "sonic": (100 * GBIT, 2**20, 2 * 2**20, 0.05),
    "nvidia": (400 * GBIT, 150 * KB, 1500 * KB, 1.0),
    "cisco": (400 * GBIT, 150 * KB, 3000 * KB, 0.07),
    "dcqcn-thresholds": (40 * GBIT, 5 * KB, 200 * KB, 0.01),
    "hpcc-thresholds": (25 * GBIT, 100 * KB, 400 * KB, 0.2),
    "paper": (40 * GBIT, 5 * KB, 200 * KB, 0.01),
    "connectx": (25 * GBIT, 150 * KB, 1500 * KB, 1.0),
    "lossy": (25 * GBIT, 150 * KB, 1500 * KB, 1.0),
    "hpcc": (25 * GBIT, 100 * KB, 400 * KB, 0.2),
    "hpcc-paper": (25 * GBIT, 100 * KB, 400 * KB, 0.2),
    "timely": (10 * GBIT, 62.5 * KB, 625 * KB, 1.0),
    "off": (40 * GBIT, 5 * KB, 200 * KB, 0.01),
}
EACH = pytest.mark.parametrize("name", PRESETS)
SCALED = pytest.mark.parametrize("name", [name for name, preset in PRESETS.items() if not preset.bytes_stay])
"""Presets whose thresholds grow with the rate; the others keep their bytes."""


def test_the_sheet_is_complete() -> None:
    assert set(SHEET) == set(PRESETS)


@EACH
def test_at_its_own_rate_a_preset_is_the_sheet(name: str) -> None:
    rate, kmin, kmax, pmax = SHEET[name]
    queue = PRESETS[name].port(rate, 1500, 0.0).queues[3]
    assert (queue.ecn.kmin, queue.ecn.kmax, queue.ecn.pmax) == (kmin, kmax, pmax)


@SCALED
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("mtu", [1500, 9000])
def test_ratios_and_floors_hold_on_every_link(name: str, rate: str, mtu: int) -> None:
    preset, leaf = PRESETS[name], node(name, rate=rate, extra=f"overrides: {{leaf1--h1: {{mtu: {mtu}}}}}")
    qos = leaf.ports["swp3"]
    ecn = qos.queues[3].ecn
    assert ecn.enabled
    assert ecn.kmax / ecn.kmin == pytest.approx(preset.kmax / preset.kmin, rel=1e-3)
    assert ecn.kmin >= FLOOR_PACKETS * min(mtu + 18, 4218)
    assert ecn.kmin * 8 / qos.rate >= preset.kmin * 8 / preset.rate * (1 - 1e-3), "a queue lasts as long, or longer"
    assert qos.groups[3].alone(leaf.shared) >= 1.25 * ecn.kmax * (1 - 1e-3)


@SCALED
@pytest.mark.parametrize("rate", RATES)
def test_every_preset_can_hold_and_raises_no_warning(name: str, rate: str) -> None:
    topology = fabric(name, rate=rate, extra="overrides: {leaf1--spine1: {rate: 5Mbit}, leaf2--h3: {mtu: 1500}}")
    assert not [fault for qos in resolve(topology).values() for fault in node_faults(qos)]
    assert advise(topology) == ()


@pytest.mark.parametrize("name", sorted(set(PRESETS) - {"lossy"}))
def test_roce_is_lossless_and_nothing_unmarked_is(name: str) -> None:
    qos = port(name)
    assert qos.dscp_to_priority[ROCE_DSCP] in members(qos.pfc.priorities)
    assert qos.dscp_to_priority[0] not in members(qos.pfc.priorities)
    assert qos.dscp_to_priority[CNP_DSCP] not in members(qos.pfc.priorities)
    assert len(qos.dscp_to_priority) == DSCPS


def test_lossy_marks_like_connectx_and_pauses_nothing() -> None:
    """The only difference is PFC, and with it the headroom that a pause needs."""
    lossy, lossless = node("lossy"), node("connectx")
    here, there = lossy.ports["swp3"], lossless.ports["swp3"]
    assert here.pfc.priorities == 0
    assert here.lossless_groups == here.lossless_queues == 0
    assert here == replace(there, pfc=replace(there.pfc, priorities=0))
    assert lossy.shared == lossless.shared
    assert lossless.pool - lossy.pool == sum(port.groups[3].headroom for port in lossless.ports.values())
    assert port("lossy", "h1:eth1").cc == port("connectx", "h1:eth1").cc is not None


def test_cnps_need_a_queue_apart_from_lossy_roce() -> None:
    here = port("lossy", "h1:eth1")
    shared = replace(here, priority_to_queue=(0, 1, 2, 3, 4, 5, 3, 7), priority_to_group=here.priority_to_group)
    (fault,) = port_faults(shared)
    assert "cnp_dscp 48 has priority 6 in queue 3, shared with RoCE, priority 3" in fault.message
    assert not list(port_faults(here))


@pytest.mark.parametrize("name", sorted(set(PRESETS) - {"sonic"}))
def test_cnp_and_control_have_a_strict_queue_of_their_own(name: str) -> None:
    """SONiC's default gives DSCP 48 an ordinary DWRR queue, and so does its preset."""
    qos = port(name)
    queue = qos.priority_to_queue[qos.dscp_to_priority[CNP_DSCP]]
    assert qos.queues[queue].strict
    assert not qos.lossless_queues >> queue & 1


def test_lab_is_long_enough_to_see_and_short_of_a_retransmission() -> None:
    """perftest's QPs wait 4.096 us x 2^14 for an acknowledgement (IBA vol. 1, local ACK timeout)."""
    leaf, qos = node("pfc-ecn"), port("pfc-ecn")
    milliseconds = 8e3 / qos.rate
    assert qos.queues[3].ecn.kmin * milliseconds == pytest.approx(3.2)
    assert qos.queues[3].ecn.kmax * milliseconds == pytest.approx(12.8)
    assert leaf.shared * milliseconds * 2 <= 4.096e-3 * 2**14
    assert qos.groups[3].headroom * milliseconds >= 10


def test_a_preset_that_marks_after_pausing_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail: without the 5/4 between Kmax and XOFF it does."""
    monkeypatch.setattr(Preset, "shared", lambda self, rate, mtu: self.kmax * self.scale(rate, mtu) // 1)
    assert any(advice.field == "ecn.3.kmax" for advice in advise(fabric("pfc-ecn")))


@pytest.mark.parametrize("name", [name for name, preset in PRESETS.items() if preset.bytes_stay])
@pytest.mark.parametrize("rate", RATES)
def test_presets_in_bytes_can_hold_and_raise_no_warning_with_small_packets(name: str, rate: str) -> None:
    uplinks = [f"{leaf}--{spine}" for leaf in ("leaf1", "leaf2") for spine in ("spine1", "spine2")]
    links = [*uplinks, "leaf1--h1", "leaf1--h2", "leaf2--h3", "leaf2--h4"]
    small = ", ".join(f"{link}: {{mtu: 1500}}" for link in links)
    topology = fabric(name, rate=rate, extra=f"overrides: {{{small}}}")
    nodes = resolve(topology)
    assert not [fault for qos in nodes.values() for fault in node_faults(qos)]
    assert advise(topology) == ()
    marks = nodes["leaf1"].ports["swp3"].queues[3].ecn
    assert nodes["leaf1"].ports["swp3"].groups[3].alone(nodes["leaf1"].shared) >= 1.25 * marks.kmax * (1 - 1e-3)
