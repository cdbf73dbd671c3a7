"""Each counter moves the families that are documented for it, and no other; values are those of ``counters``."""

from __future__ import annotations

import re

import numpy as np
import pytest

from lab.dataplane.counter_names import COUNTERS, CounterScope, PortCounter
from lab.model.load import load_topology
from lab.rdma.device_counters import MEANINGS
from lab.telemetry.metrics.counter_metrics import CounterMetrics
from lab.telemetry.metrics.metric_families import FAMILIES, MetricOwner
from lab.telemetry.read.window_measure import LINK_TABLE
from tests.unit.model.qos.fabrics import fabric
from tests.unit.telemetry.metrics.made_metrics import MadeFabric, Series

PORTS = {"h1:eth1": MetricOwner.HOSTS, "leaf1:swp3": MetricOwner.SWITCHES}
NUMBER = 3
"""A lossless priority of the preset."""


def families_of(counter: str, owner: MetricOwner) -> set[str]:
    """The families of a kind of node with this counter behind them, as ``metrics ls`` says it."""
    owners = {owner, MetricOwner.NODES}
    return {each.name for each in FAMILIES if counter in each.behind.split(", ") and each.owner in owners}


def moved(before: Series, after: Series) -> dict[str, float]:
    """By how much each family has moved; a family with several series that moved fails."""
    changed = [(name, value - before.get((name, labels), 0)) for (name, labels), value in after.items()]
    found = [(name, change) for name, change in changed if change]
    assert len(dict(found)) == len(found), found
    assert before.keys() <= after.keys()
    return dict(found)


@pytest.mark.parametrize("end", PORTS)
@pytest.mark.parametrize("counter", COUNTERS, ids=lambda counter: counter.name_of("N"))
def test_one_event_moves_its_own_families_and_no_other(counter: PortCounter, end: str) -> None:
    made = MadeFabric(fabric("paper"))
    before = made.scrape()
    record = counter.record(made.counters(end))
    if counter.scope is not CounterScope.PORT:
        record = record[NUMBER : NUMBER + 1][0]
    if counter.reason is None:
        record[counter.field] += counter.unit
    else:
        record[counter.field][counter.reason] += counter.unit
    found = moved(before, made.scrape())
    assert found.keys() == families_of(counter.name_of("N"), PORTS[end])
    assert {round(each, 12) for each in found.values()} <= {1, 1e-6}


@pytest.mark.parametrize("counter", MEANINGS)
def test_one_event_of_a_device_likewise(counter: str) -> None:
    made = MadeFabric(fabric("pfc-ecn"))
    before = made.scrape()
    made.devices.counted[0, list(MEANINGS).index(counter)] += 1
    assert moved(before, made.scrape()) == dict.fromkeys(families_of(counter, MetricOwner.HOSTS), 1)


def test_values_are_those_that_counters_shows() -> None:
    made = MadeFabric(fabric("paper"))
    made.words[:] = np.arange(1, made.words.size + 1).reshape(made.words.shape)
    made.maps.counters["priority"]["paused_from"] = made.maps.counters["priority"]["paused_until"] = 0
    named = made.named()
    checked = 0
    for (family, labels), value in made.scrape().items():
        known = next(each for each in FAMILIES if each.name == family)
        of = dict(zip(known.label_names, labels, strict=True))
        counted = named.get((of["instance"], of.get("netdev") or of["device"].rpartition(".")[2]))
        if counted is None or known.parts[0].total or known.parts[0].table == "rdma":
            continue
        number = of.get("priority") or of.get("queue") or of.get("pg") or ""
        (part,) = [each for each in known.parts if set(each.values) <= set(labels)]
        assert value == pytest.approx(counted[part.shown.replace("N", number)] * part.scale, rel=1e-15)
        checked += 1
    assert checked > 500


def test_traffic_of_all_priorities_is_that_of_the_interface() -> None:
    made = MadeFabric(fabric("pfc-ecn"))
    for priority, size in ((0, 100), (3, 1000)):
        made.counters("leaf1:swp3")["priority"]["rx_bytes"][priority] += size
    assert made.scrape()["node_network_receive_bytes_total", ("leaf1", "swp3")] == 1100


def test_what_cannot_count_is_absent() -> None:
    """Without congestion control a NIC sends no CNPs; without RDMA a host has no device; links have no queues."""
    assert not {name for name, _ in MadeFabric(fabric("pfc-ecn")).scrape() if re.match(r"rdma_([nr]p|cc_tx)_", name)}
    shape = "generate: {shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 1, rdma: false}"
    text = f"name: t\n{shape}\nqos: pfc-ecn\n"
    made = MadeFabric(load_topology(text))
    assert not made.devices.counted.size
    assert not {name for name, _ in made.scrape() if name.startswith(("rdma_", "node_infiniband"))}


def test_idle_priorities_are_absent_until_they_count() -> None:
    made = MadeFabric(fabric("pfc-ecn"))
    series = ("sonic_queue_packets_total", ("leaf1", "swp3", "0"))
    assert series not in made.scrape()
    made.counters("leaf1:swp3")["queue"]["sent_packets"][0] += 1
    assert made.scrape()[series] == 1


def test_a_gauge_that_falls_to_0_stays() -> None:
    made = MadeFabric(fabric("pfc-ecn"))
    series = ("sonic_queue_curr_occupancy_bytes", ("leaf1", "swp3", "0"))
    depth = made.counters("leaf1:swp3")["queue"]["depth_bytes"]
    values = []
    for value in (0, 9000, 0):
        depth[0] = value
        values.append(made.scrape().get(series))
    assert values == [None, 9000, 0]


def test_counters_of_plain_links() -> None:
    families = {
        "rx_bytes": "receive_bytes", "rx_packets": "receive_packets", "rx_dropped": "receive_drop",
        "rx_errors": "receive_errs", "tx_bytes": "transmit_bytes", "tx_packets": "transmit_packets",
        "tx_dropped": "transmit_drop", "tx_errors": "transmit_errs",
    }  # fmt: skip
    links = [("leaf1", "swp3"), ("h1", "eth1")]
    metrics = CounterMetrics({LINK_TABLE: links}, {LINK_TABLE: set(families)}, fabric("pfc-ecn"), {})
    counted = {column: np.array([number, number + 100], np.uint64) for number, column in enumerate(families)}
    found = {each.family.name: each for each in metrics.look(lambda _, column: counted[column])}
    assert all(each.labels == links for each in found.values())
    assert {name: list(each.values) for name, each in found.items()} == {
        f"node_network_{name}_total": counted[column].tolist() for column, name in families.items()
    }


def test_the_series_of_104_nodes_are_bounded() -> None:
    """640 ports with one lossless priority, then with all eight priorities in use."""
    shape = "generate: {shape: leaf-spine, spines: 8, leaves: 32, hosts_per_leaf: 2}"
    made = MadeFabric(load_topology(f"name: t\n{shape}\nqos: pfc-ecn\n"))
    assert 10_000 < len(made.scrape()) < 20_000
    made.words[:] = 1
    assert len(made.scrape()) < 110_000
